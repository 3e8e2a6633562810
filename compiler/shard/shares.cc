#include "compiler/shard/shares.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/devices.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/schedule/callify.h"
#include "compiler/shard/share_taker.h"
#include "compiler/structure/updates.h"

namespace kiln::compiler {
namespace {

// The caller's BUFFERs are parameters like its PARAMs: by slot.
UOp* BuffersToParams(Graph& graph, UOp* root) {
  absl::flat_hash_map<UOp*, UOp*> params;
  for (UOp* uop : Toposort(root)) {
    if (uop->op() == Op::BUFFER) params[uop] = graph.Make(Op::PARAM, {uop->src(0)}, uop->arg());
  }
  return params.empty() ? root : Substitute(root, params, graph);
}

bool IsEffect(const UOp* uop) { return uop->op() == Op::STORE || uop->op() == Op::GROUP || uop->op() == Op::CALL; }

}  // namespace

absl::StatusOr<Shares> TakeShares(Graph& graph, UOp* root) {
  KILN_RETURN_IF_ERROR(CheckRoot(graph, root));
  root = BuffersToParams(graph, root);
  KILN_ASSIGN_OR_RETURN(const std::vector<UOp*> slots, ParametersOf(graph, root));
  Shares shares;
  ShareTaker taker(graph, root, shares);
  const std::vector<UOp*> nodes = Toposort(root);
  for (UOp* uop : nodes) {
    if (uop == root) break;
    if (absl::Status taken = taker.Take(uop); !taken.ok()) return graph.Locate(taken, uop);
  }
  const StoreOrder order(root);
  for (UOp* slot : slots) {
    if (slot->IsVariable()) {
      shares.variables.push_back(slot);
      continue;
    }
    const ShareTaker::Share& share = taker.Of(slot);
    Shares::Parameter parameter = {slot, share.node, {*share.devices, share.axis}, {}};
    for (UOp* store : order.StoresTo(slot)) parameter.stores.push_back(taker.Of(store).node);
    shares.parameters.push_back(std::move(parameter));
  }
  for (UOp* source : root->src()) {
    if (IsEffect(source)) continue;
    const ShareTaker::Share& share = taker.Of(source);
    Shares::Result result = {
        share.node, std::nullopt, source, {share.devices == nullptr ? "" : *share.devices, share.axis}};
    const UOp* storage = UpdatedStorage(source);
    for (size_t i = 0; storage != nullptr && i < shares.parameters.size(); ++i) {
      if (shares.parameters[i].whole != storage) continue;
      result.aliases = i;
      result.layout = shares.parameters[i].layout;
    }
    shares.results.push_back(std::move(result));
  }
  return shares;
}

}  // namespace kiln::compiler
