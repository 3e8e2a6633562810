#include "compiler/target/llvm/values/emit_alu.h"

#include "base/check.h"
#include "compiler/target/llvm/values/vector_math.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/PatternMatch.h"

namespace kiln::compiler {
namespace {

using Builder = llvm::IRBuilder<>;

llvm::Value* IntConst(llvm::Type* type, uint64_t value, bool is_signed = false) {
  return llvm::ConstantInt::get(type, value, is_signed);
}

llvm::Value* IsZero(Builder& b, llvm::Value* x) {
  return b.CreateICmpEQ(x, llvm::Constant::getNullValue(x->getType()));
}

// -- Division. The hardware's traps on 0 and on INT_MIN / -1, so neither gets
// there: a divisor of 0 becomes 1 and, when signed, -1 becomes a negation.

struct Division {
  llvm::Value* quotient;   // toward zero; 0 for a divisor of 0
  llvm::Value* remainder;  // of the dividend's sign; the dividend for a divisor of 0
};

Division Divide(Builder& b, DType dtype, llvm::Value* x, llvm::Value* y) {
  llvm::Type* type = x->getType();
  llvm::Value* one = IntConst(type, 1);
  llvm::Value* zero = llvm::Constant::getNullValue(type);
  llvm::Value* by_zero = IsZero(b, y);
  if (!IsSigned(dtype)) {
    llvm::Value* divisor = b.CreateSelect(by_zero, one, y);
    return {b.CreateSelect(by_zero, zero, b.CreateUDiv(x, divisor)),
            b.CreateSelect(by_zero, x, b.CreateURem(x, divisor))};
  }
  llvm::Value* by_minus_one = b.CreateICmpEQ(y, IntConst(type, ~uint64_t{0}, true));
  llvm::Value* divisor = b.CreateSelect(b.CreateOr(by_zero, by_minus_one), one, y);
  llvm::Value* quotient = b.CreateSDiv(x, divisor);
  llvm::Value* remainder = b.CreateSRem(x, divisor);
  quotient = b.CreateSelect(by_minus_one, b.CreateNeg(x), b.CreateSelect(by_zero, zero, quotient));
  return {quotient, b.CreateSelect(by_zero, x, remainder)};
}

llvm::Value* FloorDivide(Builder& b, const UOp& uop, DType dtype, llvm::Value* x, llvm::Value* y) {
  const bool want_quotient = uop.op() == Op::FLOORDIV;
  const UOp* divisor = uop.src(1);
  if (divisor->IsConst() && divisor->const_int() > 0 && uop.src(0)->bounds().min >= 0) {
    return want_quotient ? b.CreateUDiv(x, y) : b.CreateURem(x, y);
  }
  const Division d = Divide(b, dtype, x, y);
  if (!IsSigned(dtype)) return want_quotient ? d.quotient : d.remainder;
  // One less where the signs differ and it does not come out even.
  llvm::Value* zero = llvm::Constant::getNullValue(x->getType());
  llvm::Value* uneven = b.CreateICmpNE(d.remainder, zero);
  llvm::Value* signs_differ = b.CreateICmpSLT(b.CreateXor(x, y), zero);
  llvm::Value* adjust = b.CreateAnd(b.CreateAnd(uneven, signs_differ), b.CreateNot(IsZero(b, y)));
  if (want_quotient) return b.CreateSelect(adjust, b.CreateSub(d.quotient, IntConst(x->getType(), 1)), d.quotient);
  return b.CreateSelect(adjust, b.CreateAdd(d.remainder, y), d.remainder);
}

llvm::Value* Shift(Builder& b, const UOp& uop, DType dtype, llvm::Value* x, llvm::Value* count) {
  const Op op = uop.op();
  llvm::Type* type = x->getType();
  const auto width = static_cast<uint64_t>(Bits(dtype));
  const Bounds& counts = uop.src(1)->bounds();
  if (counts.known && counts.min >= 0 && counts.max < Bits(dtype)) {
    if (op == Op::SHL) return b.CreateShl(x, count);
    return IsSigned(dtype) ? b.CreateAShr(x, count) : b.CreateLShr(x, count);
  }
  llvm::Value* too_far = b.CreateICmpUGE(count, IntConst(type, width));
  llvm::Value* zero = llvm::Constant::getNullValue(type);
  llvm::Value* safe = b.CreateSelect(too_far, zero, count);
  if (op == Op::SHL) return b.CreateSelect(too_far, zero, b.CreateShl(x, safe));
  if (!IsSigned(dtype)) return b.CreateSelect(too_far, zero, b.CreateLShr(x, safe));
  llvm::Value* sign = b.CreateAShr(x, IntConst(type, width - 1));
  return b.CreateSelect(too_far, sign, b.CreateAShr(x, safe));
}

// As integers of one bit: x / 1 is x, x / 0 is 0, and a count of 1 is the width.
llvm::Value* BoolAlu(Builder& b, Op op, llvm::Value* x, llvm::Value* y) {
  switch (As<AluOp>(op)) {
    case AluOp::ADD:
    case AluOp::MAX:
    case AluOp::OR: return b.CreateOr(x, y);
    case AluOp::MUL:
    case AluOp::AND:
    case AluOp::FLOORDIV:
    case AluOp::CDIV: return b.CreateAnd(x, y);
    case AluOp::XOR:
    case AluOp::CMPNE: return b.CreateXor(x, y);
    case AluOp::FLOORMOD:
    case AluOp::CMOD:
    case AluOp::SHL:
    case AluOp::SHR: return b.CreateAnd(x, b.CreateNot(y));
    case AluOp::CMPLT: return b.CreateAnd(b.CreateNot(x), y);
    // Of floats alone, of any dtype (EmitAlu), or decomposed: THREEFRY.
    case AluOp::RECIPROCAL:
    case AluOp::TRUNC:
    case AluOp::CAST:
    case AluOp::EXP2:
    case AluOp::LOG2:
    case AluOp::SIN:
    case AluOp::SQRT:
    case AluOp::FDIV:
    case AluOp::POW:
    case AluOp::THREEFRY:
    case AluOp::WHERE: break;
  }
  KILN_CHECK(false);
  return nullptr;
}

llvm::Value* IntAlu(Builder& b, const UOp& uop, DType dtype, llvm::Value* x, llvm::Value* y) {
  switch (As<AluOp>(uop.op())) {
    case AluOp::ADD: return b.CreateAdd(x, y);
    case AluOp::MUL: return b.CreateMul(x, y);
    case AluOp::MAX:
      return b.CreateBinaryIntrinsic(IsSigned(dtype) ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, x, y);
    case AluOp::XOR: return b.CreateXor(x, y);
    case AluOp::OR: return b.CreateOr(x, y);
    case AluOp::AND: return b.CreateAnd(x, y);
    case AluOp::SHL:
    case AluOp::SHR: return Shift(b, uop, dtype, x, y);
    case AluOp::CMPLT: return IsSigned(dtype) ? b.CreateICmpSLT(x, y) : b.CreateICmpULT(x, y);
    case AluOp::CMPNE: return b.CreateICmpNE(x, y);
    case AluOp::CDIV: return Divide(b, dtype, x, y).quotient;
    case AluOp::CMOD: return Divide(b, dtype, x, y).remainder;
    case AluOp::FLOORDIV:
    case AluOp::FLOORMOD: return FloorDivide(b, uop, dtype, x, y);
    // Of floats alone, of any dtype (EmitAlu), or decomposed: THREEFRY.
    case AluOp::RECIPROCAL:
    case AluOp::TRUNC:
    case AluOp::CAST:
    case AluOp::EXP2:
    case AluOp::LOG2:
    case AluOp::SIN:
    case AluOp::SQRT:
    case AluOp::FDIV:
    case AluOp::POW:
    case AluOp::THREEFRY:
    case AluOp::WHERE: break;
  }
  KILN_CHECK(false);
  return nullptr;
}

// NaN wins; of two zeros either may, which costs two instructions less. It is `x` that
// is looked at for NaN, so an accumulator should be `y`: its chain is shorter then.
llvm::Value* Greater(Builder& b, llvm::Value* x, llvm::Value* y) {
  llvm::FastMathFlags flags;
  flags.setNoSignedZeros();
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::maximum, x, y, flags);
}

bool IsMinusOne(const UOp* uop) {
  if (!uop->IsConst()) return false;
  const uint64_t bits = uop->arg_as<ConstArg>().bits;
  return uop->dtype() == DType::kFloat64 ? bits == 0xBFF0000000000000u
                                         : uop->dtype() == DType::kFloat32 && bits == 0xBF800000u;
}

// -max(-x, c) is min(x, -c), as graphs have to write it.
llvm::Value* Negated(Builder& b, llvm::Value* x) {
  auto* most = llvm::dyn_cast<llvm::IntrinsicInst>(x);
  if (most != nullptr && most->getIntrinsicID() == llvm::Intrinsic::maximum) {
    for (const unsigned at : {0u, 1u}) {
      llvm::Value* inside = nullptr;
      auto* bound = llvm::dyn_cast<llvm::Constant>(most->getArgOperand(1 - at));
      if (bound == nullptr || !llvm::PatternMatch::match(most->getArgOperand(at),
                                                         llvm::PatternMatch::m_FNeg(llvm::PatternMatch::m_Value(inside))))
        continue;
      llvm::FastMathFlags flags;
      flags.setNoSignedZeros();
      return b.CreateBinaryIntrinsic(llvm::Intrinsic::minimum, b.CreateFNeg(bound), inside, flags);
    }
  }
  return b.CreateFNeg(x);
}

llvm::Value* FloatAlu(Builder& b, const UOp& uop, llvm::ArrayRef<llvm::Value*> operands) {
  llvm::Value* x = operands[0];
  llvm::Value* y = operands.size() > 1 ? operands[1] : nullptr;
  switch (As<AluOp>(uop.op())) {
    case AluOp::ADD: return b.CreateFAdd(x, y);
    case AluOp::MUL:
      if (IsMinusOne(uop.src(1))) return Negated(b, x);
      return b.CreateFMul(x, y);
    case AluOp::MAX: return Greater(b, y, x);
    case AluOp::FDIV: return b.CreateFDiv(x, y);
    case AluOp::CMPLT: return b.CreateFCmpOLT(x, y);
    case AluOp::CMPNE: return b.CreateFCmpUNE(x, y);
    case AluOp::RECIPROCAL: return b.CreateFDiv(llvm::ConstantFP::get(x->getType(), 1.0), x);
    case AluOp::TRUNC: return b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, x);
    case AluOp::SQRT: return b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x);
    case AluOp::EXP2:
    case AluOp::LOG2:
    case AluOp::SIN: return EmitVectorMath(b, uop.op(), x);
    // Of integers alone, of any dtype (EmitAlu), or decomposed: POW.
    case AluOp::CAST:
    case AluOp::FLOORDIV:
    case AluOp::FLOORMOD:
    case AluOp::CDIV:
    case AluOp::CMOD:
    case AluOp::XOR:
    case AluOp::OR:
    case AluOp::AND:
    case AluOp::SHL:
    case AluOp::SHR:
    case AluOp::POW:
    case AluOp::THREEFRY:
    case AluOp::WHERE: break;
  }
  KILN_CHECK(false);
  return nullptr;
}

}  // namespace

