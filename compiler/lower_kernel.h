// One kernel of loops, from Rangeify or from a client, down to instructions.
#ifndef KILN_COMPILER_LOWER_KERNEL_H_
#define KILN_COMPILER_LOWER_KERNEL_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "compiler/options.h"
#include "compiler/pass/pipeline.h"
#include "compiler/target/target.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// `kernel` is a SINK that satisfies kKernelSpec. Returns a LINEAR of kLinearSpec,
// in ops that `generator` takes. `gates`: how many accesses could not be proved.
absl::StatusOr<UOp*> LowerKernel(Graph& graph, Pipeline& pipeline, UOp* kernel, const v1::Target& target,
                                 const CodeGenerator& generator, const Options& options, uint32_t& gates);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_LOWER_KERNEL_H_
