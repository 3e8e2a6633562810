#include "base/graph/graph_text.h"
#include "compiler/import/wire.h"

namespace kiln::compiler {

std::string ToText(UOp* root) {
  const std::vector<UOp*> order = Toposort(root);
  return PrintGraph(ToWire(root), [&order](int index) {
    return order[index]->shape().empty() ? std::string() : ToString(order[index]->shape());
  });
}

}  // namespace kiln::compiler
