#include "compiler/target/gpu/tensor_cores.h"

#include <algorithm>
#include <vector>

#include "absl/types/span.h"
#include "base/check.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsAMDGPU.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

namespace kiln::compiler {
namespace {

namespace in = llvm::Intrinsic;

// How an instruction takes what an item holds.
enum class Way {
  kMma,        // register by register, and gives a struct of them
  kMfma,       // each operand whole, and three numbers: nothing is broadcast
  kWmma,       // each operand whole
  kWmmaSigns,  // and before each factor whether it is signed, and at the end whether sums saturate
  kTwice,      // as kWmma, but both halves of the wave hold all of a row or column: RDNA3
  kTwiceSigns,
};

struct TensorCore {
  int64_t threads, m, n, k;
  DType in, out;
  Way way;
  in::ID instruction;
  std::vector<absl::string_view> architectures;
};

const std::vector<TensorCore>& Table() {
  using enum DType;
  using Names = std::vector<absl::string_view>;
  static const Names nvidia = {"sm_80", "sm_90a", "sm_100a", "sm_120a"}, cdna = {"gfx90a", "gfx942"};
  static const Names ada = {"sm_90a", "sm_100a", "sm_120a"};  // and later: 8-bit floats
  static const Names rdna3 = {"gfx1100"}, rdna4 = {"gfx1200"};
  static const auto& table = *new std::vector<TensorCore>{
      {32, 16, 8, 16, kFloat16, kFloat32, Way::kMma, in::nvvm_mma_m16n8k16_row_col_f32_f32, nvidia},
      {32, 16, 8, 8, kFloat16, kFloat32, Way::kMma, in::nvvm_mma_m16n8k8_row_col_f32_f32, nvidia},
      {32, 16, 8, 16, kFloat16, kFloat16, Way::kMma, in::nvvm_mma_m16n8k16_row_col_f16_f16, nvidia},
      {32, 16, 8, 8, kFloat16, kFloat16, Way::kMma, in::nvvm_mma_m16n8k8_row_col_f16_f16, nvidia},
      {32, 16, 8, 16, kBfloat16, kFloat32, Way::kMma, in::nvvm_mma_m16n8k16_row_col_bf16, nvidia},
      {32, 16, 8, 8, kBfloat16, kFloat32, Way::kMma, in::nvvm_mma_m16n8k8_row_col_bf16, nvidia},
      {32, 16, 8, 8, kFloat32, kFloat32, Way::kMma, in::nvvm_mma_m16n8k8_row_col_tf32, nvidia},
      {32, 16, 8, 32, kInt8, kInt32, Way::kMma, in::nvvm_mma_m16n8k32_row_col_s8, nvidia},
      {32, 16, 8, 32, kUint8, kInt32, Way::kMma, in::nvvm_mma_m16n8k32_row_col_u8, nvidia},
      {32, 16, 8, 32, kFloat8E4m3, kFloat32, Way::kMma, in::nvvm_mma_m16n8k32_row_col_f32_e4m3_e4m3_f32, ada},
      {32, 16, 8, 32, kFloat8E5m2, kFloat32, Way::kMma, in::nvvm_mma_m16n8k32_row_col_f32_e5m2_e5m2_f32, ada},
      {32, 8, 8, 4, kFloat64, kFloat64, Way::kMma, in::nvvm_mma_m8n8k4_row_col_f64, nvidia},

      {64, 16, 16, 16, kFloat16, kFloat32, Way::kMfma, in::amdgcn_mfma_f32_16x16x16f16, cdna},
      {64, 32, 32, 8, kFloat16, kFloat32, Way::kMfma, in::amdgcn_mfma_f32_32x32x8f16, cdna},
      {64, 16, 16, 16, kBfloat16, kFloat32, Way::kMfma, in::amdgcn_mfma_f32_16x16x16bf16_1k, cdna},
      {64, 32, 32, 8, kBfloat16, kFloat32, Way::kMfma, in::amdgcn_mfma_f32_32x32x8bf16_1k, cdna},
      {64, 16, 16, 16, kInt8, kInt32, Way::kMfma, in::amdgcn_mfma_i32_16x16x16i8, {"gfx90a"}},
      {64, 32, 32, 8, kInt8, kInt32, Way::kMfma, in::amdgcn_mfma_i32_32x32x8i8, {"gfx90a"}},
      {64, 16, 16, 32, kInt8, kInt32, Way::kMfma, in::amdgcn_mfma_i32_16x16x32_i8, {"gfx942"}},
      {64, 32, 32, 16, kInt8, kInt32, Way::kMfma, in::amdgcn_mfma_i32_32x32x16_i8, {"gfx942"}},
      {64, 16, 16, 32, kFloat8E4m3Fnuz, kFloat32, Way::kMfma, in::amdgcn_mfma_f32_16x16x32_fp8_fp8, {"gfx942"}},
      {64, 16, 16, 32, kFloat8E5m2Fnuz, kFloat32, Way::kMfma, in::amdgcn_mfma_f32_16x16x32_bf8_bf8, {"gfx942"}},
      {64, 32, 32, 16, kFloat8E4m3Fnuz, kFloat32, Way::kMfma, in::amdgcn_mfma_f32_32x32x16_fp8_fp8, {"gfx942"}},
      {64, 32, 32, 16, kFloat8E5m2Fnuz, kFloat32, Way::kMfma, in::amdgcn_mfma_f32_32x32x16_bf8_bf8, {"gfx942"}},
      {64, 16, 16, 4, kFloat32, kFloat32, Way::kMfma, in::amdgcn_mfma_f32_16x16x4f32, cdna},
      {64, 32, 32, 2, kFloat32, kFloat32, Way::kMfma, in::amdgcn_mfma_f32_32x32x2f32, cdna},
      {64, 16, 16, 4, kFloat64, kFloat64, Way::kMfma, in::amdgcn_mfma_f64_16x16x4f64, cdna},

      {32, 16, 16, 16, kFloat16, kFloat32, Way::kTwice, in::amdgcn_wmma_f32_16x16x16_f16, rdna3},
      {32, 16, 16, 16, kBfloat16, kFloat32, Way::kTwice, in::amdgcn_wmma_f32_16x16x16_bf16, rdna3},
      {32, 16, 16, 16, kInt8, kInt32, Way::kTwiceSigns, in::amdgcn_wmma_i32_16x16x16_iu8, rdna3},
      {32, 16, 16, 16, kUint8, kInt32, Way::kTwiceSigns, in::amdgcn_wmma_i32_16x16x16_iu8, rdna3},
      {32, 16, 16, 16, kFloat16, kFloat32, Way::kWmma, in::amdgcn_wmma_f32_16x16x16_f16, rdna4},
      {32, 16, 16, 16, kBfloat16, kFloat32, Way::kWmma, in::amdgcn_wmma_f32_16x16x16_bf16, rdna4},
      {32, 16, 16, 16, kInt8, kInt32, Way::kWmmaSigns, in::amdgcn_wmma_i32_16x16x16_iu8, rdna4},
      {32, 16, 16, 16, kUint8, kInt32, Way::kWmmaSigns, in::amdgcn_wmma_i32_16x16x16_iu8, rdna4},
      {32, 16, 16, 16, kFloat8E4m3, kFloat32, Way::kWmma, in::amdgcn_wmma_f32_16x16x16_fp8_fp8, rdna4},
      {32, 16, 16, 16, kFloat8E5m2, kFloat32, Way::kWmma, in::amdgcn_wmma_f32_16x16x16_bf8_bf8, rdna4},
  };
  return table;
}

const TensorCore* Find(absl::string_view architecture, const WmmaArg& arg) {
  for (const TensorCore& core : Table()) {
    if (arg.threads == core.threads && arg.m == core.m && arg.n == core.n && arg.k == core.k && arg.in == core.in &&
        arg.out == core.out &&
        std::find(core.architectures.begin(), core.architectures.end(), architecture) != core.architectures.end())
      return &core;
  }
  return nullptr;
}

bool TakesTwice(const TensorCore& core) { return core.way == Way::kTwice || core.way == Way::kTwiceSigns; }

class Emitter {
 public:
  Emitter(llvm::IRBuilder<>& builder, const TensorCore& core) : b_(builder), core_(core) {}

