#include "compiler/pass/pipeline.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/error.h"
#include "compiler/import/wire.h"
#include "compiler/pass/passes.h"

namespace kiln::compiler {
namespace {

bool IsDisabled(const Lowering& lowering, const Pass& pass) {
  const auto& disabled = lowering.options.disabled_passes;
  return pass.need == Need::kOptional && std::find(disabled.begin(), disabled.end(), pass.name) != disabled.end();
}

// Unless it is what the pass before left, and was verified as.
absl::Status VerifyOnce(Lowering& lowering, const Spec* spec, UOp* root) {
  if (spec == nullptr || (spec == lowering.verified && root == lowering.verified_root)) return absl::OkStatus();
  KILN_RETURN_IF_ERROR(Verify(*spec, lowering.graph, root));
  lowering.verified = spec;
  lowering.verified_root = root;
  return absl::OkStatus();
}

// A node is what its op, sources and argument are, and Graph finds it by them. One that a pass changed in
// place is not where they say any more: so if each node is found as itself, none was changed, and equal roots
// are equal graphs. Takes as long as making the graph again: where asserts are on.
bool IsAsItWasMade([[maybe_unused]] Graph& graph, [[maybe_unused]] UOp* root) {
#ifndef NDEBUG
  for (UOp* uop : Toposort(root)) {
    const absl::StatusOr<UOp*> found = graph.TryMake(uop->op(), uop->src(), uop->arg());
    if (!found.ok() || *found != uop) return false;
  }
#endif
  return true;
}

absl::Status Report(const Lowering& lowering, const Pass& pass, double micros, UOp* root) {
  if (lowering.observer == nullptr) return absl::OkStatus();
  const bool graph = pass.text == nullptr;
  if (lowering.observer->WantsRecords())
    lowering.observer->OnPass({pass.name, lowering.body.symbol, micros, graph ? Toposort(root).size() : 0,
                               [&] { return graph ? ToText(root) : pass.text(lowering); }});
  if (!lowering.observer->StopAfter(pass.name)) return absl::OkStatus();
  return absl::CancelledError(absl::StrCat("stopped after ", pass.name, ", as the observer asked"));
}

// What it is given has been verified, or comes from a pass whose result was.
absl::StatusOr<UOp*> RunVerified(Lowering& lowering, const Pass& pass, UOp* root) {
  const uint32_t gates = lowering.body.gates;
  const size_t hoisted = lowering.body.hoisted.size();
  const absl::Time start = absl::Now();
  absl::StatusOr<UOp*> result = pass.run(lowering, root);
  const double micros = absl::ToDoubleMicroseconds(absl::Now() - start);
  if (result.ok()) {
    const Spec* after = pass.after_of == nullptr ? pass.after : pass.after_of(lowering);
    if (absl::Status legal = VerifyOnce(lowering, after, *result); !legal.ok()) result = std::move(legal);
  }
  if (!result.ok()) return Annotate(result.status(), pass.name);
  if (*result == root && root != nullptr) {
    KILN_CHECK(lowering.body.gates == gates && lowering.body.hoisted.size() == hoisted);
    KILN_CHECK(IsAsItWasMade(lowering.graph, root));
  }
  KILN_CHECK(pass.text == nullptr || *result == root);
  KILN_RETURN_IF_ERROR(Report(lowering, pass, micros, *result));
  return result;
}

}  // namespace

absl::StatusOr<UOp*> RunPass(Lowering& lowering, const Pass& pass, UOp* root) {
  if (absl::Status legal = VerifyOnce(lowering, pass.before, root); !legal.ok()) return Annotate(legal, pass.name);
  return RunVerified(lowering, pass, root);
}

absl::StatusOr<UOp*> RunStage(Lowering& lowering, Stage stage, UOp* root, absl::string_view from) {
  bool reached = from.empty();
  for (const Pass& pass : PassesOf(stage).passes) {
    reached = reached || pass.name == from;
    if (!reached || IsDisabled(lowering, pass)) continue;
    if (pass.when.holds != nullptr && !pass.when.holds(lowering, root)) continue;
#ifdef NDEBUG  // the pass before it has said what it left: whether the two fit is for tests to see
    KILN_ASSIGN_OR_RETURN(root, RunVerified(lowering, pass, root));
#else
    KILN_ASSIGN_OR_RETURN(root, RunPass(lowering, pass, root));
#endif
  }
  return root;
}

}  // namespace kiln::compiler
