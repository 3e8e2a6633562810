// Casts and bitcasts. Every cast rounds once, to nearest even; the 16-bit floats
// are reached through float32 with the dropped bits kept sticky ("round to
// odd"), so that the second rounding cannot see a false tie.
#include <cmath>

#include "base/check.h"
#include "compiler/target/llvm/values/emit_alu.h"
#include "llvm/ADT/APInt.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/Module.h"
#include "llvm/TargetParser/Triple.h"

namespace kiln::compiler {
namespace {

using Builder = llvm::IRBuilder<>;

// `type`'s lanes, of another scalar type.
llvm::Type* Like(llvm::Type* type, llvm::Type* scalar) {
  if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type))
    return llvm::FixedVectorType::get(scalar, vector->getNumElements());
  return scalar;
}
llvm::Type* Like(llvm::Value* value, llvm::Type* scalar) { return Like(value->getType(), scalar); }
llvm::Value* Int(llvm::Type* type, uint64_t value) { return llvm::ConstantInt::get(type, value); }

llvm::Value* BfloatToFloat(Builder& b, llvm::Value* bits) {
  llvm::Value* wide = b.CreateShl(b.CreateZExt(bits, Like(bits, b.getInt32Ty())), 16);
  return b.CreateBitCast(wide, Like(bits, b.getFloatTy()));
}

llvm::Value* FloatToBfloat(Builder& b, llvm::Value* value) {
  llvm::Type* i32 = Like(value, b.getInt32Ty());
  llvm::Value* bits = b.CreateBitCast(value, i32);
  llvm::Value* upper = b.CreateLShr(bits, 16);
  llvm::Value* odd = b.CreateAnd(upper, Int(i32, 1));
  llvm::Value* rounded = b.CreateLShr(b.CreateAdd(b.CreateAdd(bits, Int(i32, 0x7FFF)), odd), 16);
  llvm::Value* is_nan = b.CreateFCmpUNO(value, value);
  llvm::Value* result = b.CreateSelect(is_nan, b.CreateOr(upper, Int(i32, 0x40)), rounded);
  return b.CreateTrunc(result, Like(value, b.getInt16Ty()));
}

llvm::Value* DoubleToFloatRoundingToOdd(Builder& b, llvm::Value* value) {
  llvm::Type* f32 = Like(value, b.getFloatTy());
  llvm::Type* i32 = Like(value, b.getInt32Ty());
  llvm::Value* nearest = b.CreateFPTrunc(value, f32);
  llvm::Value* back = b.CreateFPExt(nearest, value->getType());
  llvm::Value* inexact = b.CreateFCmpONE(back, value);
  llvm::Value* too_far = b.CreateFCmpOGT(b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, back),
                                         b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, value));
  llvm::Value* bits = b.CreateBitCast(nearest, i32);
  bits = b.CreateSub(bits, b.CreateZExt(b.CreateAnd(inexact, too_far), i32));  // toward zero
  bits = b.CreateOr(bits, b.CreateZExt(inexact, i32));
  return b.CreateBitCast(bits, f32);
}

// Through double; bits that a double would drop become one sticky bit first.
llvm::Value* IntToFloatRoundingToOdd(Builder& b, llvm::Value* value, DType from) {
  llvm::Type* f64 = Like(value, b.getDoubleTy());
  const bool is_signed = IsSigned(from);
  if (ItemSize(from) == 8) {
    llvm::Type* type = value->getType();
    llvm::Value* low = b.CreateAnd(value, Int(type, 0xFFF));
    llvm::Value* sticky = b.CreateZExt(b.CreateICmpNE(low, Int(type, 0)), type);
    llvm::Value* folded = b.CreateOr(b.CreateXor(value, low), b.CreateShl(sticky, 12));
    llvm::Value* large = b.CreateICmpUGE(b.CreateAdd(value, Int(type, is_signed ? uint64_t{1} << 53 : 0)),
                                         Int(type, is_signed ? uint64_t{1} << 54 : uint64_t{1} << 53));
    value = b.CreateSelect(large, folded, value);
  }
  return DoubleToFloatRoundingToOdd(b, is_signed ? b.CreateSIToFP(value, f64) : b.CreateUIToFP(value, f64));
}

llvm::Value* ToFloat32(Builder& b, llvm::Value* value, DType from, bool to_odd) {
  llvm::Type* f32 = Like(value, b.getFloatTy());
  if (from == DType::kFloat32) return value;
  if (from == DType::kFloat16) return b.CreateFPExt(value, f32);
  if (from == DType::kBfloat16) return BfloatToFloat(b, value);
  if (from == DType::kFloat64) return to_odd ? DoubleToFloatRoundingToOdd(b, value) : b.CreateFPTrunc(value, f32);
  if (to_odd && ItemSize(from) >= 4) return IntToFloatRoundingToOdd(b, value, from);
  return IsSigned(from) ? b.CreateSIToFP(value, f32) : b.CreateUIToFP(value, f32);
}

