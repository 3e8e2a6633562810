#include "compiler/pass/graph_passes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "compiler/import/wire.h"
#include "compiler/kernel/dots.h"
#include "compiler/rules/stable.h"
#include "compiler/schedule/callify.h"
#include "compiler/schedule/opaque_calls.h"
#include "compiler/schedule/rangeify.h"
#include "compiler/schedule/realize.h"
#include "compiler/spec/program_spec.h"
#include "compiler/structure/entry.h"

namespace kiln::compiler {

absl::StatusOr<UOp*> Normalise(Lowering& lowering) {
  Graph& graph = lowering.graph;
  const Limits& limits = lowering.options.limits;
  KILN_ASSIGN_OR_RETURN(UOp * root, FromWire(*lowering.wire, limits, graph));
  const EntryLevel level = LevelOf(root);
  if (level == EntryLevel::kProgram) KILN_RETURN_IF_ERROR(VerifyProgram(root, limits, &graph).status());
  if (level != EntryLevel::kTensor) return root;
  KILN_ASSIGN_OR_RETURN(root, HideBodies(graph, root, limits, lowering.function.bodies));
  KILN_RETURN_IF_ERROR(Verify(kTensorSpec, graph, root));
  return MakeStable(graph, root);  // before fusion can part the factors
}

absl::StatusOr<UOp*> NormaliseShards(Lowering& lowering) {
  KILN_ASSIGN_OR_RETURN(UOp * root, FromWire(*lowering.wire, lowering.options.limits, lowering.graph));
  if (LevelOf(root) != EntryLevel::kTensor)
    return MakeError(v1::UNSUPPORTED_OP, "a program written by hand is for one device");
  return HideBodies(lowering.graph, root, lowering.options.limits, lowering.function.bodies);
}

absl::StatusOr<UOp*> CallifyInto(Lowering& lowering, UOp* root) {
  KernelBodies bodies = std::move(lowering.function.bodies);
  KILN_ASSIGN_OR_RETURN(lowering.function, Callify(lowering.graph, root));
  lowering.function.bodies = std::move(bodies);
  return lowering.function.sink;
}

std::string RealizedText(const Lowering& lowering) {
  std::vector<const UOp*> values(lowering.realized.begin(), lowering.realized.end());
  std::sort(values.begin(), values.end(), [](const UOp* a, const UOp* b) { return a->id() < b->id(); });
  std::string text = absl::StrCat(values.size(), values.size() == 1 ? " value" : " values", " beside those stored\n");
  for (const UOp* value : values)
    absl::StrAppend(&text, "  ", Name(value->op()), " : ", Name(value->dtype()), " ", ToString(value->shape()), "\n");
  return text;
}

absl::StatusOr<UOp*> ChooseLayoutsInto(Lowering& lowering, UOp* sink) {
  const DotUnits units = DotUnitsOf(lowering.target);
  const auto is_factor = [&](DType dtype) { return units.TakesDotsOf(dtype) || units.TakesTilesOf(dtype); };
  lowering.realized = KeepNarrow(sink, lowering.realized, is_factor, lowering.marked);
  lowering.layouts = LayoutsFor(lowering.graph, sink, lowering.function.bodies, lowering.realized);
  return sink;
}

std::string LayoutsText(const Lowering& lowering) {
  std::vector<const UOp*> values;
  for (const auto& [value, order] : lowering.layouts) values.push_back(value);
  std::sort(values.begin(), values.end(), [](const UOp* a, const UOp* b) { return a->id() < b->id(); });
  std::string text = absl::StrCat(values.size(), values.size() == 1 ? " value" : " values", " not as the shape says\n");
  for (const UOp* value : values) {
    absl::StrAppend(&text, "  ", Name(value->op()), " : ", Name(value->dtype()), " ", ToString(value->shape()), " as (",
                    absl::StrJoin(lowering.layouts.at(value), ", "), ")\n");
  }
  return text;
}

std::string MemoryPlanText(const Lowering& lowering) {
  const MemoryPlan& plan = lowering.plan;
  return absl::StrCat("arena of ", plan.arena_bytes, " bytes for ", plan.offsets.size(), " buffers, of which ",
                      plan.alive_bytes, " bytes are alive at once\n");
}

}  // namespace kiln::compiler
