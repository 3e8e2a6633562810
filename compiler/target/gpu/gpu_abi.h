// What kernels of GPUs are called with, and where their work items stand.
#ifndef KILN_COMPILER_TARGET_GPU_GPU_ABI_H_
#define KILN_COMPILER_TARGET_GPU_GPU_ABI_H_

#include <memory>
#include <string>

#include "compiler/target/llvm/kernel_abi.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// Kernels have a parameter for each place: an address in global memory, or an int64. Of places that they do not use,
// an int64, too. Behind them, one for each tensor map of the launch. Items of a group are laid out as its SPECIALs say.
std::unique_ptr<KernelAbi> MakeGpuAbi(const v1::Target& target);

// LLVM's number for memory that a group's items share, and how names of arrays there begin.
inline constexpr unsigned kSharedSpace = 3;
std::string SharedArrayName(const llvm::Function& function);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_GPU_GPU_ABI_H_
