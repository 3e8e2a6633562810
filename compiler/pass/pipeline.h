// Runs passes of the table: leaves out what has nothing to do or is disabled, verifies, times, tells
// the observer. A pass itself only rewrites.
#ifndef KILN_COMPILER_PASS_PIPELINE_H_
#define KILN_COMPILER_PASS_PIPELINE_H_

#include "absl/status/statusor.h"
#include "compiler/pass/pass.h"

namespace kiln::compiler {

// `root` after the passes of `stage`, from the one called `from` on if that is not empty. An error
// says which pass it is of; CANCELLED where the observer wants no more.
absl::StatusOr<UOp*> RunStage(Lowering& lowering, Stage stage, UOp* root, absl::string_view from = "");

// One pass, whether or not its condition holds. Aborts if it says by its answer that it changed
// nothing, and did: if it returns `root`, no node under it may be another than it was, and neither
// gates nor hoisted copies may have come. A pass that makes no graph must return `root`.
absl::StatusOr<UOp*> RunPass(Lowering& lowering, const Pass& pass, UOp* root);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_PASS_PIPELINE_H_
