// Loops of GPU kernels do several turns at once.
#ifndef KILN_COMPILER_TARGET_LLVM_TURNS_AT_ONCE_H_
#define KILN_COMPILER_TARGET_LLVM_TURNS_AT_ONCE_H_

#include "compiler/ir/uop.h"
#include "llvm/IR/Instructions.h"

namespace kiln::compiler {

// Says so of the loop of `range`, whose body is one block that ends in `again`, if its number of turns allows it and
// the body is short: LLVM's loop-unroll reads it. A work item waits for what it loads, in order: so it asks for
// several turns' at once.
void SayTurnsAtOnce(const UOp* range, llvm::BranchInst* again);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_TURNS_AT_ONCE_H_