// Toward zero, saturated, NaN to 0. LLVM has an intrinsic for that, of which x86 makes a dozen instructions for each
// lane by itself; so there vectors are written out.
llvm::Value* FloatToInt(Builder& b, llvm::Value* value, DType to) {
  const unsigned bits = 8 * static_cast<unsigned>(ItemSize(to));
  const bool is_signed = IsSigned(to);
  llvm::Type* const floats = value->getType();
  llvm::Type* const ints = Like(value, b.getIntNTy(bits));
  if (!floats->isVectorTy() || !b.GetInsertBlock()->getModule()->getTargetTriple().isX86()) {
    return b.CreateIntrinsic(is_signed ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat, {ints, floats},
                             {value});
  }
  const double beyond = std::ldexp(1.0, static_cast<int>(is_signed ? bits - 1 : bits));  // the first above
  const auto number = [floats](double x) { return llvm::ConstantFP::get(floats, x); };
  llvm::Value* const least = number(is_signed ? -beyond : 0);
  // What is not greater, such as NaN, is the least: as x86's own maximum has it.
  llvm::Value* const above = b.CreateSelect(b.CreateFCmpOGT(value, least), value, least);
  if (beyond <= (floats->getScalarType()->isFloatTy() ? 0x1p24 : 0x1p53)) {
    llvm::Value* const most = number(beyond - 1);
    llvm::Value* const inside = b.CreateSelect(b.CreateFCmpOLT(above, most), above, most);
    // By way of 32 bits, where the conversions are.
    const bool narrow = bits < 32;
    llvm::Type* const through = narrow ? Like(value, b.getInt32Ty()) : ints;
    llvm::Value* const whole = narrow || is_signed ? b.CreateFPToSI(inside, through) : b.CreateFPToUI(inside, through);
    llvm::Value* const zero = llvm::Constant::getNullValue(through);
    return b.CreateTrunc(b.CreateSelect(b.CreateFCmpUNO(value, value), zero, whole), ints);
  }
  // The greatest integer is no number of this type: what is beyond is chosen after the conversion.
  llvm::Value* const inside = b.CreateSelect(b.CreateFCmpOLT(value, number(beyond)), above, number(0));
  llvm::Value* const whole = is_signed ? b.CreateFPToSI(inside, ints) : b.CreateFPToUI(inside, ints);
  const llvm::APInt greatest = is_signed ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits);
  return b.CreateSelect(b.CreateFCmpOGE(value, number(beyond)), llvm::ConstantInt::get(ints, greatest), whole);
}

}  // namespace

llvm::Value* EmitCast(Builder& b, llvm::Value* value, DType from, DType to) {
  if (from == to) return value;
  if (IsFloat(from)) {
    if (from == DType::kBfloat16 && to != DType::kFloat32)
      return EmitCast(b, BfloatToFloat(b, value), DType::kFloat32, to);
    if (from == DType::kFloat16 && to != DType::kFloat32)
      return EmitCast(b, ToFloat32(b, value, from, false), DType::kFloat32, to);
    if (to == DType::kBool) return b.CreateFCmpUNE(value, llvm::ConstantFP::getZero(value->getType()));
    if (!IsFloat(to)) return FloatToInt(b, value, to);
  }
  switch (to) {
    case DType::kBool: return b.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType()));
    case DType::kBfloat16: return FloatToBfloat(b, ToFloat32(b, value, from, true));
    case DType::kFloat16: return b.CreateFPTrunc(ToFloat32(b, value, from, true), Like(value, b.getHalfTy()));
    case DType::kFloat32: return ToFloat32(b, value, from, false);
    case DType::kFloat64: {
      llvm::Type* f64 = Like(value, b.getDoubleTy());
      if (IsFloat(from)) return b.CreateFPExt(value, f64);
      return IsSigned(from) ? b.CreateSIToFP(value, f64) : b.CreateUIToFP(value, f64);
    }
    default: break;
  }
  llvm::Type* type = Like(value, b.getIntNTy(static_cast<unsigned>(8 * ItemSize(to))));
  return IsSigned(from) ? b.CreateSExtOrTrunc(value, type) : b.CreateZExtOrTrunc(value, type);
}

llvm::Value* EmitBitcast(Builder& b, llvm::Value* value, DType from, DType to) {
  KILN_CHECK(ItemSize(from) == ItemSize(to) && from != DType::kBool && to != DType::kBool);
  auto type_of = [&](DType dtype) -> llvm::Type* {
    if (dtype == DType::kFloat16) return b.getHalfTy();
    if (dtype == DType::kFloat32) return b.getFloatTy();
    if (dtype == DType::kFloat64) return b.getDoubleTy();
    return b.getIntNTy(static_cast<unsigned>(8 * ItemSize(dtype)));  // bfloat16 lives as its bits
  };
  return b.CreateBitCast(value, Like(value, type_of(to)));
}

}  // namespace kiln::compiler
