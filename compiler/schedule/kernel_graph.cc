#include "compiler/schedule/kernel_graph.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "compiler/ir/build.h"
#include "compiler/ir/polynomial.h"
#include "compiler/schedule/callify.h"
#include "compiler/schedule/opaque_calls.h"
#include "compiler/structure/kernel_call.h"

namespace kiln::compiler {
namespace {

struct Nest {
  Indices indices;
  std::vector<UOp*> ranges;  // outermost first
};

// One loop for every axis that has more than one element.
Nest MakeNest(Graph& graph, const Shape& shape) {
  Nest nest;
  for (const Dim& size : shape) {
    if (size == 1) {
      nest.indices.push_back(Idx(graph, 0));
      continue;
    }
    nest.ranges.push_back(graph.Make(Op::RANGE, {IndexOf(graph, size)}, RangeArg{graph.NextId(), AxisType::kLoop}));
    nest.indices.push_back(nest.ranges.back());
  }
  return nest;
}

UOp* Close(Graph& graph, UOp* store, const Nest& nest) {
  std::vector<UOp*> src = {store};
  src.insert(src.end(), nest.ranges.begin(), nest.ranges.end());
  UOp* body = nest.ranges.empty() ? store : graph.Make(Op::END, src);
  return graph.Make(Op::SINK, {body});
}

UOp* Pointer(Graph& graph, UOp* storage, UOp* flat) {
  return graph.Make(Op::INDEX, {Reshape(graph, storage, {ElementsOf(graph, storage->shape())}), flat});
}

void TakeReads(const IndexLowering& lowering, KernelDraft& draft) {
  draft.homes_read.assign(lowering.homes_read().begin(), lowering.homes_read().end());
  std::sort(draft.homes_read.begin(), draft.homes_read.end(),
            [](const UOp* a, const UOp* b) { return a->id() < b->id(); });
  draft.reads = lowering.reads();
}

// Two iterations may store to one place only through an INDEX: then even a load of
// that very place may come too late.
bool Overlaps(const KernelDraft& draft, const UOp* store) {
  bool scatters = false;
  if (draft.store != nullptr) {
    for (const UOp* target = draft.store->src(0); target != draft.output; target = target->src(0)) {
      scatters |= target->op() == Op::INDEX;
    }
  }
  for (UOp* uop : Toposort(draft.sink)) {
    if (uop->op() != Op::LOAD || StorageOf(uop->src(0)) != draft.output) continue;
    if (scatters || uop->src(0)->src(1) != store->src(0)->src(1)) return true;
  }
  return false;
}

// "sum_32x10_over_64", "map_1024": what the kernel does, for people.
std::string KernelName(UOp* sink) {
  std::vector<std::string> loops, reduced;
  const char* verb = "map";
  for (UOp* uop : Toposort(sink)) {
    if (uop->op() == Op::RANGE) {
      (uop->arg_as<RangeArg>().type == AxisType::kReduce ? reduced : loops)
          .push_back(uop->src(0)->IsConst() ? absl::StrCat(uop->src(0)->const_int()) : "n");
    } else if (uop->op() == Op::REDUCE) {
      const Op reduce_op = uop->arg_as<ReduceArg>().op;
      verb = reduce_op == Op::ADD ? "sum" : reduce_op == Op::MAX ? "max" : "prod";
    }
  }
  std::string name = absl::StrCat(verb, "_", loops.empty() ? "1" : absl::StrJoin(loops, "x"));
  if (!reduced.empty()) absl::StrAppend(&name, "_over_", absl::StrJoin(reduced, "x"));
  return name;
}

}  // namespace

KernelDraft DraftValue(Graph& graph, Rewriter& simplify, const StoreOrder& stores,
                       const absl::flat_hash_map<UOp*, UOp*>& homes, const Layouts& layouts, UOp* value, UOp* home) {
  KernelDraft draft;
  draft.output = home;
  draft.value = value;
  IndexLowering lowering(graph, simplify, stores, homes, layouts, value);
  // Loops are nested as memory is.
  const Shape shape = InMemoryOrder(layouts, value, value->shape());
  const Nest nest = MakeNest(graph, shape);
  UOp* element = lowering.Lower(value, InShapeOrder(layouts, value, nest.indices));
  TakeReads(lowering, draft);
  if (MaxElements(value->shape()) == 0) return draft;
  UOp* pointer = Pointer(graph, home, lowering.Flatten(shape, nest.indices));
  UOp* store = graph.Make(Op::STORE, {pointer, element});
  draft.sink = Close(graph, store, nest);
  draft.overlaps = Overlaps(draft, store);
  return draft;
}

KernelDraft DraftStore(Graph& graph, Rewriter& simplify, const StoreOrder& stores,
                       const absl::flat_hash_map<UOp*, UOp*>& homes, const Layouts& layouts, UOp* store) {
  KernelDraft draft;
  draft.store = store;
  UOp* target = store->src(0);
  draft.output = StorageOf(target);
  IndexLowering lowering(graph, simplify, stores, homes, layouts, nullptr);
  const Nest nest = MakeNest(graph, target->shape());

  // The value, and the gate if there is one, broadcast to the target.
  auto lower = [&](UOp* x) {
    const Shape& shape = x->shape();
    const size_t lead = nest.indices.size() - shape.size();
    Indices indices;
    for (size_t i = 0; i < shape.size(); ++i) indices.push_back(shape[i] == 1 ? Idx(graph, 0) : nest.indices[lead + i]);
    return lowering.Lower(x, indices);
  };
  UOp* element = lower(store->src(1));
  const IndexLowering::Place place = lowering.LowerTarget(target, nest.indices);
  UOp* gate = place.inside;
  if (store->src().size() > 2) {
    UOp* given = lower(store->src(2));
    gate = gate == nullptr ? given : simplify.Rewrite(And(graph, gate, given));
  }
  TakeReads(lowering, draft);
  if (MaxElements(target->shape()) == 0) return draft;

  std::vector<UOp*> src = {Pointer(graph, draft.output, place.flat), element};
  if (gate != nullptr) src.push_back(gate);
  UOp* lowered = simplify.Rewrite(graph.Make(Op::STORE, src));
  draft.sink = Close(graph, lowered, nest);

  draft.overlaps = Overlaps(draft, lowered);
  return draft;
}

KernelDraft DraftCall(Graph& graph, const StoreOrder& stores, const absl::flat_hash_map<UOp*, UOp*>& homes, UOp* call,
                      UOp* body) {
  KernelDraft draft;
  draft.store = call;
  std::vector<UOp*> src = {body};
  for (size_t i = 0; i + 1 < call->src().size(); ++i) {
    UOp* argument = call->src(i + 1);
    const char kind = ArgumentKind(call, i);
    if (kind == 'v') src.push_back(argument);
    if (kind == 'w') src.push_back(WholeStorage(argument));
    if (kind != 'r') continue;
    // The first realised value on the way down, or the storage in the state that the AFTERs say.
    size_t state = 0;
    while (argument->op() != Op::PARAM && (state > 0 || !homes.contains(argument))) {
      KILN_CHECK(argument->op() == Op::AFTER || argument->op() == Op::RESHAPE);
      if (argument->op() == Op::AFTER) state = std::max(state, stores.StateOf(argument));
      argument = argument->src(0);
    }
    const auto home = state > 0 ? homes.end() : homes.find(argument);
    if (home != homes.end()) {
      draft.homes_read.push_back(argument);
      src.push_back(home->second);
    } else {
      draft.reads.push_back({argument, state});
      src.push_back(argument);
    }
  }
  draft.call = graph.Make(Op::CALL, src);
  return draft;
}

UOp* MakeCall(Graph& graph, const KernelDraft& draft) {
  std::vector<UOp*> call = {nullptr};
  absl::flat_hash_map<UOp*, UOp*> params;  // storage -> PARAM
  absl::flat_hash_map<UOp*, UOp*> replacements;
  int64_t ranges = 0;
  auto param_for = [&](UOp* storage) {
    UOp*& param = params[storage];
    if (param == nullptr) {
      BufferArg arg;
      arg.slot = static_cast<uint32_t>(call.size() - 1);
      arg.dtype = storage->dtype();
      param = graph.Make(Op::PARAM, {ShapeSource(graph, {ElementsOf(graph, storage->shape())})}, arg);
      call.push_back(storage);
    }
    return param;
  };
  param_for(draft.output);
  for (UOp* uop : Toposort(draft.sink)) {
    if (uop->op() == Op::INDEX) {
      UOp* storage = StorageOf(uop->src(0));
      KILN_CHECK(storage != nullptr);
      replacements[uop->src(0)] = param_for(storage);
    } else if (uop->op() == Op::RANGE) {
      replacements[uop] = graph.Make(Op::RANGE, uop->src(), RangeArg{ranges++, uop->arg_as<RangeArg>().type});
    }
  }
  UOp* sink = Substitute(draft.sink, replacements, graph);
  // Variables come behind the buffers, and stand in bounds, indices and sizes.
  absl::flat_hash_map<UOp*, UOp*> variables;
  for (UOp* uop : Toposort(sink)) {
    if (!uop->IsVariable()) continue;
    BufferArg arg = uop->arg_as<BufferArg>();
    arg.slot = static_cast<uint32_t>(call.size() - 1);
    variables[uop] = graph.Make(Op::PARAM, uop->src(), arg);
    call.push_back(uop);
  }
  if (!variables.empty()) sink = Substitute(sink, variables, graph);
  call[0] = graph.Make(Op::SINK, sink->src(), KernelArg{KernelName(sink), {}, false, {}});
  return graph.Make(Op::CALL, call);
}

}  // namespace kiln::compiler
