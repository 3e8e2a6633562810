// Which compiler this is.
#ifndef KILN_COMPILER_OPTIONS_VERSION_H_
#define KILN_COMPILER_OPTIONS_VERSION_H_

namespace kiln::compiler {

// Names this compiler's output: a program stored under another version is not
// used. Raised whenever generated code may change.
inline constexpr char kCompilerVersion[] = "kiln-0.15.0";

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPTIONS_VERSION_H_
