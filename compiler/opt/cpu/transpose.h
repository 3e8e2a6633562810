// OptOps of kernels that only move and map elements, some of which they read along
// another axis than they write: a transpose, a change of layout.
//
// Square tiles of both axes become lanes, so that memory is read and written in whole
// vectors and the transpose happens in registers (expand.h).
#ifndef KILN_COMPILER_OPT_CPU_TRANSPOSE_H_
#define KILN_COMPILER_OPT_CPU_TRANSPOSE_H_

#include <optional>
#include <vector>

#include "compiler/opt/apply.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// None if `sink` is no such kernel, or no tile divides both axes.
std::optional<std::vector<OptOp>> ChooseTransposeOpts(UOp* sink, const v1::Target& target);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_CPU_TRANSPOSE_H_
