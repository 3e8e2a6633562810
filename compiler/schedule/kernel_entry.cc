#include "compiler/schedule/kernel_entry.h"

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/error.h"
#include "compiler/kernel/collapse_kernel.h"
#include "compiler/program/kernel_form.h"
#include "compiler/program/list_kernel.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/structure/kernel_call.h"

namespace kiln::compiler {
namespace {

bool IsGlobal(const UOp* uop) {
  return (uop->op() == Op::PARAM || uop->op() == Op::BUFFER) && uop->addrspace() == AddrSpace::kGlobal;
}

// The caller's BUFFERs are parameters like its PARAMs: by slot.
UOp* BuffersToParams(Graph& graph, UOp* root) {
  absl::flat_hash_map<UOp*, UOp*> params;
  for (UOp* uop : Toposort(root)) {
    if (uop->op() == Op::BUFFER && IsGlobal(uop)) params[uop] = graph.Make(Op::PARAM, {uop->src(0)}, uop->arg());
  }
  return params.empty() ? root : Substitute(root, params, graph);
}

}  // namespace

absl::StatusOr<UOp*> BodyOf(Graph& graph, UOp* root) {
  UOp* body = BuffersToParams(graph, root);
  if (root->op() == Op::LINEAR) {
    for (size_t i = 0; i < body->src().size(); ++i) graph.InheritOrigin(body->src(i), root->src(i));
    return body;
  }
  graph.InheritOrigin(body, root);
  KILN_ASSIGN_OR_RETURN(body, NormaliseKernel(graph, body));
  const auto* arg = std::get_if<KernelArg>(&body->arg());
  const bool requested = arg != nullptr && !arg->opts.empty();  // of the axes as they are
  if (IsPlainKernel(body)) return requested ? body : CollapseKernel(graph, body);
  if (requested) {
    return graph.Locate(
        MakeError(v1::UNSUPPORTED_OP,
                  "OptOps for a kernel that is not one nest of loops with constant bounds over one STORE"),
        root);
  }
  return ListKernel(graph, body);
}

absl::StatusOr<UOp*> EnterKernel(Graph& graph, UOp* root, Function& function) {
  KILN_ASSIGN_OR_RETURN(UOp * body, BodyOf(graph, root));
  KILN_ASSIGN_OR_RETURN(const std::vector<UOp*> slots, ParametersOf(graph, body));
  for (UOp* param : slots) (param->IsVariable() ? function.variables : function.parameters).push_back(param);
  function.bindings = graph.bindings();
  const absl::flat_hash_set<uint32_t> written = SlotsWritten(body);
  std::vector<UOp*> arguments = function.parameters;
  arguments.insert(arguments.end(), function.variables.begin(), function.variables.end());
  absl::flat_hash_map<UOp*, UOp*> numbered;
  for (UOp* param : arguments) {
    const BufferArg& given = param->arg_as<BufferArg>();
    if (!param->IsVariable()) function.written.push_back(written.contains(given.slot));
    // Who calls it, and by what names, does not make another kernel.
    BufferArg arg;
    arg.slot = static_cast<uint32_t>(numbered.size());
    arg.dtype = given.dtype;
    arg.addrspace = given.addrspace;
    arg.min = given.min;
    arg.max = given.max;
    numbered[param] = graph.Make(Op::PARAM, {param->src(0)}, arg);
  }
  UOp* renumbered = Substitute(body, numbered, graph);
  graph.InheritOrigin(renumbered, body);
  // Instruction by instruction the same list.
  for (size_t i = 0; i < body->src().size(); ++i) graph.InheritOrigin(renumbered->src(i), body->src(i));
  std::vector<UOp*> call = {renumbered};
  call.insert(call.end(), arguments.begin(), arguments.end());
  function.sink = root;
  return graph.Make(Op::LINEAR, {graph.Make(Op::CALL, call)});
}

}  // namespace kiln::compiler
