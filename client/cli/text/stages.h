// The eight stages of a compilation, and which of the compiler's passes show each.
//
// A compilation runs more passes than it has stages, and not every target needs
// every pass. A stage is seen in the first of its passes that ran.
#ifndef KILN_CLIENT_CLI_TEXT_STAGES_H_
#define KILN_CLIENT_CLI_TEXT_STAGES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kiln/v1/debug_service.pb.h"

namespace kiln::cli {

struct StageRow {
  absl::string_view name;  // "optimize"
  absl::string_view what;
  std::vector<absl::string_view> passes;  // by preference
};

// callify, rangeify, optimize, expand, select, linearize, memory_plan, render.
const std::vector<StageRow>& Stages();

// Passes over kernels run once for each: "100.linearize/k0_sum_32x10" is pass
// "linearize" on kernel "k0_sum_32x10", which is empty for the whole program.
std::string PassOf(absl::string_view stage);
std::string KernelOf(absl::string_view stage);

// Those of the response's stages that `name` means: one of the eight, a pass's
// name, PASS/KERNEL, or the full name. Empty if there is none.
std::vector<const v1::ExplainResponse::Stage*> Find(const v1::ExplainResponse& response, absl::string_view name);

// Of all that a compilation may show, the passes that `name` may mean, for a request: with them alone a server has
// less to do.
std::vector<std::string> PassesOf(absl::string_view name);

// The one that `name` means: NotFoundError, with the names there are, for none or
// for several (kernels).
absl::StatusOr<const v1::ExplainResponse::Stage*> FindOne(const v1::ExplainResponse& response, absl::string_view name);

// Whether a stage's text is a graph, and so an input again.
bool IsGraph(const v1::ExplainResponse::Stage& stage);

}  // namespace kiln::cli

#endif  // KILN_CLIENT_CLI_TEXT_STAGES_H_
