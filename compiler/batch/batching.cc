#include "compiler/batch/batching.h"

#include "absl/strings/str_cat.h"
#include "compiler/batch/row_wise.h"

namespace kiln::compiler {
namespace {

std::string NameOf(const UOp* param) {
  const auto& arg = param->arg_as<BufferArg>();
  return arg.name.empty() ? absl::StrCat("slot ", arg.slot) : arg.name;
}

Batching::Part PartOf(const RowPart& part, const UOp* storage) {
  return {part.varying, part.varying ? ToString(storage->shape()[0].expr()) : ""};
}

Batching OfVariable(const UOp* variable, absl::string_view obstacle = "") {
  Batching batching;
  batching.slot = variable->arg_as<BufferArg>().slot;
  batching.name = NameOf(variable);
  batching.obstacle = std::string(obstacle);
  return batching;
}

Batching Summary(const Function& function, const UOp* variable, const RowWise& proof) {
  Batching batching = OfVariable(variable);
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

std::string PartText(const Batching::Part& part) {
  return part.varying ? absl::StrCat("varies, ", part.rows, " rows\n") : "shared\n";
}

}  // namespace

std::vector<Batching> BatchingOf(Graph& graph, const Function& function, UOp* calls) {
  std::vector<Batching> all;
  size_t left = kMaxNodesLookedAt;
  for (UOp* variable : function.variables) {
    all.push_back(all.size() < kMaxBatchVariables
                      ? Summary(function, variable, ProveRowWise(graph, function, calls, variable, left))
                      : OfVariable(variable, absl::StrCat("not looked at: ", kMaxBatchVariables, " variables are")));
  }
  return all;
}

std::string BatchingText(absl::Span<const Batching> all) {
  std::string text;
  for (const Batching& batching : all) {
    absl::StrAppend(&text, batching.name, ": row-wise: ", batching.row_wise() ? "yes" : "no, ", batching.obstacle,
                    "\n");
    for (const Batching::Parameter& parameter : batching.parameters)
      absl::StrAppend(&text, "  parameter ", parameter.name, ": ", PartText(parameter));
    for (size_t i = 0; i < batching.results.size(); ++i)
      absl::StrAppend(&text, "  result ", i, ": ", PartText(batching.results[i]));
  }
  return text;
}

}  // namespace kiln::compiler
