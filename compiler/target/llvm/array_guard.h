// Watches the arrays of a program, for tests: BUFFERs lie on the stack, where no
// guard page can stand beside each. Every access asks first whether its places are
// in the array, and each array lies between two zones that must be as they were
// when the program ends. Either fault is a trap, which ends the process.
#ifndef KILN_COMPILER_TARGET_LLVM_ARRAY_GUARD_H_
#define KILN_COMPILER_TARGET_LLVM_ARRAY_GUARD_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/target/llvm/values/values.h"

namespace kiln::compiler {

class ArrayGuard {
 public:
  // Both must outlive the object.
  ArrayGuard(llvm::IRBuilder<>& builder, llvm::Function* function) : builder_(builder), function_(function) {}

  // An array for `buffer`, full of a pattern.
  llvm::Value* AddArray(const UOp* buffer);
  // Code that traps if a lane that `gate` opens (null: any) is not in `storage`. Only
  // arrays are asked: behind a PARAM there are guard pages.
  void CheckPlaces(const UOp* storage, llvm::Value* places, llvm::Value* gate);
  // Code that traps if a zone has changed.
  void CheckZones();

 private:
  // Goes on in a block of its own unless `fault`, which may be of lanes.
  void TrapIf(llvm::Value* fault);

  llvm::IRBuilder<>& builder_;
  llvm::Function* function_;
  absl::flat_hash_map<const UOp*, int64_t> sizes_;
  std::vector<llvm::Value*> zones_;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_ARRAY_GUARD_H_
