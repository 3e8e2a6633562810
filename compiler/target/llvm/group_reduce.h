// REDUCEs over the items of a work group: what each item has is reduced, and all get the result.
//
// Items that step together exchange values by shuffles: in a butterfly, each with the one whose number differs in one
// bit, so that after log2(n) steps all have the same. Others meet in shared memory, behind barriers. The order is
// fixed, so that every run gives the same.
#ifndef KILN_COMPILER_TARGET_LLVM_GROUP_REDUCE_H_
#define KILN_COMPILER_TARGET_LLVM_GROUP_REDUCE_H_

#include <array>
#include <vector>

#include "compiler/ir/uop.h"
#include "compiler/target/llvm/kernel_abi.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

// Shared memory that the REDUCEs over items of `linear` need, whose groups have `items`: all use the same.
int64_t ReduceBytesOf(const UOp* linear, const std::array<int64_t, 3>& items);

// That memory, an array of the group's; null if they need none.
llvm::Value* ReduceMemoryOf(const UOp* linear, llvm::Function* function, const KernelAbi& abi);

class GroupReduce {
 public:
  // Of a function whose groups have so many items along each axis, and ReduceBytesOf them at `memory`. All must outlive
  // the object.
  GroupReduce(llvm::IRBuilder<>& builder, const KernelAbi& abi, std::array<int64_t, 3> items, llvm::Value* memory)
      : builder_(builder), abi_(abi), items_(items), all_(items[0] * items[1] * items[2]), memory_(memory) {}

  // What `reduce`, a REDUCE over items, makes of `rows`, each of so many lanes, in their memory's type.
  std::vector<llvm::Value*> ReduceRows(const UOp* reduce, const std::vector<llvm::Value*>& rows, int64_t lanes);

 private:
  // Reduces each of `values`, scalars, over the items of `special`.
  void Reduce(const UOp* special, Op reduce_op, DType dtype, std::vector<llvm::Value*>& values);
  // Items whose numbers differ in no other bits than those of `bits`, which are neighbours.
  void Butterfly(Op reduce_op, DType dtype, int64_t from, int64_t to, std::vector<llvm::Value*>& values);
  llvm::Value* Partners(llvm::Value* value, int64_t mask);
  void AcrossWarps(Op reduce_op, DType dtype, int64_t warps, std::vector<llvm::Value*>& values);
  void ThroughMemory(Op reduce_op, DType dtype, size_t axis, std::vector<llvm::Value*>& values);

  llvm::Value* Number();  // of this item in its group, an i32
  llvm::Value* At(llvm::Type* element, llvm::Value* index, int64_t offset);
  llvm::Value* Combine(Op reduce_op, DType dtype, llvm::Value* a, llvm::Value* b);

  llvm::IRBuilder<>& builder_;
  const KernelAbi& abi_;
  const std::array<int64_t, 3> items_;
  const int64_t all_;
  llvm::Value* const memory_;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_GROUP_REDUCE_H_
