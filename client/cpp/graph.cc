#include "client/cpp/graph.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "client/cpp/elementwise.h"
#include "client/cpp/movement.h"

namespace kiln::client {

v1::DType Tensor::dtype() const { return valid() ? graph_->nodes_[node_].dtype : v1::DTYPE_UNSPECIFIED; }

const Shape& Tensor::shape() const {
  static const Shape kScalar;
  return valid() ? graph_->nodes_[node_].shape : kScalar;
}

int64_t Tensor::dim(int64_t axis) const {
  if (axis < 0) axis += rank();
  return axis >= 0 && axis < rank() ? shape()[axis] : 0;
}

Tensor Tensor::Tag(absl::string_view tag) const {
  if (valid()) graph_->nodes_[node_].uop.set_tag(std::string(tag));
  return *this;
}

absl::StatusOr<v1::ConstArg> Scalar::In(v1::DType dtype) const {
  v1::ConstArg arg;
  arg.set_dtype(dtype);
  const bool whole = integral_ || (std::trunc(real_) == real_ && std::abs(real_) < 9.2e18);
  const bool negative = integral_ ? negative_ : real_ < 0;
  const uint64_t bits = integral_ ? bits_ : whole ? static_cast<uint64_t>(static_cast<int64_t>(real_)) : 0;
  if (IsFloat(dtype)) {
    arg.set_f(real_);
  } else if (dtype == v1::BOOL && whole && bits <= 1) {
    arg.set_b(bits == 1);
  } else if (IsSigned(dtype) && whole && (negative ? ~bits : bits) <= GreatestInteger(dtype)) {
    arg.set_i(static_cast<int64_t>(bits));
  } else if (IsInteger(dtype) && !IsSigned(dtype) && whole && !negative && bits <= GreatestInteger(dtype)) {
    arg.set_u(bits);
  } else {
    const std::string text =
        integral_ ? (negative_ ? absl::StrCat(static_cast<int64_t>(bits_)) : absl::StrCat(bits_)) : absl::StrCat(real_);
    return MakeError(v1::BAD_ARGUMENT, absl::StrCat("the constant ", text, " is no ", DTypeName(dtype),
                                                    "; write one that fits, or Cast the tensor"));
  }
  return arg;
}

absl::Status CheckDevices(absl::string_view function, const Devices& devices, const Shape& shape) {
  for (size_t i = 0; i < devices.size(); ++i) {
    if (std::find(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(i), devices[i]) ==
        devices.begin() + static_cast<std::ptrdiff_t>(i))
      continue;
    return MakeError(v1::BAD_ARGUMENT, absl::StrCat(function, ": ", devices[i], " is there twice"));
  }
  if (devices.size() < 2) return absl::OkStatus();
  if (shape.empty()) {
    return MakeError(v1::UNSUPPORTED_SHARD, absl::StrCat(function, ": a tensor of shape () has no axis to split"));
  }
  const auto parts = static_cast<int64_t>(devices.size());
  if (shape[0] % parts == 0) return absl::OkStatus();
  return MakeError(v1::UNSUPPORTED_SHARD,
                   absl::StrCat(function, ": ", shape[0], " rows are not ", parts, " equal shares; Pad the axis"));
}

Tensor Graph::Param(uint32_t slot, v1::DType dtype, const Shape& shape, absl::string_view name,
                    const Devices& devices) {
  if (DTypeSize(dtype) == 0) {
    return Fail(v1::BAD_ARGUMENT, "Param", absl::StrCat(DTypeName(dtype), " is no dtype a parameter can have"));
  }
  if (absl::Status status = CheckDevices("Param", devices, shape); !status.ok()) return Fail(status);
  const auto [it, inserted] = slots_.try_emplace(slot, Slot{dtype, shape, devices});
  if (!inserted && (it->second.dtype != dtype || it->second.shape != shape)) {
    return Fail(v1::SHAPE_MISMATCH, "Param",
                absl::StrCat("slot ", slot, " is ", TypeText(it->second.dtype, it->second.shape), " already, not ",
                             TypeText(dtype, shape)));
  }
  if (it->second.devices != devices) {
    return Fail(v1::BAD_ARGUMENT, "Param",
                absl::StrCat("slot ", slot, " is on (", absl::StrJoin(it->second.devices, ", "), ") already, not on (",
                             absl::StrJoin(devices, ", "), ")"));
  }
  v1::UOp uop;
  uop.set_op(v1::PARAM);
  uop.add_src(ShapeSource(shape));
  uop.mutable_buffer()->set_slot(slot);
  uop.mutable_buffer()->set_dtype(dtype);
  uop.mutable_buffer()->set_name(std::string(name));
  uop.mutable_buffer()->mutable_device()->Assign(devices.begin(), devices.end());
  return Node(std::move(uop), dtype, shape);
}

Tensor Graph::Constant(Scalar value, v1::DType dtype) {
  absl::StatusOr<v1::ConstArg> arg = value.In(dtype);
  if (!arg.ok()) return Fail(arg.status());
  v1::UOp uop;
  uop.set_op(v1::CONST);
  *uop.mutable_constant() = *std::move(arg);
  return Node(std::move(uop), dtype, {});
}

Tensor Graph::Constants(const std::vector<double>& values, v1::DType dtype) {
  v1::UOp stack;
  stack.set_op(v1::STACK);
  if (values.empty()) return Zeros({0}, dtype);
  for (const double value : values) {
    const Tensor element = Constant(value, dtype);
    if (!element.valid()) return element;
    stack.add_src(element.node());
  }
  return Node(std::move(stack), dtype, {static_cast<int64_t>(values.size())});
}

Tensor Graph::Full(const Shape& shape, Scalar value, v1::DType dtype) {
  return BroadcastTo(Constant(value, dtype), shape);
}

// A number is the sum of its binary digits, and each digit is a two-element axis
// of its own: log2(count) additions that broadcast against each other, where
// tinyspec's definition (a prefix sum over ones) would add count² elements.
Tensor Graph::Arange(int64_t count, v1::DType dtype) {
  if (count < 0) return Fail(v1::BAD_ARGUMENT, "Arange", absl::StrCat(count, " elements"));
  if (!IsInteger(dtype) && !IsFloat(dtype)) {
    return Fail(v1::DTYPE_MISMATCH, "Arange", absl::StrCat("of numbers, not of ", DTypeName(dtype)));
  }
  if (count == 0) return Zeros({0}, dtype);
  if (IsInteger(dtype) && static_cast<uint64_t>(count - 1) > GreatestInteger(dtype)) {
    return Fail(v1::BAD_ARGUMENT, "Arange", absl::StrCat(count - 1, " does not fit in ", DTypeName(dtype)));
  }
  int64_t digits = 0;
  while (digits < 62 && (int64_t{1} << digits) < count) ++digits;
  Tensor sum = Full(Shape(digits, 1), 0, dtype);
  for (int64_t digit = 0; digit < digits; ++digit) {
    const double weight = static_cast<double>(int64_t{1} << digit);
    Shape axis(digits, 1);
    axis[digits - 1 - digit] = 2;
    sum = sum + Reshape(Constants({0, weight}, dtype), axis);
  }
  return Shrink(Reshape(sum, {int64_t{1} << digits}), {{0, count}});
}

bool Graph::CheckAssign(absl::string_view function, Tensor param, Tensor value) {
  if (!param.valid() || !value.valid()) return false;
  const v1::UOp& uop = nodes_[param.node()].uop;
  const v1::UOp& base = uop.op() == v1::REPLICATED ? nodes_[uop.src(0)].uop : uop;
  if (base.op() != v1::PARAM) {
    Fail(v1::BAD_ARGUMENT, function, "only a parameter can be updated; this is a computed value");
    return false;
  }
  if (param.dtype() != value.dtype()) {
    Fail(v1::DTYPE_MISMATCH, function,
         absl::StrCat("the parameter is ", DTypeName(param.dtype()), ", the value ", DTypeName(value.dtype())));
    return false;
  }
  if (param.shape() != value.shape()) {
    Fail(v1::SHAPE_MISMATCH, function,
         absl::StrCat("the parameter is ", ShapeText(param.shape()), ", the value ", ShapeText(value.shape())));
    return false;
  }
  return true;
}

Tensor Graph::Assign(Tensor param, Tensor value) {
  if (!CheckAssign("Assign", param, value)) return Tensor(this, Tensor::kNone);
  const Tensor store = Node(v1::STORE, {param.node(), value.node()}, v1::VOID, {});
  return Node(v1::AFTER, {param.node(), store.node()}, param.dtype(), param.shape());
}

void Graph::Output(Tensor value) {
  if (value.valid()) {
    outputs_.push_back(value.node());
  } else if (status_.ok()) {
    Fail(v1::BAD_ARGUMENT, "Output", "of a tensor that was never made");
  }
}

void Graph::Update(Tensor param, Tensor value) {
  if (!CheckAssign("Update", param, value)) return;
  outputs_.push_back(Node(v1::STORE, {param.node(), value.node()}, v1::VOID, {}).node());
}

absl::StatusOr<v1::Graph> Graph::Build() const {
  if (!status_.ok()) return status_;
  if (outputs_.empty()) {
    return MakeError(v1::BAD_ROOT, "Build: the graph has neither a result (Output) nor an update (Update)");
  }
  // Sources come before their users, so one pass from the back finds all that is
  // needed.
  std::vector<bool> needed(nodes_.size(), false);
  for (const uint32_t node : outputs_) needed[node] = true;
  for (size_t node = nodes_.size(); node-- > 0;) {
    if (!needed[node]) continue;
    for (const uint32_t source : nodes_[node].uop.src()) needed[source] = true;
  }
  v1::Graph graph;
  std::vector<uint32_t> number(nodes_.size(), 0);
  for (size_t node = 0; node < nodes_.size(); ++node) {
    if (!needed[node]) continue;
    number[node] = static_cast<uint32_t>(graph.nodes_size());
    v1::UOp& uop = *graph.add_nodes();
    uop = nodes_[node].uop;
    for (uint32_t& source : *uop.mutable_src()) source = number[source];
  }
  v1::UOp& root = *graph.add_nodes();
  root.set_op(v1::TUPLE);
  for (const uint32_t node : outputs_) root.add_src(number[node]);
  return graph;
}

Tensor Graph::Node(v1::UOp uop, v1::DType dtype, Shape shape) {
  if (!ByteCount(dtype, shape).has_value()) {
    return Fail(v1::SIZE_OVERFLOW, v1::Op_Name(uop.op()),
                absl::StrCat("a tensor of ", TypeText(dtype, shape), " has no size any memory could hold"));
  }
  const auto [it, inserted] = interned_.try_emplace(uop.SerializeAsString(), static_cast<uint32_t>(nodes_.size()));
  if (inserted) nodes_.push_back({std::move(uop), dtype, std::move(shape)});
  return Tensor(this, it->second);
}

Tensor Graph::Node(v1::Op op, const std::vector<uint32_t>& sources, v1::DType dtype, Shape shape) {
  v1::UOp uop;
  uop.set_op(op);
  for (const uint32_t source : sources) uop.add_src(source);
  return Node(std::move(uop), dtype, std::move(shape));
}

uint32_t Graph::ShapeSource(const Shape& shape) {
  std::vector<uint32_t> axes;
  for (const int64_t size : shape) {
    v1::UOp axis;
    axis.set_op(v1::CONST);
    axis.mutable_constant()->set_dtype(v1::WEAKINT);
    axis.mutable_constant()->set_i(size);
    axes.push_back(Node(std::move(axis), v1::WEAKINT, {}).node());
  }
  return Node(v1::STACK, axes, v1::WEAKINT, {static_cast<int64_t>(shape.size())}).node();
}

Tensor Graph::Fail(v1::ErrorCode code, absl::string_view function, absl::string_view message) {
  return Fail(MakeError(code, absl::StrCat(function, ": ", message)));
}

Tensor Graph::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
  return Tensor(this, Tensor::kNone);
}

}  // namespace kiln::client
