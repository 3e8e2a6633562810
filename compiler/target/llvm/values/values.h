// How values of the IR live in LLVM IR.
//
// A node of shape (d0, ..., dn) is d0*...*d(n-1) LLVM values, each a vector of
// dn lanes (a scalar where dn is 1, or the shape is ()). An int64 element may
// also be affine: base + step * lane, which is how addresses stay scalar.
#ifndef KILN_COMPILER_TARGET_LLVM_VALUES_VALUES_H_
#define KILN_COMPILER_TARGET_LLVM_VALUES_VALUES_H_

#include <vector>

#include "compiler/ir/uop.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

struct Element {
  llvm::Value* value = nullptr;  // a vector of lanes, or a scalar
  // If affine: `value` is the scalar of lane 0, and each lane adds `step`.
  bool affine = false;
  int64_t step = 0;
};

struct Value {
  Shape shape;
  std::vector<Element> elements;  // row-major over all but the last dimension
};

inline int64_t LanesOf(const Shape& shape) { return shape.empty() ? 1 : int64_t{shape.back()}; }
inline int64_t RowsOf(const Shape& shape) {
  return shape.empty() ? 1 : shape.back() == 0 ? 0 : NumElements(shape) / shape.back();
}

// What an AFTER is about.
inline UOp* WithoutOrder(UOp* uop) {
  while (uop->op() == Op::AFTER) uop = uop->src(0);
  return uop;
}

// In registers: bool is i1, bfloat16 is its bits as i16.
llvm::Type* RegisterType(llvm::LLVMContext& context, DType dtype);
// In memory: bool is i8.
llvm::Type* MemoryType(llvm::LLVMContext& context, DType dtype);
// RegisterType, in a vector if there is more than one lane.
llvm::Type* LaneType(llvm::LLVMContext& context, DType dtype, int64_t lanes);

llvm::Constant* ConstantOf(llvm::LLVMContext& context, DType dtype, uint64_t bits);

// `element` as a plain vector (or scalar) of `lanes`, whatever form it has.
llvm::Value* Materialize(llvm::IRBuilder<>& builder, const Element& element, int64_t lanes);

// Which row of a source of shape `from` feeds row `row` of a result of `to`.
size_t BroadcastRow(const Shape& from, const Shape& to, size_t row);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_VALUES_VALUES_H_
