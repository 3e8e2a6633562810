// Lanes that change places, in the form that LLVM turns into one instruction.
#ifndef KILN_COMPILER_TARGET_LLVM_VALUES_MOVE_LANES_H_
#define KILN_COMPILER_TARGET_LLVM_VALUES_MOVE_LANES_H_

#include "compiler/ir/uop.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

// Lane l of the result is lane l + shift of the vector `value`, or `fill` if there is none.
llvm::Value* MoveLanes(llvm::IRBuilder<>& builder, llvm::Value* value, int64_t shift, const ConstArg& fill);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_VALUES_MOVE_LANES_H_
