#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/infer.h"

namespace kiln::compiler {
namespace {

// Emulated: loads, stores, choices and casts of it exist, and elementwise ops.
bool IsFloat8(DType dtype) { return IsFloat(dtype) && ItemSize(dtype) == 1; }

absl::Status Mismatch(const UOp& uop, absl::string_view wanted) {
  std::string have;
  for (UOp* source : uop.src()) absl::StrAppend(&have, have.empty() ? "" : ", ", Name(source->dtype()));
  return MakeError(v1::DTYPE_MISMATCH, absl::StrCat(Name(uop.op()), " wants ", wanted, ", not (", have, ")"));
}

absl::StatusOr<DType> Elementwise(const UOp& uop) {
  const OpInfo& info = Info(uop.op());
  const DType dtype = uop.src(0)->dtype();
  if (dtype == DType::kVoid) return Mismatch(uop, "values");
  if (uop.op() == Op::CAST) return uop.arg_as<DType>();
  if (uop.op() == Op::WHERE) {
    if (dtype != DType::kBool) return Mismatch(uop, "a bool condition");
    if (uop.src(1)->dtype() == DType::kVoid) return Mismatch(uop, "values to choose from");
    if (uop.src(1)->dtype() != uop.src(2)->dtype()) return Mismatch(uop, "two branches of one dtype");
    return uop.src(1)->dtype();
  }
  for (UOp* source : uop.src()) {
    if (source->dtype() != dtype) return Mismatch(uop, "operands of one dtype");
  }
  if ((info.traits & kIntOnly) && IsFloat(dtype)) return Mismatch(uop, "integers");
  if ((info.traits & kFloatOnly) && !IsFloat(dtype)) return Mismatch(uop, "floats");
  if (uop.op() == Op::THREEFRY && dtype != DType::kUint64) return Mismatch(uop, "two uint64");
  if (info.traits & kComparison) return DType::kBool;
  return dtype;
}

}  // namespace

absl::StatusOr<DType> InferDType(const UOp& uop) {
  const Op op = uop.op();
  if (IsElementwise(op)) return Elementwise(uop);
  if (Is(op, kMovement | kMarker | kMemory)) {
    for (UOp* source : uop.src()) {
      if (source->dtype() == DType::kVoid) return Mismatch(uop, "values");
    }
  }
  switch (op) {
    case Op::PARAM:
    case Op::BUFFER: return uop.arg_as<BufferArg>().dtype;
    case Op::CONST: return uop.arg_as<ConstArg>().dtype;
    case Op::BINARY: return DType::kUint8;
    case Op::BITCAST: return uop.arg_as<DType>();
    case Op::CUSTOM: return DType::kVoid;
    case Op::CUSTOMI: return uop.arg_as<CodeArg>().dtype;
    case Op::RANGE:
    case Op::SPECIAL: return kIndexType;
    case Op::STACK:
      if (uop.src().empty()) return DType::kWeakint;  // the shape ()
      for (UOp* source : uop.src()) {
        if (source->dtype() != uop.src(0)->dtype()) return Mismatch(uop, "operands of one dtype");
      }
      return uop.src(0)->dtype();
    case Op::INDEX:
      for (UOp* index : uop.src().subspan(1)) {
        if (!IsInt(index->dtype())) return Mismatch(uop, "integer indices");
      }
      return uop.src(0)->dtype();
    case Op::PAD:
      if (const auto* fill = std::get_if<ConstArg>(&uop.arg()); fill && fill->dtype != uop.src(0)->dtype()) {
        return MakeError(v1::DTYPE_MISMATCH,
                         absl::StrCat("PAD of ", Name(uop.src(0)->dtype()), " with a fill of ", Name(fill->dtype)));
      }
      return uop.src(0)->dtype();
    case Op::REDUCE: {
      const Op reduce_op = uop.arg_as<ReduceArg>().op;
      if (reduce_op != Op::ADD && reduce_op != Op::MUL && reduce_op != Op::MAX) {
        return MakeError(v1::BAD_ARGUMENT, absl::StrCat("REDUCE reduces with ADD, MUL or MAX, not ", Name(reduce_op)));
      }
      if (uop.src(0)->dtype() == DType::kVoid) return Mismatch(uop, "values");
      return uop.src(0)->dtype();
    }
    case Op::LOAD:
      if (uop.src().size() > 1 && uop.src(1)->dtype() != uop.src(0)->dtype())
        return Mismatch(uop, "an alternative of the buffer's dtype");
      if (uop.src().size() > 2 && uop.src(2)->dtype() != DType::kBool) return Mismatch(uop, "a bool gate");
      return uop.src(0)->dtype();
    case Op::STORE:
      if (uop.src(0)->dtype() != uop.src(1)->dtype()) return Mismatch(uop, "a value of the buffer's dtype");
      if (uop.src().size() > 2 && uop.src(2)->dtype() != DType::kBool) return Mismatch(uop, "a bool gate");
      return DType::kVoid;
    case Op::FUNCTION:
      if (uop.src(0)->op() != Op::TUPLE)
        return MakeError(v1::BAD_ARGUMENT, absl::StrCat("FUNCTION's body is a TUPLE, not ", Name(uop.src(0)->op())));
      return DType::kVoid;
    case Op::CALL:
      if (uop.src(0)->op() != Op::SINK && uop.src(0)->op() != Op::LINEAR) {
        return MakeError(v1::BAD_ARGUMENT,
                         absl::StrCat("CALL's body is a SINK or a LINEAR, not ", Name(uop.src(0)->op())));
      }
      return DType::kVoid;
    case Op::IF:
      if (uop.src(0)->dtype() != DType::kBool) return Mismatch(uop, "a bool gate");
      return DType::kVoid;
    case Op::ENDIF:
      if (uop.src(0)->op() != Op::IF)
        return MakeError(v1::BAD_ARGUMENT, absl::StrCat("ENDIF closes an IF, not ", Name(uop.src(0)->op())));
      return DType::kVoid;
    case Op::ATOMICADD:
      if (uop.src(0)->dtype() != uop.src(1)->dtype()) return Mismatch(uop, "a value of the buffer's dtype");
      if (IsFloat8(uop.src(0)->dtype())) return Mismatch(uop, "a dtype of at least 16 bits, or integers");
      return DType::kVoid;
    case Op::WMMA:
      if (IsFloat8(uop.src(2)->dtype())) return Mismatch(uop, "sums in floats of at least 16 bits, or integers");
      return uop.src(2)->dtype();
    case Op::GETTUPLE: {
      const int64_t index = uop.arg_as<int64_t>();
      const UOp* tuple = uop.src(0)->op() == Op::FUNCTION ? uop.src(0)->src(0) : uop.src(0);
      if (tuple->op() != Op::TUPLE)
        return MakeError(v1::BAD_ARGUMENT,
                         absl::StrCat("GETTUPLE takes a TUPLE or a FUNCTION, not ", Name(tuple->op())));
      if (index < 0 || index >= static_cast<int64_t>(tuple->src().size())) {
        return MakeError(v1::BAD_ARGUMENT, absl::StrCat("GETTUPLE ", index, " of a TUPLE of ", tuple->src().size()));
      }
      return tuple->src(index)->dtype();
    }
    case Op::PERMUTE:
    case Op::FLIP:
    case Op::RESHAPE:
    case Op::EXPAND:
    case Op::REPLICATED:
    case Op::SHRINK:
    case Op::DETACH:
    case Op::CONTIGUOUS_BACKWARD:
    case Op::AFTER: return uop.src(0)->dtype();
    default: return DType::kVoid;
  }
}

}  // namespace kiln::compiler
