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

const Sizes& Tensor::sizes() const {
  static const Sizes kScalar;
  return valid() ? graph_->nodes_[node_].sizes : kScalar;
}

Size Tensor::size(int64_t axis) const {
  if (axis < 0) axis += rank();
  return axis >= 0 && axis < rank() ? sizes()[axis] : 0;
}

const Shape& Tensor::shape() const {
  static const Shape kScalar;
  if (!valid()) return kScalar;
  if (!sizes().IsConst()) {
    graph_->Fail(v1::BAD_ARGUMENT, "shape", absl::StrCat(ShapeText(sizes()), " depends on variables; sizes() has it"));
  }
  return graph_->nodes_[node_].shape;
}

int64_t Tensor::dim(int64_t axis) const {
  const Size size = this->size(axis);
  if (const std::optional<int64_t> number = size.number()) return *number;
  graph_->Fail(v1::BAD_ARGUMENT, "dim",
               absl::StrCat("axis ", axis, " of ", ShapeText(sizes()), " depends on variables; size() has it"));
  return size.greatest();
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

absl::Status CheckDevices(absl::string_view function, const Devices& devices, const Sizes& shape) {
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
  if (shape[0].DividedBy(parts)) return absl::OkStatus();
  return MakeError(v1::UNSUPPORTED_SHARD, absl::StrCat(function, ": ", shape[0].Text(), " rows are not ", parts,
                                                       " equal shares; Pad the axis"));
}

bool Graph::TakeSlot(absl::string_view function, uint32_t slot, const Slot& wanted) {
  const auto [it, inserted] = slots_.try_emplace(slot, wanted);
  if (inserted) return true;
  const Slot& held = it->second;
  const auto text = [](const Slot& one) {
    if (!one.variable) return TypeText(one.dtype, one.shape);
    return absl::StrCat("the variable ", Size(*one.variable).Text(), " from ", one.variable->least, " to ",
                        one.variable->greatest);
  };
  if (held.dtype != wanted.dtype || held.shape != wanted.shape || held.variable != wanted.variable) {
    Fail(v1::SHAPE_MISMATCH, function, absl::StrCat("slot ", slot, " is ", text(held), " already, not ", text(wanted)));
    return false;
  }
  if (held.devices != wanted.devices) {
    Fail(v1::BAD_ARGUMENT, function,
         absl::StrCat("slot ", slot, " is on (", absl::StrJoin(held.devices, ", "), ") already, not on (",
                      absl::StrJoin(wanted.devices, ", "), ")"));
    return false;
  }
  return true;
}

Tensor Graph::Param(uint32_t slot, v1::DType dtype, const Sizes& shape, absl::string_view name,
                    const Devices& devices) {
  if (DTypeSize(dtype) == 0) {
    return Fail(v1::BAD_ARGUMENT, "Param", absl::StrCat(DTypeName(dtype), " is no dtype a parameter can have"));
  }
  if (absl::Status status = CheckDevices("Param", devices, shape); !status.ok()) return Fail(status);
  if (!TakeSlot("Param", slot, {dtype, shape, devices})) return Tensor(this, Tensor::kNone);
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

Tensor Graph::Full(const Sizes& shape, Scalar value, v1::DType dtype) {
  return BroadcastTo(Constant(value, dtype), shape);
}

// A number is the sum of its binary digits, and each digit is a two-element axis
// of its own: log2(count) additions that broadcast against each other, where
// tinyspec's definition (a prefix sum over ones) would add count² elements.
Tensor Graph::Arange(const Size& size, v1::DType dtype) {
  if (!size.number()) {
    const int64_t most = size.valid() ? size.greatest() : -1;
    if (most < 0) return Fail(v1::SIZE_OVERFLOW, "Arange", absl::StrCat(size.Text(), " elements"));
    return Shrink(Arange(most, dtype), {{0, size}});
  }
  const int64_t count = *size.number();
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
  if (param.sizes() != value.sizes()) {
    Fail(v1::SHAPE_MISMATCH, function,
         absl::StrCat("the parameter is ", ShapeText(param.sizes()), ", the value ", ShapeText(value.sizes())));
    return false;
  }
  return true;
}

Tensor Graph::Assign(Tensor param, Tensor value) {
  if (!CheckAssign("Assign", param, value)) return Tensor(this, Tensor::kNone);
  const Tensor store = Node(v1::STORE, {param.node(), value.node()}, v1::VOID, {});
  return Node(v1::AFTER, {param.node(), store.node()}, param.dtype(), param.sizes());
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

Tensor Graph::Node(v1::UOp uop, v1::DType dtype, Sizes sizes) {
  Shape shape = sizes.greatest();
  if (!ByteCount(dtype, shape).has_value()) {
    return Fail(v1::SIZE_OVERFLOW, v1::Op_Name(uop.op()),
                absl::StrCat("a tensor of ", TypeText(dtype, sizes), " has no size any memory could hold"));
  }
  const auto [it, inserted] = interned_.try_emplace(uop.SerializeAsString(), static_cast<uint32_t>(nodes_.size()));
  if (inserted) nodes_.push_back({std::move(uop), dtype, std::move(sizes), std::move(shape)});
  return Tensor(this, it->second);
}

Tensor Graph::Node(v1::Op op, const std::vector<uint32_t>& sources, v1::DType dtype, Sizes shape) {
  v1::UOp uop;
  uop.set_op(op);
  for (const uint32_t source : sources) uop.add_src(source);
  return Node(std::move(uop), dtype, std::move(shape));
}

Tensor Graph::Fail(v1::ErrorCode code, absl::string_view function, absl::string_view message) {
  return Fail(MakeError(code, absl::StrCat(function, ": ", message)));
}

Tensor Graph::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
  return Tensor(this, Tensor::kNone);
}

}  // namespace kiln::client
