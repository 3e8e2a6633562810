#include <algorithm>

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

DType OfArg(const Arg& arg) {
  if (const auto* buffer = std::get_if<BufferArg>(&arg)) return buffer->dtype;
  if (const auto* constant = std::get_if<ConstArg>(&arg)) return constant->dtype;
  if (const auto* code = std::get_if<CodeArg>(&arg)) return code->dtype;
  return std::get<DType>(arg);
}

bool Alike(const UOp& uop) {
  return std::all_of(uop.src().begin(), uop.src().end(),
                     [&uop](const UOp* source) { return source->dtype() == uop.src(0)->dtype(); });
}

// Of a LOAD or STORE.
absl::Status CheckGate(const UOp& uop) {
  if (uop.src().size() > 2 && uop.src(2)->dtype() != DType::kBool) return Mismatch(uop, "a bool gate");
  return absl::OkStatus();
}

const UOp* TupleOf(const UOp& uop) { return uop.src(0)->op() == Op::FUNCTION ? uop.src(0)->src(0) : uop.src(0); }

absl::Status BadBody(const char* wanted, const UOp& uop) {
  return MakeError(v1::BAD_ARGUMENT, absl::StrCat(wanted, ", not ", Name(uop.src(0)->op())));
}

}  // namespace

absl::StatusOr<DType> InferDType(const UOp& uop) {
  const Op op = uop.op();
  const DTypeRule rule = Info(op).dtype;
  if (Is(op, kElementwise) && uop.src(0)->dtype() == DType::kVoid) return Mismatch(uop, "values");
  if (Is(op, kMovement | kMarker | kMemory)) {
    for (UOp* source : uop.src()) {
      if (source->dtype() == DType::kVoid) return Mismatch(uop, "values");
    }
  }
  const DType first = uop.src().empty() ? DType::kVoid : uop.src(0)->dtype();
  switch (rule) {
    case DTypeRule::kVoid: return DType::kVoid;
    case DTypeRule::kUint8: return DType::kUint8;
    case DTypeRule::kIndex: return kIndexType;
    case DTypeRule::kOfArg: return OfArg(uop.arg());
    case DTypeRule::kOfFirst: return first;

    case DTypeRule::kAlike:
      if (!Alike(uop)) return Mismatch(uop, "operands of one dtype");
      return first;
    case DTypeRule::kAlikeInts:
      if (!Alike(uop)) return Mismatch(uop, "operands of one dtype");
      if (IsFloat(first)) return Mismatch(uop, "integers");
      return first;
    case DTypeRule::kAlikeFloats:
      if (!Alike(uop)) return Mismatch(uop, "operands of one dtype");
      if (!IsFloat(first)) return Mismatch(uop, "floats");
      return first;
    case DTypeRule::kTwoUint64:
      if (!Alike(uop)) return Mismatch(uop, "operands of one dtype");
      if (IsFloat(first)) return Mismatch(uop, "integers");
      if (first != DType::kUint64) return Mismatch(uop, "two uint64");
      return first;
    case DTypeRule::kCompared:
      if (!Alike(uop)) return Mismatch(uop, "operands of one dtype");
      return DType::kBool;
    case DTypeRule::kStacked:
      if (uop.src().empty()) return DType::kWeakint;  // the shape ()
      if (!Alike(uop)) return Mismatch(uop, "operands of one dtype");
      return first;

    case DTypeRule::kChosen:
      if (first != DType::kBool) return Mismatch(uop, "a bool condition");
      if (uop.src(1)->dtype() == DType::kVoid) return Mismatch(uop, "values to choose from");
      if (uop.src(1)->dtype() != uop.src(2)->dtype()) return Mismatch(uop, "two branches of one dtype");
      return uop.src(1)->dtype();
    case DTypeRule::kIndexed:
      for (UOp* index : uop.src().subspan(1)) {
        if (!IsInt(index->dtype())) return Mismatch(uop, "integer indices");
      }
      return first;
    case DTypeRule::kPadded:
      if (const auto* fill = std::get_if<ConstArg>(&uop.arg()); fill && fill->dtype != first) {
        return MakeError(v1::DTYPE_MISMATCH,
                         absl::StrCat("PAD of ", Name(first), " with a fill of ", Name(fill->dtype)));
      }
      return first;
    case DTypeRule::kReduced: {
      const Op reduce_op = uop.arg_as<ReduceArg>().op;
      if (reduce_op != Op::ADD && reduce_op != Op::MUL && reduce_op != Op::MAX) {
        return MakeError(v1::BAD_ARGUMENT, absl::StrCat("REDUCE takes ADD, MUL or MAX, not ", Name(reduce_op)));
      }
      if (first == DType::kVoid) return Mismatch(uop, "values");
      return first;
    }
    case DTypeRule::kLoaded:
      if (uop.src().size() > 1 && uop.src(1)->dtype() != first)
        return Mismatch(uop, "an alternative of the buffer's dtype");
      KILN_RETURN_IF_ERROR(CheckGate(uop));
      return first;
    case DTypeRule::kStored:
      if (first != uop.src(1)->dtype()) return Mismatch(uop, "a value of the buffer's dtype");
      KILN_RETURN_IF_ERROR(CheckGate(uop));
      return DType::kVoid;
    case DTypeRule::kAdded:
      if (first != uop.src(1)->dtype()) return Mismatch(uop, "a value of the buffer's dtype");
      if (IsFloat8(first)) return Mismatch(uop, "a dtype of at least 16 bits, or integers");
      return DType::kVoid;
    case DTypeRule::kProduct:
      if (IsFloat8(uop.src(2)->dtype())) return Mismatch(uop, "sums in floats of at least 16 bits, or integers");
      return uop.src(2)->dtype();

    case DTypeRule::kFunction:
      if (uop.src(0)->op() != Op::TUPLE) return BadBody("FUNCTION's body is a TUPLE", uop);
      return DType::kVoid;
    case DTypeRule::kElement: {
      const int64_t index = uop.arg_as<int64_t>();
      const UOp* tuple = TupleOf(uop);
      if (tuple->op() != Op::TUPLE)
        return MakeError(v1::BAD_ARGUMENT,
                         absl::StrCat("GETTUPLE takes a TUPLE or a FUNCTION, not ", Name(tuple->op())));
      if (index < 0 || index >= static_cast<int64_t>(tuple->src().size())) {
        return MakeError(v1::BAD_ARGUMENT, absl::StrCat("GETTUPLE ", index, " of a TUPLE of ", tuple->src().size()));
      }
      return tuple->src(index)->dtype();
    }
    case DTypeRule::kCalled:
      if (uop.src(0)->op() != Op::SINK && uop.src(0)->op() != Op::LINEAR)
        return BadBody("CALL's body is a SINK or a LINEAR", uop);
      return DType::kVoid;
    case DTypeRule::kGate:
      if (first != DType::kBool) return Mismatch(uop, "a bool gate");
      return DType::kVoid;
    case DTypeRule::kGateEnd:
      if (uop.src(0)->op() != Op::IF) return BadBody("ENDIF closes an IF", uop);
      return DType::kVoid;
  }
  return DType::kVoid;
}

}  // namespace kiln::compiler
