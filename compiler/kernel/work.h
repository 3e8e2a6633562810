// What a value of a kernel costs, for code that compares costs.
#ifndef KILN_COMPILER_KERNEL_WORK_H_
#define KILN_COMPILER_KERNEL_WORK_H_

#include "compiler/ir/uop.h"

namespace kiln::compiler {

// About how many instructions one vector of `uop` takes: 1, but for what a target
// computes itself by a polynomial (rules/transcendental/native_ops.h).
inline int WorkOf(const UOp* uop) {
  switch (uop->op()) {
    case Op::EXP2: return 10;
    case Op::LOG2: return 16;
    case Op::SIN: return 20;
    default: return 1;
  }
}

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_KERNEL_WORK_H_
