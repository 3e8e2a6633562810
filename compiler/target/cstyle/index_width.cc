#include "compiler/target/cstyle/index_width.h"

#include <limits>

#include "compiler/ir/graph.h"

namespace kiln::compiler {
namespace {

bool FitsInt32(const UOp* uop) {
  const Bounds& bounds = uop->bounds();
  return bounds.known && bounds.min >= std::numeric_limits<int32_t>::min() &&
         bounds.max <= std::numeric_limits<int32_t>::max();
}

// Ops that give in int32 what they give in int64 if operands and result fit.
bool IsArithmetic(Op op) {
  switch (op) {
    case Op::ADD:
    case Op::MUL:
    case Op::MAX:
    case Op::FLOORDIV:
    case Op::FLOORMOD:
    case Op::CDIV:
    case Op::CMOD:
    case Op::XOR:
    case Op::OR:
    case Op::AND:
    case Op::WHERE: return true;
    default: return false;
  }
}

}  // namespace

absl::flat_hash_set<const UOp*> NarrowIndices(UOp* linear) {
  absl::flat_hash_set<const UOp*> narrow;
  for (const UOp* uop : Toposort(linear)) {
    if (uop->dtype() != kIndexType || !FitsInt32(uop)) continue;
    bool fits = false;
    if (uop->op() == Op::CONST || uop->op() == Op::SPECIAL) {
      fits = true;
    } else if (uop->op() == Op::RANGE) {
      // The bound itself is compared with, and may be one more than the last iteration's number.
      fits = uop->src(0)->dtype() != kIndexType || narrow.contains(uop->src(0));
    } else if (uop->op() == Op::CAST) {
      fits = uop->src(0)->dtype() == DType::kInt32;
    } else if (IsArithmetic(uop->op())) {
      fits = true;
      for (const UOp* source : uop->src()) fits &= source->dtype() != kIndexType || narrow.contains(source);
    }
    if (fits) narrow.insert(uop);
  }
  return narrow;
}

}  // namespace kiln::compiler