  llvm::Value* Emit(llvm::Value* a, llvm::Value* b, llvm::Value* c) {
    if (!TakesTwice(core_)) return Instruction(a, b, c);
    return Instruction(Gathered(a, /*rows=*/true), Gathered(b, /*rows=*/false), c);
  }

  llvm::Value* Instruction(llvm::Value* a, llvm::Value* b, llvm::Value* c) {
    switch (core_.way) {
      case Way::kMma: return Mma({a, b, c});
      case Way::kMfma: return Mfma(a, b, c);
      case Way::kWmma:
      case Way::kWmmaSigns:
      case Way::kTwice:
      case Way::kTwiceSigns: return Wmma(InWords(a), InWords(b), c);
    }
    KILN_CHECK(false);
    return nullptr;
  }

  // What an instruction of way kMma gives for its registers.
  std::vector<llvm::Value*> Registers(absl::Span<llvm::Value* const> given) {
    llvm::Function* instruction = Declared();
    const llvm::FunctionType& type = *instruction->getFunctionType();
    const unsigned sums = llvm::cast<llvm::StructType>(type.getReturnType())->getNumElements();
    std::vector<llvm::Value*> registers(given.begin(), given.end());
    for (unsigned i = 0; i < registers.size(); ++i) {
      const bool tf32 = core_.in == DType::kFloat32 && i + sums < registers.size();
      if (tf32) registers[i] = RoundedToTf32(registers[i]);
      registers[i] = b_.CreateBitCast(registers[i], type.getParamType(i));
    }
    llvm::Value* made = b_.CreateCall(instruction, registers);
    std::vector<llvm::Value*> elements;
    for (unsigned i = 0; i < sums; ++i) elements.push_back(b_.CreateExtractValue(made, i));
    return elements;
  }

