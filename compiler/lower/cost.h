// What a kernel costs, before anything has run.
#ifndef KILN_COMPILER_LOWER_COST_H_
#define KILN_COMPILER_LOWER_COST_H_

#include "compiler/ir/graph.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// Of a kernel as Rangeify leaves it. flops counts arithmetic on numbers of every
// kind, and accesses; bytes count each buffer once. run_ns is of one item after the other.
v1::Cost CostOf(Graph& graph, UOp* kernel);

// Of a program as CodeGenerator::SelectListed leaves it: bounds known only at run time count in
// full, but in run_ns. All of it is flops, and bytes are not counted; run_ns is of one item after the other.
v1::Cost CostOfProgram(const UOp* linear);

// Makes run_ns that of the device: `parts` of the kernel are on their way by themselves. `listed`: a client wrote it.
void ShareOut(const v1::Target& target, uint64_t parts, bool listed, v1::Cost& cost);

// Iterations of the loop that threads share, in a kernel or program as it is emitted; 1
// if there is none.
uint64_t IterationsOf(const UOp* linear);

// Iterations of the outermost loop that are worth a thread's wake-up.
uint64_t GrainOf(const v1::Cost& cost, uint64_t iterations);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_LOWER_COST_H_
