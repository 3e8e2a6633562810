// One kernel of loops, from Rangeify or from a client, down to instructions.
#ifndef KILN_COMPILER_LOWER_KERNEL_H_
#define KILN_COMPILER_LOWER_KERNEL_H_

#include <string>

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "compiler/options.h"
#include "compiler/pass/pipeline.h"
#include "compiler/target/target.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

struct LoweredKernel {
  UOp* linear;           // a LINEAR of kLinearSpec, in ops that the generator takes
  std::string schedule;  // the OptOps that were chosen, or asked for
  uint32_t gates;        // accesses that could not be proved
};

// `kernel` is a SINK that satisfies kKernelSpec. `schedule`: in place of what the rules
// choose; may be null.
absl::StatusOr<LoweredKernel> LowerKernel(Graph& graph, Pipeline& pipeline, UOp* kernel, const v1::Target& target,
                                          const CodeGenerator& generator, const Options& options,
                                          const std::string* schedule);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_LOWER_KERNEL_H_
