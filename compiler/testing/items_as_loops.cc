#include "compiler/testing/items_as_loops.h"

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/rewrite/rewrite.h"

namespace kiln::compiler {

UOp* ItemsAsLoops(Graph& graph, UOp* sink) {
  const auto loop_for = [&](UOp* special, AxisType type) {
    return graph.Make(Op::RANGE, special->src(), RangeArg{graph.NextId(), type});
  };
  absl::flat_hash_map<UOp*, UOp*> done;
  for (UOp* uop : Toposort(sink)) {
    std::vector<UOp*> src;
    for (UOp* source : uop->src()) src.push_back(done[source]);
    if (uop->op() == Op::REDUCE) {
      absl::flat_hash_map<UOp*, UOp*> own;
      for (size_t i = 1; i < src.size(); ++i) {
        if (src[i]->op() == Op::SPECIAL) own[src[i]] = loop_for(src[i], AxisType::kReduce);
      }
      for (size_t i = 1; i < src.size(); ++i) {
        if (const auto found = own.find(src[i]); found != own.end()) src[i] = found->second;
      }
      if (!own.empty()) src[0] = Substitute(src[0], own, graph);
    }
    done[uop] = graph.Make(uop->op(), src, uop->arg());
  }
  absl::flat_hash_map<UOp*, UOp*> loops;
  std::vector<UOp*> closed = {nullptr};
  for (UOp* uop : Toposort(done[sink])) {
    if (uop->op() != Op::SPECIAL) continue;
    loops[uop] = loop_for(uop, AxisType::kLoop);
    closed.push_back(loops[uop]);
  }
  if (loops.empty()) return done[sink];
  UOp* body = Substitute(done[sink], loops, graph)->src(0);
  closed[0] = body;
  if (body->op() == Op::END) {
    closed[0] = body->src(0);
    closed.insert(closed.end(), body->src().begin() + 1, body->src().end());
  }
  return graph.Make(Op::SINK, {graph.Make(Op::END, closed)}, sink->arg());
}

}  // namespace kiln::compiler
