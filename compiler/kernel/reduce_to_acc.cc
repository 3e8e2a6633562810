#include "compiler/kernel/reduce_to_acc.h"

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/build.h"
#include "compiler/kernel/ranges.h"

namespace kiln::compiler {
namespace {

UOp* MakeAccumulator(Graph& graph, UOp* value, absl::Span<UOp* const> loops, const RangeSet& outer,
                     const ReduceArg& reduce) {
  BufferArg arg;
  arg.slot = static_cast<uint32_t>(graph.NextId());
  arg.dtype = value->dtype();
  arg.addrspace = AddrSpace::kReg;
  UOp* acc = graph.Make(Op::BUFFER, {ShapeSource(graph, value->shape())}, arg);

  // The start value is set anew in every iteration of the loops around.
  std::vector<UOp*> in_loops = {acc};
  in_loops.insert(in_loops.end(), outer.begin(), outer.end());
  UOp* ready = outer.empty() ? acc : graph.Make(Op::AFTER, in_loops);
  UOp* start = graph.Make(Op::STORE, {ready, Identity(graph, reduce.op, value->dtype())});

  // In every iteration: the dependence on the loops keeps the read inside them.
  std::vector<UOp*> started = {acc, start};
  started.insert(started.end(), loops.begin(), loops.end());
  UOp* acc_in_loop = graph.Make(Op::AFTER, started);
  UOp* next = graph.Make(Op::LOAD, {acc_in_loop});
  // A dot product adds what it is given.
  const bool adds = value->op() == Op::WMMA && reduce.op == Op::ADD;
  next = adds ? graph.Make(Op::WMMA, {value->src(0), value->src(1), next}, value->arg())
              : graph.Make(reduce.op, {next, value});
  std::vector<UOp*> closed = {graph.Make(Op::STORE, {acc_in_loop, next})};
  closed.insert(closed.end(), loops.begin(), loops.end());
  UOp* end = graph.Make(Op::END, closed);
  return graph.Make(Op::LOAD, {graph.Make(Op::AFTER, {acc, end})});
}

}  // namespace

UOp* ReduceToAcc(Graph& graph, UOp* sink) {
  const absl::flat_hash_map<UOp*, RangeSet> open = OpenRanges(sink);
  absl::flat_hash_map<UOp*, UOp*> done;
  for (UOp* uop : Toposort(sink)) {
    std::vector<UOp*> src;
    for (UOp* source : uop->src()) src.push_back(done[source]);
    if (uop->op() != Op::REDUCE) {
      done[uop] = graph.Make(uop->op(), src, uop->arg());
      continue;
    }
    const ReduceArg& reduce = uop->arg_as<ReduceArg>();
    std::vector<UOp*> loops, items = {nullptr};
    for (UOp* source : absl::MakeConstSpan(src).subspan(1))
      (source->op() == Op::RANGE ? loops : items).push_back(source);
    UOp* value = loops.empty() ? src[0] : MakeAccumulator(graph, src[0], loops, open.at(uop), reduce);
    if (!reduce.axes.empty()) value = graph.Make(Op::REDUCE, {value}, reduce);
    if (items.size() > 1) {
      items[0] = value;
      value = graph.Make(Op::REDUCE, items, ReduceArg{reduce.op, {}});
    }
    done[uop] = value;
  }
  return done[sink];
}

}  // namespace kiln::compiler
