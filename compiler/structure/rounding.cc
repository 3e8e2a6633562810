#include "compiler/structure/rounding.h"

#include <cstdint>

namespace kiln::compiler {
namespace {

constexpr uint64_t kSign = 0x80000000, kGreat = 0x4B000000;  // 2^23

// Below all that reads the same 32 bits as another type.
UOp* Bits(UOp* uop) {
  while (uop->op() == Op::BITCAST && ItemSize(uop->dtype()) == 4 && ItemSize(uop->src(0)->dtype()) == 4)
    uop = uop->src(0);
  return uop;
}

bool IsBits(const UOp* uop, uint64_t bits) {
  return uop->IsConst() && (uop->arg_as<ConstArg>().bits & 0xFFFFFFFF) == bits;
}

// What `uop` keeps some bits of: x & bits.
UOp* Masked(UOp* uop, uint64_t bits) {
  return uop->op() == Op::AND && ItemSize(uop->dtype()) == 4 && IsBits(uop->src(1), bits) ? Bits(uop->src(0)) : nullptr;
}

// x + bits, a float32.
UOp* WithAdded(UOp* uop, uint64_t bits) {
  return uop->op() == Op::ADD && uop->dtype() == DType::kFloat32 && IsBits(uop->src(1), bits) ? uop->src(0) : nullptr;
}

// The size, if `whole` is the size rounded.
UOp* SizeRoundedIn(UOp* whole) {
  if (whole->op() != Op::WHERE || whole->dtype() != DType::kFloat32) return nullptr;
  UOp *below = whole->src(0), *size = whole->src(2);
  if (below->op() != Op::CMPLT || below->src(0) != size || !IsBits(below->src(1), kGreat)) return nullptr;
  UOp* lifted = WithAdded(whole->src(1), kGreat | kSign);
  return lifted != nullptr && WithAdded(lifted, kGreat) == size ? size : nullptr;
}

}  // namespace

UOp* RoundedIn(UOp* whole) {
  // The bits themselves are not what an instruction gives, if x is a signalling NaN.
  if (whole->op() != Op::BITCAST || whole->dtype() != DType::kFloat32) return nullptr;
  const UOp* bits = Bits(whole);
  if (bits->op() != Op::OR || ItemSize(bits->dtype()) != 4) return nullptr;
  for (const size_t at : {0, 1}) {
    UOp* size = SizeRoundedIn(Bits(bits->src(at)));
    UOp* signed_one = Masked(bits->src(1 - at), kSign);
    if (size == nullptr || signed_one == nullptr || signed_one->dtype() != DType::kFloat32) continue;
    if (Masked(Bits(size), kSign - 1) == signed_one) return signed_one;
  }
  return nullptr;
}

}  // namespace kiln::compiler
