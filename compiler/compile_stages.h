// Stages of compile.cc that other entries of the compiler share.
#ifndef KILN_COMPILER_COMPILE_STAGES_H_
#define KILN_COMPILER_COMPILE_STAGES_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/options/observer.h"
#include "compiler/options/options.h"
#include "compiler/pass/pipeline.h"
#include "compiler/schedule/callify.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/graph.pb.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// All after import: `root` is what "normalise" leaves, and `function` has its bodies.
absl::StatusOr<v1::Executable> CompileNormalised(Graph& graph, Pipeline& pipeline, UOp* root, Function function,
                                                 const v1::Target& target, const Options& options,
                                                 CompileObserver* observer);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_COMPILE_STAGES_H_