 private:
  static unsigned BitsOf(llvm::Type* type) { return static_cast<unsigned>(type->getPrimitiveSizeInBits()); }

  llvm::Function* Declared() { return in::getOrInsertDeclaration(b_.GetInsertBlock()->getModule(), core_.instruction); }

  llvm::Value* RoundedToTf32(llvm::Value* word) {
    return b_.CreateIntrinsic(in::nvvm_f2tf32_rna, {}, {b_.CreateBitCast(word, b_.getFloatTy())});
  }

  // `fragment` as integers of `bits`.
  llvm::Value* InPieces(llvm::Value* fragment, unsigned bits) {
    const unsigned pieces = BitsOf(fragment->getType()) / bits;
    return b_.CreateBitCast(fragment, llvm::FixedVectorType::get(b_.getIntNTy(bits), pieces));
  }
  llvm::Value* InWords(llvm::Value* fragment) { return InPieces(fragment, 32); }

  llvm::Value* Mma(const std::vector<llvm::Value*>& fragments) {
    llvm::Function* instruction = Declared();
    std::vector<llvm::Value*> registers;
    for (llvm::Value* fragment : fragments) {
      for (unsigned held = 0, all = BitsOf(fragment->getType()); held < all;) {
        const unsigned bits =
            BitsOf(instruction->getFunctionType()->getParamType(static_cast<unsigned>(registers.size())));
        registers.push_back(b_.CreateExtractElement(InPieces(fragment, bits), uint64_t{held / bits}));
        held += bits;
      }
    }
    const std::vector<llvm::Value*> sums = Registers(registers);
    const unsigned bits = BitsOf(sums[0]->getType());
    llvm::Value* fragment =
        llvm::PoisonValue::get(llvm::FixedVectorType::get(b_.getIntNTy(bits), static_cast<unsigned>(sums.size())));
    for (size_t i = 0; i < sums.size(); ++i)
      fragment = b_.CreateInsertElement(fragment, b_.CreateBitCast(sums[i], b_.getIntNTy(bits)), uint64_t{i});
    return b_.CreateBitCast(fragment, fragments[2]->getType());
  }

  llvm::Value* Mfma(llvm::Value* a, llvm::Value* b, llvm::Value* c) {
    llvm::Function* instruction = Declared();
    llvm::Type* type = instruction->getFunctionType()->getParamType(0);
    llvm::Value* zero = b_.getInt32(0);
    return b_.CreateCall(instruction, {b_.CreateBitCast(a, type), b_.CreateBitCast(b, type), c, zero, zero, zero});
  }

