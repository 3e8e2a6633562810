// Tested by tests/conformance/schedules/lanes_test.cc.
#include "compiler/target/llvm/values/affine.h"

#include <vector>

namespace kiln::compiler {
namespace {

// A mask of so many lanes, of which the first `count` are true: none if it is below 0.
llvm::Value* FirstLanes(llvm::IRBuilder<>& b, llvm::Value* count, int64_t lanes) {
  // Numbers that hold `lanes`, but no narrower than what few lanes are usually a mask for.
  const unsigned bits = lanes <= 16 ? 32 : lanes < 256 ? 8 : 16;
  const auto number = [&](int64_t value) { return b.getInt64(static_cast<uint64_t>(value)); };
  count = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, count, number(0));
  count = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, count, number(lanes));
  llvm::Type* type = b.getIntNTy(bits);
  std::vector<llvm::Constant*> numbers;
  for (int64_t lane = 0; lane < lanes; ++lane)
    numbers.push_back(llvm::ConstantInt::get(type, static_cast<uint64_t>(lane)));
  llvm::Value* counts = b.CreateVectorSplat(static_cast<unsigned>(lanes), b.CreateTrunc(count, type));
  return b.CreateICmpULT(llvm::ConstantVector::get(numbers), counts);
}

// Whether sums and differences with a few more do not wrap.
bool IsFarFromEnds(const UOp* uop) {
  constexpr __int128 kFar = __int128{1} << 61;
  const Bounds& bounds = uop->bounds();
  return bounds.known && bounds.min > -kFar && bounds.max < kFar;
}

}  // namespace

std::optional<Element> EmitAffine(llvm::IRBuilder<>& builder, const UOp& uop, const Element& a, const Element& b) {
  if (!a.affine || !b.affine) return std::nullopt;
  if (uop.op() == Op::ADD) return Element{builder.CreateAdd(a.value, b.value), true, a.step + b.step};
  if (uop.op() == Op::MUL && uop.src(1)->IsConst())
    return Element{builder.CreateMul(a.value, b.value), true, a.step * uop.src(1)->const_int()};
  constexpr int64_t kFewLanes = 8;  // of int64s that are compared as fast
  const int64_t lanes = LanesOf(uop.shape());
  if (uop.op() != Op::CMPLT || lanes <= kFewLanes || !IsFarFromEnds(uop.src(0)) || !IsFarFromEnds(uop.src(1)))
    return std::nullopt;
  if (a.step == 1 && b.step == 0) return Element{FirstLanes(builder, builder.CreateSub(b.value, a.value), lanes)};
  if (a.step == 0 && b.step == 1) {  // not up to and with `a`
    llvm::Value* others = builder.CreateAdd(builder.CreateSub(a.value, b.value), builder.getInt64(1));
    return Element{builder.CreateNot(FirstLanes(builder, others, lanes))};
  }
  return std::nullopt;
}

}  // namespace kiln::compiler
