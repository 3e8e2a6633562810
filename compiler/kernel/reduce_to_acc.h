// REDUCEs over loops become accumulators in registers.
#ifndef KILN_COMPILER_KERNEL_REDUCE_TO_ACC_H_
#define KILN_COMPILER_KERNEL_REDUCE_TO_ACC_H_

#include "compiler/ir/graph.h"

namespace kiln::compiler {

// REDUCE(v, loop...) becomes: a REG buffer of v's lanes, set to the identity,
// then END(STORE(acc, acc op v), loop...), then a LOAD. Beyond this point a
// REDUCE reduces lanes alone; or the items of a work group, by their SPECIALs: what
// each of them has accumulated, and all get the result.
UOp* ReduceToAcc(Graph& graph, UOp* sink);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_KERNEL_REDUCE_TO_ACC_H_
