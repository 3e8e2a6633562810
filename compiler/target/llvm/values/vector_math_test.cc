// Which targets get what. How close the values come is for
// tests/bench/accuracy_bench.cc, and the corners are those of every engine
// (tests/conformance/schedules/vector_math_test.cc).
#include "compiler/target/llvm/values/vector_math.h"

#include <gtest/gtest.h>

#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"

namespace kiln::compiler {
namespace {

std::vector<Op> OpsOf(const std::vector<std::string>& features, uint32_t vector_bytes) {
  v1::Target target;
  for (const std::string& feature : features) target.add_features(feature);
  target.mutable_tuning()->set_vector_bytes(vector_bytes);
  std::vector<Op> ops;
  for (const NativeOp& native : VectorMathOps(target)) {
    EXPECT_EQ(native.dtype, DType::kFloat32);
    ops.push_back(native.op);
  }
  return ops;
}

TEST(VectorMath, WhatATargetHas) {
  const std::vector<Op> none, sin = {Op::SIN}, all = {Op::SIN, Op::EXP2, Op::LOG2};
  EXPECT_EQ(OpsOf({"+avx", "-fma"}, 32), none);
  EXPECT_EQ(OpsOf({"+avx2", "+fma", "-avx512f"}, 32), sin);
  EXPECT_EQ(OpsOf({"+avx512dq", "+avx512f", "+fma"}, 64), all);
  EXPECT_EQ(OpsOf({"+avx512dq", "+avx512f", "+fma"}, 32), sin);  // kept to half vectors
}

// Well-formed for a scalar, parts of a register, and several of them.
TEST(VectorMath, AnyNumberOfLanes) {
  llvm::LLVMContext context;
  llvm::Module module("test", context);
  llvm::Type* scalar = llvm::Type::getFloatTy(context);
  for (const Op op : {Op::EXP2, Op::LOG2, Op::SIN}) {
    for (const unsigned lanes : {0, 3, 16, 24, 64}) {
      llvm::Type* type = lanes == 0 ? scalar : llvm::FixedVectorType::get(scalar, lanes);
      auto* function = llvm::Function::Create(llvm::FunctionType::get(type, {type}, false),
                                              llvm::Function::ExternalLinkage, "f", module);
      llvm::IRBuilder<> builder(llvm::BasicBlock::Create(context, "entry", function));
      builder.CreateRet(EmitVectorMath(builder, op, function->getArg(0)));
    }
  }
  EXPECT_FALSE(llvm::verifyModule(module, &llvm::errs()));
}

}  // namespace
}  // namespace kiln::compiler
