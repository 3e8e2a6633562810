// Object code for tests, from LLVM IR as text.
#ifndef KILN_RUNTIME_TESTING_COMPILE_IR_H_
#define KILN_RUNTIME_TESTING_COMPILE_IR_H_

#include <string>

#include "absl/strings/string_view.h"

namespace kiln::runtime::testing {

// An ELF relocatable for this machine. Ends the process if the text is wrong.
std::string CompileIr(absl::string_view ir);

}  // namespace kiln::runtime::testing

#endif  // KILN_RUNTIME_TESTING_COMPILE_IR_H_
