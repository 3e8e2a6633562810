// wgmma, by which four warps multiply what lies in shared memory: the instructions, and the values that go through
// them.
//
// Products run behind the items' backs: the registers of the sums are the tensor cores' from a fence to a wait. LLVM
// has no intrinsic for the product, and those of fence and wait do not say whose registers they are about; so all three
// are assembly that changes the sums in place.
#ifndef KILN_COMPILER_TARGET_GPU_WGMMA_H_
#define KILN_COMPILER_TARGET_GPU_WGMMA_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/dtype.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

class Wgmma {
 public:
  using Sums = std::vector<llvm::Value*>;  // floats of an item, in the instruction's order

  static constexpr int64_t kDepth = 16;  // of one product, in elements of `in`
  static constexpr int64_t kLine = 128;  // bytes, whose 16-byte pieces are exchanged by the line's number

  // 64 rows by `columns`. The builder outlives it.
  Wgmma(llvm::IRBuilder<>& builder, DType in, int64_t columns);
  size_t count() const { return count_; }

  // Of a matrix that begins at `place`, in lines: each is of a row, 64 deep; or, where rows lie beside each other, of a
  // depth, and 64 lines of 64 rows follow each other. Adding 1 to it goes on by 16 bytes.
  llvm::Value* Descriptor(llvm::Value* place, bool rows_beside_each_other) const;

  // The sums are in registers, for the tensor cores to take.
  Sums Fence(const Sums& sums) const;
  Sums Multiply(llvm::Value* a, llvm::Value* b, const Sums& sums, bool a_beside, bool b_beside) const;
  // All that was committed is done.
  Sums Wait(const Sums& sums) const;

 private:
  Sums Change(const std::string& text, const std::string& inputs, std::vector<llvm::Value*> operands,
              const Sums& sums) const;

  llvm::IRBuilder<>& builder_;
  const DType in_;
  const int64_t columns_;
  const size_t count_;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_GPU_WGMMA_H_
