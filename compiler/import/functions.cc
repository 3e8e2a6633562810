#include "compiler/import/functions.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/import/weak.h"
#include "compiler/ir/build.h"
#include "compiler/structure/entry.h"
#include "compiler/structure/variables.h"

namespace kiln::compiler {
namespace {

// A body with fewer nodes than this is fused with what is around it.
constexpr size_t kWorthABoundary = 16;

size_t FirstInScope(const UOp* uop) { return uop->op() == Op::CALL ? 1 : 0; }

// What stands for `param` (whose shape source is `shape` in this scope).
absl::StatusOr<UOp*> ArgumentFor(Graph& graph, UOp* param, absl::Span<UOp* const> args, absl::string_view what) {
  const uint32_t slot = param->arg_as<BufferArg>().slot;
  if (slot >= args.size() && param->IsVariable()) return param;  // the program's own
  if (slot >= args.size()) {
    return SlotError(
        v1::WRONG_SOURCE_COUNT, slot,
        absl::StrCat(what, "'s body has a PARAM of slot ", slot, ", and it is given ", args.size(), " arguments"));
  }
  UOp* argument = args[slot];
  if (IsWeak(argument->dtype())) {
    KILN_ASSIGN_OR_RETURN(argument, Strengthen(graph, argument, param->dtype()));
  }
  if (param->IsVariable()) {
    KILN_RETURN_IF_ERROR(CheckPassed(param, argument, what));
    return Cast(graph, argument, param->dtype());
  }
  if (argument->dtype() != param->dtype()) {
    return SlotError(v1::DTYPE_MISMATCH, slot,
                     absl::StrCat("argument ", slot, " of ", what, " is ", Name(argument->dtype()), ", and PARAM ",
                                  slot, " in its body ", Name(param->dtype())));
  }
  if (argument->shape() != param->shape()) {
    return SlotError(v1::SHAPE_MISMATCH, slot,
                     absl::StrCat("argument ", slot, " of ", what, " has the shape ", ToString(argument->shape()),
                                  ", and PARAM ", slot, " in its body ", ToString(param->shape())));
  }
  return argument;
}

// Whether `x` is memory, or a constant: realising it would be a copy.
bool IsView(const UOp* x) {
  while ((Is(x->op(), kMovement) && x->op() != Op::STACK) || x->op() == Op::AFTER) x = x->src(0);
  return Is(x->op(), kSource) || x->op() == Op::LOAD;
}

UOp* Boundary(Graph& graph, UOp* x) {
  if (x->dtype() == DType::kVoid || IsWeak(x->dtype()) || IsView(x)) return x;
  return graph.Make(Op::AFTER, {x});
}

bool IsWorthABoundary(UOp* body) {
  const std::vector<UOp*> order = ToposortScope(body);
  return order.size() >= kWorthABoundary &&
         std::any_of(order.begin(), order.end(), [](const UOp* uop) { return uop->op() == Op::REDUCE; });
}

}  // namespace

bool FunctionInliner::IsKernel(UOp* body) {
  const auto [known, is_new] = is_kernel_.emplace(body, false);
  if (is_new) known->second = LevelOf(body) != EntryLevel::kTensor;
  return known->second;
}

absl::StatusOr<UOp*> FunctionInliner::Replace(UOp* body, absl::Span<UOp* const> args, absl::string_view what) {
  UOp*& known = done_[{body, {args.begin(), args.end()}}];
  if (known != nullptr) return known;
  const std::vector<UOp*> order = ToposortScope(body);
  nodes_ += order.size();
  if (nodes_ > max_nodes_) {
    return TooLarge(
        "nodes", max_nodes_, nodes_,
        absl::StrCat("the graph has more than ", max_nodes_, " nodes once its FUNCTIONs and CALLs are resolved"));
  }
  absl::flat_hash_map<UOp*, UOp*> replaced;
  for (UOp* uop : order) {
    std::vector<UOp*> src(uop->src().begin(), uop->src().end());
    for (size_t i = FirstInScope(uop); i < src.size(); ++i) src[i] = replaced[src[i]];
    KILN_RETURN_IF_ERROR(FoldSizes(graph_, uop->op(), src));
    absl::StatusOr<UOp*> made = graph_.TryMake(uop->op(), src, uop->arg());
    if (made.ok() && uop->op() == Op::PARAM) made = ArgumentFor(graph_, *made, args, what);
    if (!made.ok()) return made.status();
    graph_.CopyOrigin(uop, *made);
    replaced[uop] = *made;
  }
  return known = replaced[body];
}

bool FunctionInliner::IsApart(UOp* body) {
  const auto [known, is_new] = is_apart_.emplace(body, false);
  if (is_new) known->second = IsWorthABoundary(body);
  return known->second;
}

absl::StatusOr<UOp*> FunctionInliner::Function(UOp* body, absl::Span<UOp* const> args, bool reused) {
  if (body->op() != Op::TUPLE)
    return MakeError(v1::BAD_ARGUMENT, absl::StrCat("FUNCTION's body is a TUPLE, not ", Name(body->op())));
  if (!reused || !IsApart(body)) return Replace(body, args, "FUNCTION");
  std::vector<UOp*> marked;
  for (UOp* arg : args) marked.push_back(Boundary(graph_, arg));
  KILN_ASSIGN_OR_RETURN(UOp * tuple, Replace(body, marked, "FUNCTION"));
  std::vector<UOp*> results;
  for (UOp* result : tuple->src()) results.push_back(Boundary(graph_, result));
  return graph_.TryMake(Op::TUPLE, results);
}

absl::StatusOr<UOp*> FunctionInliner::Call(UOp* body, absl::Span<UOp* const> args) {
  std::vector<UOp*> src = {body};
  src.insert(src.end(), args.begin(), args.end());
  if (body->op() != Op::SINK || IsKernel(body)) return graph_.TryMake(Op::CALL, src);
  KILN_ASSIGN_OR_RETURN(UOp * sink, Replace(body, args, "CALL"));
  std::vector<UOp*> effects;
  absl::flat_hash_set<const UOp*> listed;
  for (UOp* source : sink->src()) {
    if (source->op() != Op::AFTER) {
      if (source->dtype() != DType::kVoid) {
        return MakeError(v1::BAD_ARGUMENT, absl::StrCat("CALL's body stores; its source ", Name(source->op()),
                                                        " is a value that is stored nowhere"));
      }
      effects.push_back(source);
      continue;
    }
    // AFTER(storage, STORE...) says what is stored; the storage is the caller's.
    std::vector<UOp*> layers;
    for (UOp* layer = source; layer->op() == Op::AFTER && listed.insert(layer).second; layer = layer->src(0))
      layers.push_back(layer);
    for (size_t i = layers.size(); i-- > 0;)
      effects.insert(effects.end(), layers[i]->src().begin() + 1, layers[i]->src().end());
  }
  return graph_.TryMake(Op::GROUP, effects);
}

}  // namespace kiln::compiler
