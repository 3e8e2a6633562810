// AMD's loaders take shared objects.
#ifndef KILN_COMPILER_TARGET_GPU_LINK_CODE_OBJECT_H_
#define KILN_COMPILER_TARGET_GPU_LINK_CODE_OBJECT_H_

#include <string>

#include "absl/status/statusor.h"

namespace kiln::compiler {

// `object`, relocatable and for an AMD GPU, as a code object: linked by lld, in this process.
// One at a time, whichever threads ask. INTERNAL_FAULT, in the linker's words, if it cannot be linked.
absl::StatusOr<std::string> LinkCodeObject(const std::string& object);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_GPU_LINK_CODE_OBJECT_H_
