#include "compiler/target/gpu/tensor_cores.h"

#include <vector>

#include "base/check.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

namespace kiln::compiler {
namespace {

// PTX ISA, "mma". Elements of 16 bits lie in registers two by two.
struct TensorCore {
  int64_t m, n, k;
  DType in, out;
  llvm::Intrinsic::ID instruction;
};

constexpr TensorCore kTensorCores[] = {
    {16, 8, 16, DType::kFloat16, DType::kFloat32, llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32},
    {16, 8, 8, DType::kFloat16, DType::kFloat32, llvm::Intrinsic::nvvm_mma_m16n8k8_row_col_f32_f32},
    {16, 8, 16, DType::kBfloat16, DType::kFloat32, llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_bf16},
    {16, 8, 8, DType::kBfloat16, DType::kFloat32, llvm::Intrinsic::nvvm_mma_m16n8k8_row_col_bf16},
};

const TensorCore* Find(const WmmaArg& arg) {
  for (const TensorCore& core : kTensorCores) {
    if (arg.threads == 32 && arg.m == core.m && arg.n == core.n && arg.k == core.k && arg.in == core.in &&
        arg.out == core.out)
      return &core;
  }
  return nullptr;
}

// Appends the registers of `fragment`: pairs of halves, bits of bfloats, or floats.
void AppendRegisters(llvm::IRBuilder<>& builder, llvm::Value* fragment, DType dtype,
                     std::vector<llvm::Value*>& registers) {
  auto* type = llvm::cast<llvm::FixedVectorType>(fragment->getType());
  const unsigned elements = type->getNumElements();
  const unsigned each = dtype == DType::kFloat32 ? 1 : 2;
  if (each == 2) {
    auto* words = llvm::FixedVectorType::get(builder.getInt32Ty(), elements / each);
    fragment = builder.CreateBitCast(fragment, words);
  }
  auto* pair = llvm::FixedVectorType::get(builder.getHalfTy(), 2);
  for (unsigned i = 0; i < elements / each; ++i) {
    llvm::Value* held = builder.CreateExtractElement(fragment, uint64_t{i});
    registers.push_back(dtype == DType::kFloat16 ? builder.CreateBitCast(held, pair) : held);
  }
}

}  // namespace

bool HasTensorCore(const WmmaArg& arg) { return Find(arg) != nullptr; }

llvm::Value* EmitTensorCore(llvm::IRBuilder<>& builder, const WmmaArg& arg, llvm::Value* a, llvm::Value* b,
                            llvm::Value* c) {
  const TensorCore* core = Find(arg);
  KILN_CHECK(core != nullptr);
  std::vector<llvm::Value*> registers;
  AppendRegisters(builder, a, arg.in, registers);
  AppendRegisters(builder, b, arg.in, registers);
  AppendRegisters(builder, c, arg.out, registers);
  llvm::Value* sums = builder.CreateIntrinsic(core->instruction, {}, registers);
  llvm::Value* fragment = llvm::PoisonValue::get(c->getType());
  for (unsigned i = 0; i < llvm::cast<llvm::FixedVectorType>(c->getType())->getNumElements(); ++i)
    fragment = builder.CreateInsertElement(fragment, builder.CreateExtractValue(sums, i), uint64_t{i});
  return fragment;
}

}  // namespace kiln::compiler
