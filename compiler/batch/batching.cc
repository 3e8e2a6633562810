#include "compiler/batch/batching.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/graph/devices.h"
#include "compiler/batch/row_wise.h"
#include "compiler/ir/polynomial.h"
#include "compiler/pass/pipeline.h"
#include "compiler/structure/entry.h"

namespace kiln::compiler {
namespace {

std::string NameOf(const UOp* param) {
  const auto& arg = param->arg_as<BufferArg>();
  return arg.name.empty() ? absl::StrCat("slot ", arg.slot) : arg.name;
}

Batching::Part PartOf(const RowPart& part, const UOp* storage) {
  return {part.varying, part.varying ? ToString(storage->shape()[0].expr()) : ""};
}

Batching Summary(const Function& function, const UOp* variable, const RowWise& proof) {
  Batching batching;
  batching.slot = variable->arg_as<BufferArg>().slot;
  batching.name = NameOf(variable);
  if (proof.obstacle.has_value()) {
    batching.obstacle = proof.obstacle->text;
    return batching;
  }
  for (size_t i = 0; i < proof.parameters.size(); ++i) {
    const UOp* param = function.parameters[i];
    batching.parameters.push_back({PartOf(proof.parameters[i], param), param->arg_as<BufferArg>().slot, NameOf(param)});
  }
  for (size_t i = 0; i < proof.results.size(); ++i)
    batching.results.push_back(PartOf(proof.results[i], function.results[i].buffer));
  return batching;
}

}  // namespace

absl::StatusOr<std::vector<Batching>> BatchingOf(const v1::Graph& graph, const Options& options,
                                                 CompileObserver* observer) {
  std::vector<Batching> all;
  if (NamesSeveralDevices(graph)) return all;
  Graph nodes;
  Lowering lowering(nodes, options, observer);
  lowering.wire = &graph;
  KILN_ASSIGN_OR_RETURN(UOp * root, RunStage(lowering, Stage::kImport, nullptr));
  if (LevelOf(root) != EntryLevel::kTensor) return all;
  KILN_ASSIGN_OR_RETURN(root, RunStage(lowering, Stage::kCallify, root));
  const Function& function = lowering.function;
  if (function.variables.empty()) return all;
  KILN_ASSIGN_OR_RETURN(root, RunStage(lowering, Stage::kRangeify, root));
  for (UOp* variable : function.variables)
    all.push_back(Summary(function, variable, ProveRowWise(nodes, function, root, variable)));
  return all;
}

}  // namespace kiln::compiler
