#include "tests/reduce/node_type.h"

#include "compiler/import/wire.h"
#include "tests/reduce/edit.h"

namespace kiln::testing {

std::vector<NodeType> DeriveTypes(const v1::Graph& graph) {
  std::vector<NodeType> types;
  v1::Graph below;
  below.set_dialect(graph.dialect());
  for (const v1::UOp& node : graph.nodes()) {
    *below.add_nodes() = node;
    NodeType& type = types.emplace_back();
    compiler::Graph scratch;
    const auto uop = compiler::FromWire(OnlyReached(below), compiler::Limits(), scratch);
    if (!uop.ok() || (*uop)->dtype() == compiler::DType::kVoid || !compiler::IsConst((*uop)->shape())) continue;
    type.dtype = compiler::ToWire((*uop)->dtype());
    for (const compiler::Dim& size : (*uop)->shape()) type.shape.push_back(size.max());
  }
  return types;
}

}  // namespace kiln::testing
