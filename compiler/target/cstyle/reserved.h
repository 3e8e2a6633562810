// Words that a kernel cannot be called by in a text.
#ifndef KILN_COMPILER_TARGET_CSTYLE_RESERVED_H_
#define KILN_COMPILER_TARGET_CSTYLE_RESERVED_H_

#include "absl/strings/string_view.h"

namespace kiln::compiler {

// Whether `name` is a word of C, C++, CUDA, HIP, OpenCL or Metal, or one of their types or vectors ("float4").
bool IsReserved(absl::string_view name);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_CSTYLE_RESERVED_H_
