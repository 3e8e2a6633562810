// Shared memory that is asked for at the launch.
#ifndef KILN_COMPILER_TARGET_GPU_DYNAMIC_SHARED_H_
#define KILN_COMPILER_TARGET_GPU_DYNAMIC_SHARED_H_

#include "llvm/IR/Module.h"

namespace kiln::compiler {

// The shared arrays that `function` alone uses become parts of one that has no size in the code
// (".extern .shared"), each at a multiple of kSharedAlignment, in the order of the module.
void MakeSharedDynamic(llvm::Function& function);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_GPU_DYNAMIC_SHARED_H_
