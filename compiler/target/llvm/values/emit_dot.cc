#include "compiler/target/llvm/values/emit_dot.h"

#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace kiln::compiler {

llvm::Value* EmitDot(llvm::IRBuilder<>& builder, llvm::Value* u, llvm::Value* s, llvm::Value* acc) {
  if (acc->getType()->getScalarType()->isFloatTy()) {
    auto* bfloats = llvm::FixedVectorType::get(builder.getBFloatTy(), 32);
    return builder.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {},
                                   {acc, builder.CreateBitCast(u, bfloats), builder.CreateBitCast(s, bfloats)});
  }
  auto* bytes = llvm::FixedVectorType::get(builder.getInt8Ty(), 64);
  return builder.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpdpbusd_512, {},
                                 {acc, builder.CreateBitCast(u, bytes), builder.CreateBitCast(s, bytes)});
}

}  // namespace kiln::compiler
