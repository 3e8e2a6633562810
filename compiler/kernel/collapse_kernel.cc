#include "compiler/kernel/collapse_kernel.h"

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/collapse_reduce.h"
#include "compiler/rules/symbolic.h"

namespace kiln::compiler {

UOp* CollapseKernel(Graph& graph, UOp* sink) {
  Rewriter simplify(SymbolicRules(), graph);
  absl::flat_hash_map<UOp*, UOp*> done;
  bool collapsed = false;
  for (UOp* uop : Toposort(sink)) {
    std::vector<UOp*> src;
    bool changed = false;
    for (UOp* source : uop->src()) {
      src.push_back(done[source]);
      changed |= src.back() != source;
    }
    UOp* made = changed ? graph.Make(uop->op(), src, uop->arg()) : uop;
    if (uop->op() == Op::REDUCE && src.size() > 1) {
      UOp* value = simplify.Rewrite(src[0]);
      UOp* reduced =
          CollapseReduce(graph, simplify, uop->arg_as<ReduceArg>().op, value, absl::MakeConstSpan(src).subspan(1));
      const bool all_stay = reduced->op() == Op::REDUCE && reduced->src().size() == src.size();
      if (!all_stay) made = reduced;
      collapsed |= !all_stay;
    }
    done[uop] = made;
  }
  // Where no loop goes, the kernel stays as it was written.
  return collapsed ? simplify.Rewrite(done[sink]) : sink;
}

}  // namespace kiln::compiler
