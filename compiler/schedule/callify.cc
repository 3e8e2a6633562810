#include "compiler/schedule/callify.h"

#include <algorithm>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/ir/infer.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/structure/updates.h"

namespace kiln::compiler {
namespace {

// The caller's BUFFERs are parameters like its PARAMs: by slot. A program is for one
// device, whatever its name.
UOp* BuffersToParams(Graph& graph, UOp* root) {
  absl::flat_hash_map<UOp*, UOp*> params;
  for (UOp* uop : Toposort(root)) {
    if (uop->op() != Op::BUFFER && uop->op() != Op::PARAM) continue;
    BufferArg arg = uop->arg_as<BufferArg>();
    arg.device.clear();
    params[uop] = graph.Make(Op::PARAM, {uop->src(0)}, std::move(arg));
  }
  return params.empty() ? root : Substitute(root, params, graph);
}

// Forwards, a marker is its source.
const RuleSet& DropMarkers() {
  static const RuleSet& rules = *new RuleSet({
      RULE("detach(x) -> x", Pattern::Of(Op::DETACH, {Var{0}}), [](const Match& m, Graph&) { return m[Var{0}]; }),
      RULE("contiguous_backward(x) -> x", Pattern::Of(Op::CONTIGUOUS_BACKWARD, {Var{0}}),
           [](const Match& m, Graph&) { return m[Var{0}]; }),
      RULE("load(x) to the device -> load(x)", Pattern::Any(Op::LOAD),
           [](const Match& m, Graph& graph) -> UOp* {
             if (std::holds_alternative<std::monostate>(m.root()->arg())) return nullptr;
             return graph.Make(Op::LOAD, m.root()->src());
           }),
  });
  return rules;
}

bool IsEffect(const UOp* uop) { return uop->op() == Op::STORE || uop->op() == Op::GROUP || uop->op() == Op::CALL; }

absl::Status CheckTarget(UOp* store) {
  UOp* target = store->src(0);
  UOp* storage = StorageOf(target);
  if (storage == nullptr || storage->op() == Op::BINARY || storage->IsVariable()) {
    return MakeError(v1::BAD_ARGUMENT,
                     absl::StrCat("STORE writes to ", Name(target->op()),
                                  ", which is no storage; its target is a PARAM or BUFFER, or a movement of one"));
  }
  for (UOp* uop = target; uop != storage; uop = uop->src(0)) {
    if (uop->op() == Op::EXPAND || uop->op() == Op::PAD || uop->op() == Op::BITCAST) {
      return MakeError(v1::UNSUPPORTED_OP, absl::StrCat("a STORE through ", Name(uop->op()), " is not supported"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRoot(const Graph& graph, UOp* root) {
  if (root->op() != Op::TUPLE && root->op() != Op::SINK) {
    return graph.Locate(
        MakeError(v1::BAD_ROOT,
                  absl::StrCat("the last node is the root and must be a TUPLE or a SINK, not ", Name(root->op()))),
        root);
  }
  for (UOp* source : root->src()) {
    if (source->dtype() != DType::kVoid || IsEffect(source)) continue;
    return graph.Locate(MakeError(v1::BAD_ROOT, absl::StrCat("the root has a source ", Name(source->op()),
                                                             ", which is neither a value nor a STORE")),
                        source);
  }
  for (UOp* uop : Toposort(root)) {
    if (uop->op() != Op::STORE) continue;
    if (absl::Status target = CheckTarget(uop); !target.ok()) return graph.Locate(target, uop);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<UOp*>> ParametersOf(const Graph& graph, UOp* root) {
  std::map<uint32_t, UOp*> by_slot;
  for (UOp* uop : Toposort(root)) {
    if (uop->op() != Op::PARAM) continue;
    const BufferArg& arg = uop->arg_as<BufferArg>();
    auto [found, is_new] = by_slot.emplace(arg.slot, uop);
    if (is_new || found->second == uop) continue;
    v1::ErrorDetail detail;
    detail.set_code(v1::BAD_ARGUMENT);
    detail.set_slot(arg.slot);
    return graph.Locate(
        MakeError(std::move(detail),
                  absl::StrCat("slot ", arg.slot, " is used as ", Name(found->second->dtype()), " ",
                               ToString(found->second->shape()), " and as ", Name(uop->dtype()), " ",
                               ToString(uop->shape()), "; a slot has one dtype, shape, device and name")),
        uop);
  }
  std::vector<UOp*> parameters;
  for (const auto& [slot, param] : by_slot) parameters.push_back(param);
  return parameters;
}

std::vector<Function::Condition> ConditionsOf(Graph& graph, UOp* root) {
  std::vector<Function::Condition> conditions;
  absl::flat_hash_set<UOp*> known;
  const auto add = [&](const Polynomial& size, const UOp* uop, absl::string_view what) {
    if (IsNonNegative(graph, size)) return;
    UOp* expr = FromPolynomial(graph, size);
    if (!known.insert(expr).second) return;
    conditions.push_back({expr, absl::StrCat(Name(uop->op()), " of shape ", ToString(uop->shape()), ": ", what)});
  };
  for (UOp* uop : Toposort(root)) {
    if (uop->op() == Op::PAD || uop->op() == Op::SHRINK) {
      for (const Polynomial& room : RoomInBox(graph, *uop)) add(room, uop, "the box does not lie inside the tensor");
      const Shape offsets = *ReadSizes(graph, uop->src(1));
      for (const Dim& offset : offsets) add(PolynomialOf(graph, offset), uop, "an offset is negative");
    }
    for (const Dim& size : uop->shape()) {
      if (!size.IsConst()) add(PolynomialOf(graph, size), uop, "a size is negative");
    }
  }
  return conditions;
}

UOp* StorageOf(UOp* uop) {
  while (uop->op() != Op::PARAM && uop->op() != Op::BUFFER && uop->op() != Op::BINARY) {
    const bool passes = (Is(uop->op(), kMovement) && uop->op() != Op::STACK) || uop->op() == Op::AFTER;
    if (!passes) return nullptr;
    uop = uop->src(0);
  }
  return uop;
}

absl::StatusOr<Function> Callify(Graph& graph, UOp* root) {
  KILN_RETURN_IF_ERROR(CheckRoot(graph, root));
  KILN_RETURN_IF_ERROR(ParametersOf(graph, root).status());  // with their devices
  root = RealiseArguments(graph, GraphRewrite(BuffersToParams(graph, root), DropMarkers(), graph));
  Function function;
  KILN_ASSIGN_OR_RETURN(const std::vector<UOp*> slots, ParametersOf(graph, root));
  for (UOp* param : slots) (param->IsVariable() ? function.variables : function.parameters).push_back(param);
  function.bindings = graph.bindings();
  function.conditions = ConditionsOf(graph, root);

  absl::flat_hash_set<UOp*> stored;
  for (UOp* uop : Toposort(root)) {
    if (uop->op() == Op::STORE) stored.insert(StorageOf(uop->src(0)));
    if (uop->op() != Op::CALL) continue;
    for (UOp* storage : StorageWrittenBy(uop)) stored.insert(storage);
  }
  for (UOp* param : function.parameters) function.written.push_back(stored.contains(param));

  std::vector<UOp*> effects;
  for (UOp* source : root->src()) {
    if (IsEffect(source)) {
      effects.push_back(source);
      continue;
    }
    Function::Result result{source};
    const auto param = std::find(function.parameters.begin(), function.parameters.end(), UpdatedStorage(source));
    if (param != function.parameters.end()) {
      result.aliases = static_cast<size_t>(param - function.parameters.begin());
      effects.push_back(source);
    } else {
      BufferArg arg;
      arg.slot = static_cast<uint32_t>(graph.NextId());
      arg.dtype = source->dtype();
      arg.name = absl::StrCat("result", function.results.size());
      arg.device = source->device();
      result.buffer = graph.Make(Op::BUFFER, {ShapeSource(graph, source->shape())}, arg);
      effects.push_back(graph.Make(Op::STORE, {result.buffer, source}));
    }
    function.results.push_back(std::move(result));
  }
  function.sink = graph.Make(Op::SINK, effects);
  return function;
}

}  // namespace kiln::compiler
