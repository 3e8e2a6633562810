// The matrix unit of a CPU's core in LLVM's IR: products of tiles that are kept in its own registers from one
// iteration of a loop to the next (structure/core_product.h).
//
// The registers are configured before the first product, by what all of them need; or, where two products of one
// kernel differ, before each sum begins. They are given back at the end of the kernel: a thread that has nothing in
// them is switched faster.
//
// Each register is 16 rows of 64 bytes. A sum of r x c of them takes the first; then come r of A and as many of B as
// are left.
#ifndef KILN_COMPILER_TARGET_LLVM_TILES_MATRIX_UNIT_H_
#define KILN_COMPILER_TARGET_LLVM_TILES_MATRIX_UNIT_H_

#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/structure/core_product.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

// The unit's instructions.
class TileCode;

class MatrixUnit {
 public:
  // For the products of `linear`, if there are any. With `by_loops`, its registers are an array, and instructions are
  // loops over that.
  MatrixUnit(llvm::IRBuilder<>& builder, llvm::Function* function, const UOp* linear, bool by_loops);
  ~MatrixUnit();

  // At the beginning of the kernel, and at its end.
  void Begin();
  void Finish();

  // Whether `buffer` is an accumulator in tile registers, and whether `load` is what a product adds to.
  bool Holds(const UOp* buffer) const { return sums_.contains(buffer); }
  bool IsAddedTo(const UOp* load) const { return added_to_.contains(load); }

  // Sets the sum to 0.
  void Clear(const UOp* buffer);
  // Adds a product to its sum. `a` and `b` are where the first rows begin.
  void Multiply(const CoreProduct& product, llvm::Value* a, llvm::Value* b);
  // Writes the sum to memory, from where it is read in vectors of `lanes`, the first of which has number 0.
  void Spill(const UOp* buffer);
  llvm::Value* Read(const UOp* buffer, int64_t number, int64_t lanes);

 private:
  struct Sum {
    CoreProduct product;
    llvm::AllocaInst* memory = nullptr;  // where it is read from
  };

  llvm::Value* InMemory(const UOp* buffer, int64_t element);

  llvm::IRBuilder<>& builder_;
  llvm::Function* function_;
  std::unique_ptr<TileCode> code_;
  absl::flat_hash_map<const UOp*, Sum> sums_;
  absl::flat_hash_set<const UOp*> added_to_;
  bool alike_ = true;  // one configuration for all
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_TILES_MATRIX_UNIT_H_
