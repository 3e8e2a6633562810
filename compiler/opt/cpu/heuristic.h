// Chooses a kernel's OptOps by hand-written rules: lanes along the axis that
// memory is contiguous in, a register tile where operands are used again, and
// threads over the outermost loop.
#ifndef KILN_COMPILER_OPT_CPU_HEURISTIC_H_
#define KILN_COMPILER_OPT_CPU_HEURISTIC_H_

#include "compiler/opt/apply.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

std::vector<OptOp> ChooseOpts(UOp* sink, const v1::Target& target);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_CPU_HEURISTIC_H_
