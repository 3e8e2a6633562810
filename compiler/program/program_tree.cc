#include "compiler/program/program_tree.h"

#include "base/check.h"

namespace kiln::compiler {

ProgramTree::ProgramTree(absl::Span<UOp* const> list) {
  Block* here = &blocks_.emplace_back();
  for (UOp* uop : list) {
    if (uop->op() == Op::END || uop->op() == Op::ENDIF) {
      KILN_CHECK(here->parent != nullptr);
      here = here->parent;
      continue;
    }
    here->items.push_back({uop});
    if (uop->op() != Op::RANGE && uop->op() != Op::IF) continue;
    Block* body = &blocks_.emplace_back();
    body->parent = here;
    body->opener = uop;
    here->items.back().body = body;
    here = body;
  }
  KILN_CHECK(here == &blocks_.front());
}

UOp* Closing(Graph& graph, UOp* opener) {
  if (opener->op() == Op::IF) return graph.Make(Op::ENDIF, {opener});
  return graph.Make(Op::END, {graph.Make(Op::GROUP, {}), opener});
}

}  // namespace kiln::compiler
