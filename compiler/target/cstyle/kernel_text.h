// One linear program as one kernel's text: the emitter of all C-like languages.
#ifndef KILN_COMPILER_TARGET_CSTYLE_KERNEL_TEXT_H_
#define KILN_COMPILER_TARGET_CSTYLE_KERNEL_TEXT_H_

#include <string>

#include "compiler/target/cstyle/prelude.h"

namespace kiln::compiler {

// `linear` as LowerForDialect leaves it, as a kernel called `symbol`, which is an
// identifier. Parameters are called data0, data1, ... by their slots, and follow
// each other in that order. What the kernel needs goes into `prelude`.
std::string KernelText(Prelude& prelude, UOp* linear, const std::string& symbol);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_CSTYLE_KERNEL_TEXT_H_
