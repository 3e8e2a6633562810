// What is legal at each stage, as data: the watermarks that the pass runner
// checks.
#ifndef KILN_COMPILER_SPEC_SPEC_H_
#define KILN_COMPILER_SPEC_SPEC_H_

#include "absl/status/status.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

struct Spec {
  absl::string_view name;
  // Of Stages (ir/op.h): the column of ops.def says which ops are legal.
  uint32_t stage;
  // Further rules: what is wrong with a node, or nullptr.
  const char* (*fault)(const UOp* uop);

  bool Allows(Op op) const { return (Info(op).stages & stage) != 0; }
};

extern const Spec kCoreSpec;          // anything that the core IR can say
extern const Spec kTensorSpec;        // a request: values, movement, STOREs; no loops
extern const Spec kProgramSpec;       // a program by hand, as program_spec.h checks it
extern const Spec kCallSpec;          // LINEAR of CALLs of kernels
extern const Spec kKernelSpec;        // one kernel: loops over scalars, no movement op
extern const Spec kScheduledSpec;     // one kernel: the same, and local buffers
extern const Spec kSharedOutSpec;     // one kernel: the same, and coordinates of work items
extern const Spec kExpandedSpec;      // one kernel: lanes, no UPCAST or UNROLL loop
extern const Spec kAccumulatingSpec;  // one kernel: accumulators, no REDUCE over a loop; over items
extern const Spec kLinearSpec;        // one kernel: instructions in order
extern const Spec kNamedSpec;         // one program: effects and reads in order, arithmetic in between
extern const Spec kGroupedSpec;       // one program: no SPECIAL and no BARRIER

// The first node under `root`, sources first, that breaks the spec: INTERNAL for
// what a pass made, UNSUPPORTED_OP for what a client sent (kTensorSpec).
absl::Status Verify(const Spec& spec, const Graph& graph, UOp* root);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SPEC_SPEC_H_
