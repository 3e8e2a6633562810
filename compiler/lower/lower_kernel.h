// One kernel of loops, from Rangeify or from a client, down to instructions.
#ifndef KILN_COMPILER_LOWER_LOWER_KERNEL_H_
#define KILN_COMPILER_LOWER_LOWER_KERNEL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "compiler/opt/hoist.h"
#include "compiler/options/options.h"
#include "compiler/pass/pipeline.h"
#include "compiler/target/target.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

struct LoweredKernel {
  UOp* linear = nullptr;  // a LINEAR of kLinearSpec, in ops that the generator takes
  std::string schedule;   // the OptOps that were chosen, or asked for
  uint32_t gates = 0;     // accesses that could not be proved
  // What it reads beside its arguments, in the order of the PARAMs that follow theirs.
  std::vector<Hoisted> hoisted;
};

// `kernel` is a SINK that satisfies kKernelSpec, or a chain (lower_chain.h), with `slots` arguments. `schedule`: in
// place of what the rules choose; may be null.
absl::StatusOr<LoweredKernel> LowerKernel(Graph& graph, Pipeline& pipeline, UOp* kernel, uint32_t slots,
                                          const v1::Target& target, const CodeGenerator& generator,
                                          const Options& options, const std::string* schedule);

// The same but for the last pass: `linear` is still a SINK, of kAccumulatingSpec.
absl::StatusOr<LoweredKernel> LowerToAccumulators(Graph& graph, Pipeline& pipeline, UOp* kernel, uint32_t slots,
                                                  const v1::Target& target, const CodeGenerator& generator,
                                                  const Options& options, const std::string* schedule);

// The second half of it, for a kernel whose loop nest is fixed: one that was hoisted.
absl::StatusOr<LoweredKernel> LowerScheduled(Graph& graph, Pipeline& pipeline, UOp* kernel, const v1::Target& target,
                                             const CodeGenerator& generator, const Options& options);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_LOWER_LOWER_KERNEL_H_
