#include "compiler/testing/read_text.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/graph/graph_text.h"
#include "compiler/import/wire.h"

namespace kiln::compiler {

UOp* ReadText(Graph& graph, absl::string_view text) {
  const auto wire = ParseGraph(text);
  KILN_CHECK(wire.ok());
  const auto root = FromWire(*wire, Limits(), graph);
  KILN_CHECK(root.ok());
  return *root;
}

size_t CountOf(UOp* root, Op op) {
  const std::vector<UOp*> order = Toposort(root);
  return static_cast<size_t>(
      std::count_if(order.begin(), order.end(), [op](const UOp* uop) { return uop->op() == op; }));
}

}  // namespace kiln::compiler
