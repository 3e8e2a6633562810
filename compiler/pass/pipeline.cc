#include "compiler/pass/pipeline.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "compiler/import/wire.h"

namespace kiln::compiler {
namespace {

double MicrosSince(absl::Time start) { return absl::ToDoubleMicroseconds(absl::Now() - start); }

}  // namespace

absl::StatusOr<UOp*> Pipeline::Run(absl::string_view name, UOp* root, const Spec& after, const Pass& pass) {
  const absl::Time start = absl::Now();
  absl::StatusOr<UOp*> result = pass(root);
  const double micros = MicrosSince(start);
  if (result.ok()) {
    if (absl::Status legal = Verify(after, graph_, *result); !legal.ok()) result = std::move(legal);
  }
  if (!result.ok()) return Annotate(result.status(), name);
  const size_t nodes = observer_ == nullptr ? 0 : Toposort(*result).size();
  KILN_RETURN_IF_ERROR(Report(name, micros, nodes, [&] { return ToText(*result); }));
  return result;
}

absl::StatusOr<UOp*> Pipeline::RunOptional(absl::string_view name, UOp* root, const Spec& after, const Pass& pass) {
  const auto& disabled = options_.disabled_passes;
  if (std::find(disabled.begin(), disabled.end(), name) != disabled.end()) return root;
  return Run(name, root, after, pass);
}

absl::Status Pipeline::RunStep(absl::string_view name, const std::function<absl::Status()>& step,
                               const std::function<std::string()>& text) {
  const absl::Time start = absl::Now();
  if (absl::Status status = step(); !status.ok()) return Annotate(status, name);
  return Report(name, MicrosSince(start), 0, text);
}

absl::Status Pipeline::Report(absl::string_view name, double micros, size_t nodes,
                              const std::function<std::string()>& text) {
  if (observer_ == nullptr) return absl::OkStatus();
  observer_->OnPass({name, kernel_, micros, nodes, text});
  if (!observer_->StopAfter(name)) return absl::OkStatus();
  return absl::CancelledError(absl::StrCat("stopped after ", name, ", as the observer asked"));
}

}  // namespace kiln::compiler
