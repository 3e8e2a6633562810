// What a kernel costs, before anything has run.
#ifndef KILN_COMPILER_LOWER_COST_H_
#define KILN_COMPILER_LOWER_COST_H_

#include "compiler/ir/graph.h"
#include "kiln/v1/executable.pb.h"

namespace kiln::compiler {

// Of a kernel as Rangeify leaves it. flops counts arithmetic on numbers of every
// kind, and accesses; bytes count each buffer once.
v1::Cost CostOf(Graph& graph, UOp* kernel);

// Of a program as CodeGenerator::SelectListed leaves it: bounds known only at run time count in
// full. All of it is flops, and bytes are not counted.
v1::Cost CostOfProgram(const UOp* linear);

// Iterations of the loop that threads share, in a kernel or program as it is emitted; 1
// if there is none.
uint64_t IterationsOf(const UOp* linear);

// Iterations of the outermost loop that are worth a thread's wake-up.
uint64_t GrainOf(const v1::Cost& cost, uint64_t iterations);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_LOWER_COST_H_
