// Products of tensors: kernels that reduce products of two operands, each of which is
// read again along an axis of the output that the other one walks. Matrix products
// are such, batched ones, and convolutions.
//
// The inner loop holds a tile of the output in registers: rows, along which one
// operand is the same, times vectors of lanes, along which the other one is. Its
// shape is chosen by a model of what one iteration costs: multiply-adds, loads, and what
// padding wastes. Then the loops are put in an order in which the operand of the
// lanes stays in the cache, copied to a local buffer where it would not.
#ifndef KILN_COMPILER_OPT_CPU_MATMUL_H_
#define KILN_COMPILER_OPT_CPU_MATMUL_H_

#include <optional>
#include <vector>

#include "compiler/opt/apply.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// The OptOps for such a kernel; nothing for any other.
std::optional<std::vector<OptOp>> ChooseMatmulOpts(UOp* sink, const v1::Target& target);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_CPU_MATMUL_H_
