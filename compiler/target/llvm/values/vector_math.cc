#include "compiler/target/llvm/values/vector_math.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "compiler/ir/build.h"
#include "compiler/ir/graph.h"
#include "compiler/rules/transcendental/transcendental.h"
#include "compiler/target/llvm/values/emit_alu.h"
#include "compiler/target/llvm/values/values.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"

namespace kiln::compiler {
namespace {

using Builder = llvm::IRBuilder<>;

constexpr int kWide = 16;  // float32 in 512 bits

// -- Vectors of any width, in pieces of one

int64_t Lanes(llvm::Value* x) {
  auto* type = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  return type == nullptr ? 1 : type->getNumElements();
}

llvm::Value* PieceOf(Builder& b, llvm::Value* x, int64_t first, int64_t size) {
  if (Lanes(x) == size) return x;
  if (!x->getType()->isVectorTy()) {
    auto* type = llvm::FixedVectorType::get(x->getType(), static_cast<unsigned>(size));
    return b.CreateInsertElement(llvm::PoisonValue::get(type), x, uint64_t{0});
  }
  std::vector<int> lanes;
  for (int64_t lane = first; lane < first + size; ++lane)
    lanes.push_back(lane < Lanes(x) ? static_cast<int>(lane) : -1);
  return b.CreateShuffleVector(x, lanes);
}

// `function` of pieces of `size` lanes, put together again.
template <typename Function>
llvm::Value* InPieces(Builder& b, absl::Span<llvm::Value* const> operands, int64_t size, Function function) {
  const int64_t count = Lanes(operands[0]);
  const bool scalar = !operands[0]->getType()->isVectorTy();
  llvm::Value* whole = nullptr;
  for (int64_t first = 0; first < count; first += size) {
    std::vector<llvm::Value*> pieces;
    for (llvm::Value* operand : operands) pieces.push_back(PieceOf(b, operand, first, size));
    llvm::Value* made = function(pieces);
    if (count == size) return made;
    if (scalar) return b.CreateExtractElement(made, uint64_t{0});
    std::vector<int> widened, joined;
    for (int64_t lane = 0; lane < count; ++lane) {
      const bool mine = lane >= first && lane < first + size;
      widened.push_back(mine ? static_cast<int>(lane - first) : -1);
      joined.push_back(static_cast<int>(mine ? count + lane : lane));
    }
    llvm::Value* wide = b.CreateShuffleVector(made, widened);
    whole = whole == nullptr ? wide : b.CreateShuffleVector(whole, wide, joined);
  }
  return whole;
}

// -- AVX-512's own, unmasked and in the current rounding mode

llvm::Value* Avx512(Builder& b, llvm::Intrinsic::ID id, absl::Span<llvm::Value* const> operands, int immediate = -1) {
  return InPieces(b, operands, kWide, [&](std::vector<llvm::Value*> arguments) -> llvm::Value* {
    llvm::Value* unused = llvm::PoisonValue::get(arguments[0]->getType());
    if (immediate >= 0) arguments.push_back(b.getInt32(static_cast<unsigned>(immediate)));
    arguments.insert(arguments.end(),
                     {llvm::Constant::getNullValue(unused->getType()), b.getInt16(0xFFFF), b.getInt32(4)});
    return b.CreateIntrinsic(id, {}, arguments);
  });
}

llvm::Value* ScaleByPower(Builder& b, llvm::Value* x, llvm::Value* power) {  // x * 2^power
  return Avx512(b, llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {x, power});
}
llvm::Value* ExponentOf(Builder& b, llvm::Value* x) {
  return Avx512(b, llvm::Intrinsic::x86_avx512_mask_getexp_ps_512, {x});
}
// Within [3/4, 3/2); 1 of 0 and infinity, NaN of what is less than 0.
llvm::Value* SignificandOf(Builder& b, llvm::Value* x) {
  constexpr int kFromThreeQuarters = 3, kPositiveZero = 1 << 2, kNegativeIsNaN = 2 << 2;
  return Avx512(b, llvm::Intrinsic::x86_avx512_mask_getmant_ps_512, {x},
                kFromThreeQuarters | kPositiveZero | kNegativeIsNaN);
}

// -- Floats

llvm::Value* Number(llvm::Value* like, double value) { return llvm::ConstantFP::get(like->getType(), value); }

llvm::Value* Fma(Builder& b, llvm::Value* x, llvm::Value* y, llvm::Value* z) {
  return b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
}

// c[0] + x * (c[1] + …)
llvm::Value* Polynomial(Builder& b, llvm::Value* x, absl::Span<const double> c) {
  llvm::Value* sum = Number(x, c.back());
  for (size_t i = c.size() - 1; i-- > 0;) sum = Fma(b, sum, x, Number(x, c[i]));
  return sum;
}

// 2^x = 2^(x - n) * 2^n. The scaling instruction rounds once, and knows that 2^inf is
// inf and 2^-inf is 0 even where the rest is NaN, as inf - inf is.
llvm::Value* EmitExp2(Builder& b, llvm::Value* x) {
  constexpr double kSlope[] = {0x1.62e43p-1,   0x1.ebfb94p-3, 0x1.c6af9ep-5, 0x1.3b67d4p-7,
                               0x1.5ef448p-10, 0x1.17c364p-13};  // (2^r - 1) / r: rules/transcendental/exp2.cc
  llvm::Value* whole = b.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, x);
  llvm::Value* rest = b.CreateFSub(x, whole);
  return ScaleByPower(b, Fma(b, rest, Polynomial(b, rest, kSlope), Number(x, 1)), whole);
}

// log2(m * 2^e) = e + log2(m); with the significand of 0 and infinity 1, their exponents
// -inf and inf are the result.
llvm::Value* EmitLog2(Builder& b, llvm::Value* x) {
  constexpr double kLog2E = 0x1.715476p+0;
  constexpr double kRest[] = {0x1.c7f1a2p-27, -0x1.715476p-1, 0x1.ec7140p-2,  -0x1.7154c0p-2, 0x1.274e24p-2,
                              -0x1.ebd2e6p-3, 0x1.ac3d80p-3,  -0x1.85b05cp-3, 0x1.348deap-3,  -0x1.078790p-4};
  llvm::Value* m = SignificandOf(b, x);
  llvm::Value* e = b.CreateFSub(ExponentOf(b, x), ExponentOf(b, m));
  llvm::Value* r = b.CreateFSub(m, Number(x, 1));
  return Fma(b, r, Polynomial(b, r, kRest), Fma(b, r, Number(x, kLog2E), e));
}

// -- SIN

// The composition of any op, as code: for the lanes that are out of the ordinary.
llvm::Value* EmitFormula(Builder& b, Formula (*formula)(Formula), llvm::Value* x) {
  Graph graph;
  UOp* argument = graph.Make(Op::PARAM, {ShapeSource(graph, {})}, BufferArg{0, DType::kFloat32});
  UOp* root = formula({graph, argument}).uop();
  absl::flat_hash_map<const UOp*, llvm::Value*> values = {{argument, x}};
  const int64_t lanes = Lanes(x);
  for (UOp* uop : Toposort(root)) {
    if (uop->op() == Op::CONST) {
      const Element element = {ConstantOf(b.getContext(), uop->dtype(), uop->arg_as<ConstArg>().bits)};
      values[uop] = Materialize(b, element, lanes);
      continue;
    }
    if (!IsElementwise(uop->op()) && uop->op() != Op::BITCAST) continue;  // the argument
    std::vector<llvm::Value*> operands;
    for (UOp* source : uop->src()) operands.push_back(values.at(source));
    values[uop] = uop->op() == Op::BITCAST ? EmitBitcast(b, operands[0], uop->src(0)->dtype(), uop->dtype())
                                           : EmitAlu(b, *uop, operands);
  }
  return values.at(root);
}

// A function of the module that does this, out of the way.
llvm::Function* SinOfAny(llvm::Module& module, llvm::Type* type, int64_t lanes) {
  const std::string name = absl::StrCat("kiln.sin.", lanes);
  if (llvm::Function* made = module.getFunction(name)) return made;
  auto* function = llvm::Function::Create(llvm::FunctionType::get(type, {type}, false), llvm::Function::InternalLinkage,
                                          name, module);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  function->addFnAttr(llvm::Attribute::NoInline);
  function->addFnAttr(llvm::Attribute::Cold);
  Builder b(llvm::BasicBlock::Create(module.getContext(), "entry", function));
  b.CreateRet(EmitFormula(b, Sin, function->getArg(0)));
  return function;
}

// By turns of pi, whose parity is the sign: pi in three parts, of which the first leaves
// no rounding error, is taken off n times. Beyond kLarge that would not do.
llvm::Value* EmitSin(Builder& b, llvm::Value* x) {
  constexpr double kLarge = 32768, kInversePi = 0x1.45f306p-2;
  constexpr double kPi[] = {0x1.921fb6p+1, -0x1.777a5cp-24, -0x1.ee59dap-49};
  constexpr double kRound = 0x1.8p+23;  // added, the last bit is the integers' own
  constexpr double kTail[] = {-0x1.55554cp-3, 0x1.110edap-7, -0x1.9f70fep-13,
                              0x1.5dc9f8p-19};  // (sin(r) / r - 1) / r^2
  llvm::Type* bits = llvm::Type::getInt32Ty(b.getContext());
  if (Lanes(x) > 1 || x->getType()->isVectorTy())
    bits = llvm::FixedVectorType::get(bits, static_cast<unsigned>(Lanes(x)));
  llvm::Value* a = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
  llvm::Value* rounded = Fma(b, a, Number(x, kInversePi), Number(x, kRound));
  llvm::Value* turns = b.CreateFSub(rounded, Number(x, kRound));
  llvm::Value* r = a;
  for (double part : kPi) r = Fma(b, turns, Number(x, -part), r);
  // r + r * (z * (c + z * …)): the least term is rounded first, and z is not taken twice.
  llvm::Value* z = b.CreateFMul(r, r);
  llvm::Value* rest = b.CreateFMul(b.CreateFMul(z, z), Polynomial(b, z, absl::MakeConstSpan(kTail).subspan(1)));
  llvm::Value* sine = Fma(b, r, Fma(b, z, Number(x, kTail[0]), rest), r);
  llvm::Value* minus = b.CreateAnd(b.CreateBitCast(x, bits), llvm::ConstantInt::get(bits, 0x80000000));
  llvm::Value* odd = b.CreateShl(b.CreateBitCast(rounded, bits), 31);
  llvm::Value* sign = b.CreateXor(minus, odd);
  llvm::Value* near = b.CreateBitCast(b.CreateXor(b.CreateBitCast(sine, bits), sign), x->getType());

  llvm::Value* far = b.CreateFCmpUGE(a, Number(x, kLarge));  // NaN, too
  llvm::Value* any = x->getType()->isVectorTy() ? b.CreateOrReduce(far) : far;
  llvm::Function* function = b.GetInsertBlock()->getParent();
  llvm::BasicBlock* before = b.GetInsertBlock();
  auto* rare = llvm::BasicBlock::Create(b.getContext(), "far", function);
  auto* after = llvm::BasicBlock::Create(b.getContext(), "near", function);
  b.CreateCondBr(any, rare, after, llvm::MDBuilder(b.getContext()).createUnlikelyBranchWeights());
  b.SetInsertPoint(rare);
  const int64_t size = std::min<int64_t>(Lanes(x), kWide);
  llvm::Value* exact = InPieces(b, {x}, size, [&](absl::Span<llvm::Value* const> piece) {
    return b.CreateCall(SinOfAny(*function->getParent(), piece[0]->getType(), size), {piece[0]});
  });
  llvm::Value* chosen = b.CreateSelect(far, exact, near);
  b.CreateBr(after);
  b.SetInsertPoint(after);
  llvm::PHINode* result = b.CreatePHI(x->getType(), 2);
  result->addIncoming(near, before);
  result->addIncoming(chosen, rare);
  return result;
}

}  // namespace

std::vector<NativeOp> VectorMathOps(const v1::Target& target) {
  const auto has = [&](absl::string_view feature) {
    return std::find(target.features().begin(), target.features().end(), feature) != target.features().end();
  };
  std::vector<NativeOp> ops;
  if (has("+fma")) ops.push_back({Op::SIN, DType::kFloat32});
  if (has("+avx512f") && has("+avx512dq") && target.tuning().vector_bytes() >= 64)
    ops.insert(ops.end(), {{Op::EXP2, DType::kFloat32}, {Op::LOG2, DType::kFloat32}});
  return ops;
}

llvm::Value* EmitVectorMath(Builder& builder, Op op, llvm::Value* x) {
  // Whatever the kernel says of contraction: what is written here is meant.
  llvm::IRBuilderBase::FastMathFlagGuard guard(builder);
  builder.clearFastMathFlags();
  switch (op) {
    case Op::EXP2: return EmitExp2(builder, x);
    case Op::LOG2: return EmitLog2(builder, x);
    case Op::SIN: return EmitSin(builder, x);
    default: KILN_CHECK(false); return nullptr;
  }
}

}  // namespace kiln::compiler
