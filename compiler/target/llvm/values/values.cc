#include "compiler/target/llvm/values/values.h"

#include "base/check.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DerivedTypes.h"

namespace kiln::compiler {

llvm::Type* RegisterType(llvm::LLVMContext& context, DType dtype) {
  switch (dtype) {
    case DType::kBool: return llvm::Type::getInt1Ty(context);
    case DType::kFloat16: return llvm::Type::getHalfTy(context);
    case DType::kFloat32: return llvm::Type::getFloatTy(context);
    case DType::kFloat64: return llvm::Type::getDoubleTy(context);
    default: return llvm::Type::getIntNTy(context, static_cast<unsigned>(8 * ItemSize(dtype)));
  }
}

llvm::Type* MemoryType(llvm::LLVMContext& context, DType dtype) {
  return dtype == DType::kBool ? llvm::Type::getInt8Ty(context) : RegisterType(context, dtype);
}

llvm::Type* LaneType(llvm::LLVMContext& context, DType dtype, int64_t lanes) {
  llvm::Type* type = RegisterType(context, dtype);
  return lanes > 1 ? llvm::FixedVectorType::get(type, static_cast<unsigned>(lanes)) : type;
}

llvm::Constant* ConstantOf(llvm::LLVMContext& context, DType dtype, uint64_t bits) {
  llvm::Type* type = RegisterType(context, dtype);
  if (type->isIntegerTy()) {
    const unsigned width = type->getIntegerBitWidth();
    return llvm::ConstantInt::get(context, llvm::APInt(64, bits).trunc(width));
  }
  const unsigned width = static_cast<unsigned>(8 * ItemSize(dtype));
  return llvm::ConstantFP::get(context, llvm::APFloat(type->getFltSemantics(), llvm::APInt(64, bits).trunc(width)));
}

llvm::Value* Materialize(llvm::IRBuilder<>& builder, const Element& element, int64_t lanes) {
  if (lanes == 1) return element.value;
  if (!element.affine) {
    if (element.value->getType()->isVectorTy()) return element.value;
    return builder.CreateVectorSplat(static_cast<unsigned>(lanes), element.value);
  }
  llvm::Value* base = builder.CreateVectorSplat(static_cast<unsigned>(lanes), element.value);
  if (element.step == 0) return base;
  std::vector<llvm::Constant*> steps;
  for (int64_t lane = 0; lane < lanes; ++lane)
    steps.push_back(builder.getInt64(static_cast<uint64_t>(lane * element.step)));
  return builder.CreateAdd(base, llvm::ConstantVector::get(steps));
}

size_t BroadcastRow(const Shape& from, const Shape& to, size_t row) {
  if (from.empty() || RowsOf(from) == 1) return 0;
  KILN_CHECK(from.size() == to.size());
  size_t result = 0, stride = 1;
  for (size_t d = to.size() - 1; d-- > 0;) {
    const size_t position = row % static_cast<size_t>(to[d]);
    row /= static_cast<size_t>(to[d]);
    if (from[d] != 1) result += position * stride;
    stride *= static_cast<size_t>(from[d]);
  }
  return result;
}

}  // namespace kiln::compiler
