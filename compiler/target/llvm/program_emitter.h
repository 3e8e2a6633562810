// One hand-written program, once its work groups are loops, as one LLVM function.
#ifndef KILN_COMPILER_TARGET_LLVM_PROGRAM_EMITTER_H_
#define KILN_COMPILER_TARGET_LLVM_PROGRAM_EMITTER_H_

#include <string>

#include "absl/status/statusor.h"
#include "compiler/ir/uop.h"
#include "compiler/target/llvm/kernel_emitter.h"
#include "llvm/IR/Module.h"

namespace kiln::compiler {

// Adds to `module` a function as EmitKernel does, of a LINEAR of kGroupedSpec. What
// it reads is frozen: other groups may write there meanwhile, and an index that was
// compared with a bound must not be another one when it is used. An error is one of
// AddCustomCode (custom_code.h).
absl::StatusOr<llvm::Function*> EmitProgram(llvm::Module& module, const UOp* linear, const std::string& symbol,
                                            const EmitOptions& options);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_PROGRAM_EMITTER_H_
