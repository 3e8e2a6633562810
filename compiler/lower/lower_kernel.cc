// The stages of one kernel, in order; pass/passes.cc has the passes of each.
#include "compiler/lower/lower_kernel.h"

#include "base/error.h"
#include "compiler/lower/chain_nests.h"
#include "compiler/lower/lower_chain.h"
#include "compiler/pass/pipeline.h"

namespace kiln::compiler {

absl::StatusOr<UOp*> LowerToAccumulators(Lowering& lowering, UOp* kernel) {
  lowering.body.client = kernel;
  KILN_ASSIGN_OR_RETURN(kernel, RunStage(lowering, Stage::kLoops, kernel));
  // Beyond this point, the loop nest is fixed.
  return RunStage(lowering, Stage::kAccumulators, kernel);
  // Beyond this point, no REDUCE over a loop, and no access outside its buffer.
}

absl::StatusOr<UOp*> LowerKernel(Lowering& lowering, UOp* kernel) {
  const auto lower = IsChain(kernel) ? LowerChain : LowerToAccumulators;
  KILN_ASSIGN_OR_RETURN(kernel, lower(lowering, kernel));
  return RunStage(lowering, Stage::kInstructions, kernel);
  // Beyond this point, the order of instructions is fixed.
}

absl::StatusOr<UOp*> LowerScheduled(Lowering& lowering, UOp* kernel) {
  lowering.body.client = kernel;
  KILN_ASSIGN_OR_RETURN(kernel, RunStage(lowering, Stage::kAccumulators, kernel));
  return RunStage(lowering, Stage::kInstructions, kernel);
}

}  // namespace kiln::compiler