llvm::Value* EmitAlu(Builder& builder, const UOp& uop, llvm::ArrayRef<llvm::Value*> operands) {
  if (uop.op() == Op::WHERE) return builder.CreateSelect(operands[0], operands[1], operands[2]);
  const DType dtype = uop.src(0)->dtype();
  if (uop.op() == Op::CAST) return EmitCast(builder, operands[0], dtype, uop.dtype());
  if (IsFloat(dtype)) return FloatAlu(builder, uop, operands);
  if (uop.op() == Op::TRUNC) return operands[0];
  if (dtype == DType::kBool) return BoolAlu(builder, uop.op(), operands[0], operands[1]);
  return IntAlu(builder, uop, dtype, operands[0], operands[1]);
}

llvm::Value* EmitReduceOp(Builder& b, Op reduce_op, DType dtype, llvm::Value* x, llvm::Value* y) {
  if (dtype == DType::kBool) return BoolAlu(b, reduce_op, x, y);
  if (IsFloat(dtype)) {
    if (reduce_op == Op::ADD) return b.CreateFAdd(x, y);
    if (reduce_op == Op::MUL) return b.CreateFMul(x, y);
    return Greater(b, y, x);
  }
  if (reduce_op == Op::ADD) return b.CreateAdd(x, y);
  if (reduce_op == Op::MUL) return b.CreateMul(x, y);
  return b.CreateBinaryIntrinsic(IsSigned(dtype) ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, x, y);
}

}  // namespace kiln::compiler
