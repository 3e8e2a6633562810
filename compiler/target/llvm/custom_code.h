// A client's own code, as a function of the module: only where the server's owner
// allows it (Limits::allow_native_code).
#ifndef KILN_COMPILER_TARGET_LLVM_CUSTOM_CODE_H_
#define KILN_COMPILER_TARGET_LLVM_CUSTOM_CODE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "llvm/IR/Module.h"

namespace kiln::compiler {

// Adds to `module` a function whose body is the code of `uop`, a CUSTOM or CUSTOMI:
// LLVM IR in which {n} is the n-th source's value, as RegisterType has it. For a
// CUSTOMI it is the right-hand side of one assignment, "mul i32 {0}, {1}". The function
// is inlined wherever it is called. BAD_ARGUMENT, with LLVM's own diagnostic, if LLVM
// does not take the code, or it is more than a body.
absl::StatusOr<llvm::Function*> AddCustomCode(llvm::Module& module, const UOp* uop);

// A client's text for a whole program (KernelArg::source), as a kernel named `symbol`:
// LLVM IR with one function, void, which has for each of the program's parameters and
// variables, by slot, a pointer or an i64. It runs once for each launch. BAD_ARGUMENT as
// above.
absl::StatusOr<llvm::Function*> AddSource(llvm::Module& module, const std::string& text, const std::string& symbol);

// Whether the two above take all code of `program`, a client's; the error has the node.
absl::Status CheckCustomCode(const Graph& graph, UOp* program);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_CUSTOM_CODE_H_
