// Runs passes: times each, verifies what it leaves, tells the observer, and
// leaves it out if it is disabled. A pass itself only rewrites.
#ifndef KILN_COMPILER_PASS_PIPELINE_H_
#define KILN_COMPILER_PASS_PIPELINE_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "compiler/options/observer.h"
#include "compiler/options/options.h"
#include "compiler/spec/spec.h"

namespace kiln::compiler {

class Pipeline {
 public:
  // `observer` may be null. All must outlive the pipeline.
  Pipeline(const Graph& graph, const Options& options, CompileObserver* observer)
      : graph_(graph), options_(options), observer_(observer) {}

  // Which kernel the following passes run on; empty for the whole program.
  void set_kernel(std::string kernel) { kernel_ = std::move(kernel); }
  const std::string& kernel() const { return kernel_; }

  using Pass = std::function<absl::StatusOr<UOp*>(UOp* root)>;

  // `root` after `pass`, which must then satisfy `after`.
  absl::StatusOr<UOp*> Run(absl::string_view name, UOp* root, const Spec& after, const Pass& pass);
  // The same for a pass that may be left out (Options::disabled_passes).
  absl::StatusOr<UOp*> RunOptional(absl::string_view name, UOp* root, const Spec& after, const Pass& pass);

  // For steps that make no graph: times `step`, then shows `text`.
  absl::Status RunStep(absl::string_view name, const std::function<absl::Status()>& step,
                       const std::function<std::string()>& text);

 private:
  absl::Status Report(absl::string_view name, double micros, size_t nodes, const std::function<std::string()>& text);

  const Graph& graph_;
  const Options& options_;
  CompileObserver* observer_;
  std::string kernel_;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_PASS_PIPELINE_H_
