// One linearized kernel as one LLVM function.
#ifndef KILN_COMPILER_TARGET_LLVM_KERNEL_EMITTER_H_
#define KILN_COMPILER_TARGET_LLVM_KERNEL_EMITTER_H_

#include <string>

#include "absl/container/flat_hash_set.h"
#include "compiler/ir/uop.h"
#include "compiler/target/llvm/kernel_abi.h"
#include "llvm/IR/Module.h"

namespace kiln::compiler {

struct EmitOptions {
  const KernelAbi* abi = &CpuAbi();
  bool contraction = true;
  bool guard_arrays = false;  // of programs: array_guard.h
  bool matrix_unit_by_loops = false;
  bool rounds = false;  // in one instruction (structure/rounding.h)
  int64_t threads = 1;  // that usually share a kernel
  // Of kernels: parameters that begin at a line and whose whole lines go past the caches (streamed_stores.h).
  absl::flat_hash_set<const UOp*> streamed;
};

// Adds to `module` a function, as the ABI declares it, that runs a share of the iterations of
// the kernel's THREAD range (all of the kernel if it has none). `linear` is the LINEAR of
// a kernel (kernel/linearize.h).
llvm::Function* EmitKernel(llvm::Module& module, const UOp* linear, const std::string& symbol,
                           const EmitOptions& options);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_KERNEL_EMITTER_H_
