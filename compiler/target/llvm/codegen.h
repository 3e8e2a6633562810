// From an LLVM module to machine code.
#ifndef KILN_COMPILER_TARGET_LLVM_CODEGEN_H_
#define KILN_COMPILER_TARGET_LLVM_CODEGEN_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kiln/v1/target.pb.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

namespace kiln::compiler {

// What LLVM says of code that it cannot make is added to `faults`, which outlives the context's last use. Without it,
// LLVM ends the process.
void CollectFaults(llvm::LLVMContext& context, std::string* faults);

// A TargetMachine for one compilation: they are not shared between threads.
// UNSUPPORTED_OP if this LLVM cannot make code for the target.
absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> MakeTargetMachine(const v1::Target& target);

// The few passes that hand-made vector code needs.
void Optimize(llvm::Module& module, llvm::TargetMachine& machine);

// For people, and exact.
std::string ModuleText(const llvm::Module& module);

// A relocatable object, or its assembly text. Changes the module.
std::string EmitObject(llvm::Module& module, llvm::TargetMachine& machine);
std::string EmitAssembly(llvm::Module& module, llvm::TargetMachine& machine);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_CODEGEN_H_
