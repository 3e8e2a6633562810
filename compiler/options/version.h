// Which compiler this is.
#ifndef KILN_COMPILER_OPTIONS_VERSION_H_
#define KILN_COMPILER_OPTIONS_VERSION_H_

#include "base/release.h"

namespace kiln::compiler {

// Names this compiler's output: a program stored under another version is not
// used.
inline constexpr auto& kCompilerVersion = kRelease;

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPTIONS_VERSION_H_
