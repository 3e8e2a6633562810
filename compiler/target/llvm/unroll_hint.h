// Loops of GPU kernels do several iterations at once.
#ifndef KILN_COMPILER_TARGET_LLVM_UNROLL_HINT_H_
#define KILN_COMPILER_TARGET_LLVM_UNROLL_HINT_H_

#include "compiler/ir/uop.h"
#include "llvm/IR/Instructions.h"

namespace kiln::compiler {

// Asks LLVM's loop-unroll for that, of the loop of `range`, whose body is one block that ends in `again`: if its
// number of iterations allows it and the body is short. A work item waits for what it loads, in order: so it asks for
// the loads of several iterations at once.
void RequestUnroll(const UOp* range, llvm::BranchInst* again);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_UNROLL_HINT_H_