  // Factors as words.
  llvm::Value* Wmma(llvm::Value* a, llvm::Value* b, llvm::Value* c) {
    const bool signs = core_.way == Way::kWmmaSigns || core_.way == Way::kTwiceSigns;
    llvm::Type* type = a->getType();
    if (Bits(core_.in) == 16) {
      llvm::Type* element = core_.in == DType::kFloat16 ? b_.getHalfTy() : b_.getInt16Ty();
      type = llvm::FixedVectorType::get(element, BitsOf(type) / 16);
      a = b_.CreateBitCast(a, type);
      b = b_.CreateBitCast(b, type);
    }
    std::vector<llvm::Value*> operands = {a, b, c};
    llvm::Value* is_signed = b_.getInt1(core_.in == DType::kInt8);
    if (signs) operands = {is_signed, a, is_signed, b, c, b_.getFalse()};
    return b_.CreateIntrinsic(core_.instruction, {c->getType(), type}, operands);
  }

  // RDNA3 wants all of row l % 16 of A, or of that column of B, in item l, of which fragments have the first half
  // in item l % 16 and the other in the item 16 further. Its sums are of rows 2 i + l / 16, those of fragments of
  // rows i + 8 (l / 16): so A's rows are taken in that order.
  llvm::Value* Gathered(llvm::Value* fragment, bool rows) {
    llvm::Value* words = InWords(fragment);
    const unsigned held = llvm::cast<llvm::FixedVectorType>(words->getType())->getNumElements();
    // Of AMD's instructions for it this gives an item's number below 32.
    llvm::Value* lane = b_.CreateIntrinsic(in::amdgcn_mbcnt_lo, {}, {b_.getInt32(~0u), b_.getInt32(0)});
    llvm::Value* from = b_.CreateAnd(lane, 15);
    if (rows) from = b_.CreateOr(b_.CreateLShr(from, 1), b_.CreateShl(b_.CreateAnd(from, 1), 3));
    llvm::Value* gathered = llvm::PoisonValue::get(llvm::FixedVectorType::get(b_.getInt32Ty(), 2 * held));
    for (unsigned i = 0; i < 2 * held; ++i) {
      llvm::Value* item = b_.CreateOr(from, i < held ? 0 : 16);
      llvm::Value* word = b_.CreateExtractElement(words, uint64_t{i % held});
      word = b_.CreateIntrinsic(in::amdgcn_ds_bpermute, {}, {b_.CreateShl(item, 2), word});
      gathered = b_.CreateInsertElement(gathered, word, uint64_t{i});
    }
    return gathered;
  }

  llvm::IRBuilder<>& b_;
  const TensorCore& core_;
};

}  // namespace

bool HasTensorCore(absl::string_view architecture, const WmmaArg& arg) { return Find(architecture, arg) != nullptr; }

absl::string_view FeatureFor(absl::string_view architecture, DType in) {
  return architecture == "sm_90a" && IsFloat(in) && Bits(in) == 8 ? "+ptx84" : "";
}

bool TakesFactorsTwice(absl::string_view architecture, const WmmaArg& arg) {
  const TensorCore* core = Find(architecture, arg);
  return core != nullptr && TakesTwice(*core);
}

int64_t DepthOfMatrixInstruction(absl::string_view architecture, DType in, int64_t threads) {
  constexpr int64_t kSide = 16;
  int64_t depth = 0;
  for (const TensorCore& core : Table()) {
    const WmmaArg arg = {kSide, kSide, core.k, in, core.out, threads};
    if (core.in == in && Find(architecture, arg) != nullptr) depth = std::max(depth, core.k);
  }
  KILN_CHECK(depth != 0);
  return depth;
}

llvm::Value* EmitMatrixInstruction(llvm::IRBuilder<>& builder, absl::string_view architecture, const WmmaArg& arg,
                                   llvm::Value* a, llvm::Value* b, llvm::Value* c) {
  const TensorCore* core = Find(architecture, arg);
  KILN_CHECK(core != nullptr);
  return Emitter(builder, *core).Instruction(a, b, c);
}

llvm::Value* EmitTensorCore(llvm::IRBuilder<>& builder, absl::string_view architecture, const WmmaArg& arg,
                            llvm::Value* a, llvm::Value* b, llvm::Value* c) {
  const TensorCore* core = Find(architecture, arg);
  KILN_CHECK(core != nullptr);
  return Emitter(builder, *core).Emit(a, b, c);
}

std::vector<llvm::Value*> EmitMma(llvm::IRBuilder<>& builder, absl::string_view architecture, const WmmaArg& arg,
                                  absl::Span<llvm::Value* const> registers) {
  const TensorCore* core = Find(architecture, arg);
  KILN_CHECK(core != nullptr && core->way == Way::kMma);
  return Emitter(builder, *core).Registers(registers);
}

}  // namespace kiln::compiler
