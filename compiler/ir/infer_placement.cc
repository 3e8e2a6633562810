// Where a value is: on which device; and if that is a tuple of devices, which axis
// is split over them, in equal shares (its shard axis). A value on a tuple without
// such an axis is on each of the devices, whole.
//
// Values move between devices by LOAD alone, which is what COPY is read as. All
// else stays where its operands are, and must be able to: an op that would take
// elements from one device's share to another's is refused.
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/devices.h"
#include "compiler/ir/infer.h"

namespace kiln::compiler {
namespace {

constexpr int kWhole = -1;

absl::Status Refuse(absl::string_view text) { return MakeError(v1::BAD_ARGUMENT, text); }

absl::Status Crosses(const UOp& uop, int axis) {
  return Refuse(absl::StrCat(Name(uop.op()), " along axis ", axis,
                             ", which is split over devices, would move elements between them; COPY first"));
}

// Equal operands of one op: each split along the same axis of its result, or whole.
absl::StatusOr<int> Meet(const UOp& uop, absl::Span<UOp* const> operands) {
  int met = kWhole;
  for (const UOp* operand : operands) {
    if (operand->axis() < 0) continue;
    const int axis = operand->axis() + static_cast<int>(uop.shape().size() - operand->shape().size());
    if (met >= 0 && met != axis) {
      return Refuse(absl::StrCat(Name(uop.op()), " of operands split over devices along axis ", met, " and axis ", axis,
                                 "; COPY one first"));
    }
    met = axis;
  }
  return met;
}

// The axis that has as many elements before it, so that the shares' borders stay.
absl::StatusOr<int> Reshaped(Graph& graph, const UOp& uop) {
  const Shape& from = uop.src(0)->shape();
  const int axis = uop.src(0)->axis();
  Polynomial before(1), product(1);
  for (int i = 0; i < axis; ++i) before = before * PolynomialOf(graph, from[i]);
  const int64_t shares = DeviceCount(uop.device());
  for (size_t i = 0; i < uop.shape().size(); ++i) {
    if (product.Equals(before) && ShareOf(graph, uop.shape()[i], shares).has_value()) return static_cast<int>(i);
    product = product * PolynomialOf(graph, uop.shape()[i]);
  }
  return Refuse(absl::StrCat("RESHAPE of ", ToString(from), ", split over ", shares, " devices along axis ", axis,
                             ", to ", ToString(uop.shape()), ": no axis keeps the borders of the shares"));
}

absl::StatusOr<int> Boxed(const UOp& uop) {
  const int axis = uop.src(0)->axis();
  if (uop.shape()[axis] != uop.src(0)->shape()[axis]) return Crosses(uop, axis);
  return axis;
}

// INDEX(T, i...): the axes of the indices come first.
absl::StatusOr<int> Indexed(const UOp& uop) {
  const size_t indices = uop.src().size() - 1;
  int met = kWhole;
  size_t axes = 0;
  for (const UOp* index : uop.src().subspan(1)) {
    if (index->axis() >= 0) {
      if (met >= 0) return Refuse("INDEX by two indices that are split over devices");
      met = static_cast<int>(axes) + index->axis();
    }
    axes += index->shape().size();
  }
  const int axis = uop.src(0)->axis();
  if (axis < 0) return met;
  if (axis < static_cast<int>(indices)) return Crosses(uop, axis);
  if (met >= 0) return Refuse("INDEX of a value and by an index that are both split over devices");
  return axis - static_cast<int>(indices) + static_cast<int>(axes);
}

absl::StatusOr<int> AxisOf(Graph& graph, const UOp& uop) {
  const UOp* x = uop.src().empty() ? nullptr : uop.src(0);
  const int axis = x == nullptr ? kWhole : x->axis();
  if (IsElementwise(uop.op())) return Meet(uop, uop.src());
  switch (As<NonAluOp>(uop.op())) {
    case NonAluOp::PARAM:
    case NonAluOp::BUFFER: return 0;
    case NonAluOp::LOAD: return std::holds_alternative<TextArg>(uop.arg()) ? 0 : axis;
    case NonAluOp::STACK: return Meet(uop, uop.src());
    case NonAluOp::INDEX: return Indexed(uop);
    case NonAluOp::REPLICATED: {
      const int64_t dropped = uop.arg_as<int64_t>();
      if (axis != dropped || x->shape()[axis] != DeviceCount(uop.device())) {
        return Refuse(absl::StrCat("REPLICATED(", dropped, ") of ", ToString(x->shape()), ", split along axis ", axis,
                                   ": it wants one replica for each of ", DeviceCount(uop.device()),
                                   " devices along that axis"));
      }
      return kWhole;
    }
    case NonAluOp::STORE: {
      const UOp* value = uop.src(1);
      const int lead = static_cast<int>(x->shape().size() - value->shape().size());
      if (value->axis() >= 0 && value->axis() + lead != axis)
        return Refuse("STORE of a value that is split over devices along another axis than its target");
      return kWhole;
    }
    case NonAluOp::RESHAPE: return axis < 0 ? kWhole : Reshaped(graph, uop);
    case NonAluOp::PAD:
    case NonAluOp::SHRINK: return axis < 0 ? kWhole : Boxed(uop);
    case NonAluOp::PERMUTE: {
      const auto& order = uop.arg_as<AxesArg>().axes;
      for (size_t i = 0; i < order.size(); ++i) {
        if (order[i] == axis) return static_cast<int>(i);
      }
      return axis;
    }
    case NonAluOp::FLIP:
      if (axis >= 0 && uop.arg_as<AxesArg>().axes[axis] != 0) return Crosses(uop, axis);
      return axis;
    case NonAluOp::REDUCE:  // over the shares: every device has the result
      for (int64_t reduced : uop.arg_as<ReduceArg>().axes) {
        if (reduced == axis) return kWhole;
      }
      return axis;
    case NonAluOp::EXPAND:
    case NonAluOp::BITCAST:
    case NonAluOp::AFTER:
    case NonAluOp::DETACH:
    case NonAluOp::CONTIGUOUS_BACKWARD: return axis;
    // What every device has, or nobody: Gathers, loops, and programs of one device.
    case NonAluOp::CONST:
    case NonAluOp::BINARY:
    case NonAluOp::FUNCTION:
    case NonAluOp::TUPLE:
    case NonAluOp::GETTUPLE:
    case NonAluOp::RANGE:
    case NonAluOp::END:
    case NonAluOp::GROUP:
    case NonAluOp::SINK:
    case NonAluOp::LINEAR:
    case NonAluOp::CALL:
    case NonAluOp::SPECIAL:
    case NonAluOp::BARRIER:
    case NonAluOp::IF:
    case NonAluOp::ENDIF:
    case NonAluOp::ATOMICADD:
    case NonAluOp::CUSTOM:
    case NonAluOp::CUSTOMI:
    case NonAluOp::WMMA: return kWhole;
  }
  return kWhole;
}

// Ops that bring values together without computing with them.
bool Gathers(Op op) {
  return op == Op::TUPLE || op == Op::SINK || op == Op::GROUP || op == Op::LINEAR || op == Op::CALL ||
         op == Op::FUNCTION;
}

}  // namespace

std::optional<Dim> ShareOf(Graph& graph, const Dim& size, int64_t shares) {
  if (size.IsConst()) return size.max() % shares == 0 ? std::optional<Dim>(size.max() / shares) : std::nullopt;
  const std::optional<Polynomial> share = PolynomialOf(graph, size).DividedBy(Polynomial(shares));
  return share.has_value() ? std::optional<Dim>(DimOf(graph, *share)) : std::nullopt;
}

absl::Status Inference::Place(Graph& graph, UOp& uop) {
  uop.axis_ = kWhole;
  if (Gathers(uop.op_)) return absl::OkStatus();
  if (const auto* buffer = std::get_if<BufferArg>(&uop.arg_)) {
    if (!buffer->device.empty()) uop.device_ = &buffer->device;
  } else if (const auto* device = std::get_if<TextArg>(&uop.arg_); uop.op_ == Op::LOAD && device != nullptr) {
    uop.device_ = &device->text;
  } else {
    for (UOp* source : uop.op_ == Op::AFTER ? uop.src_.subspan(0, 1) : uop.src_) {
      if (source->device().empty()) continue;
      if (uop.device_ == nullptr) uop.device_ = source->device_;
      if (*uop.device_ == *source->device_) continue;
      return Refuse(absl::StrCat("operands on two devices, ", *uop.device_, " and ", *source->device_,
                                 "; COPY one to the other's"));
    }
  }
  const int64_t shares = DeviceCount(uop.device());
  if (shares == 1) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(const int axis, AxisOf(graph, uop));
  const bool exists = axis < static_cast<int>(uop.shape_.size());
  if (axis >= 0 && !(exists && ShareOf(graph, uop.shape_[axis], shares).has_value())) {
    const std::string text = absl::StrCat(Name(uop.op_), " of shape ", ToString(uop.shape_), " over ", shares,
                                          " devices: axis ", axis, " must divide into equal shares");
    if (!exists || uop.shape_[axis].IsConst()) return Refuse(text);
    return MakeError(v1::UNSUPPORTED_SHARD,
                     absl::StrCat(text, " for every value of its variables: let it be ", shares, " times a variable"));
  }
  uop.axis_ = static_cast<int16_t>(axis);
  return absl::OkStatus();
}

}  // namespace kiln::compiler
