#include "compiler/import/program_nodes.h"

#include <vector>

namespace kiln::compiler {
namespace {

bool Counts(const v1::UOp& node) {
  const bool loop = node.op() == v1::RANGE || node.op() == v1::LOOP;
  return node.op() == v1::SPECIAL || (loop && node.range().type() != v1::AXIS_DEVICE);
}

bool HasBody(const v1::UOp& node) {
  return node.op() == v1::CALL || node.op() == v1::KERNEL || node.op() == v1::FUNCTION;
}

}  // namespace

std::vector<bool> Reached(const v1::Graph& wire) {
  const auto size = static_cast<uint32_t>(wire.nodes_size());
  std::vector<bool> reached(size, false);
  if (size > 0) reached[size - 1] = true;
  for (uint32_t i = size; i-- > 0;) {
    if (!reached[i]) continue;
    for (uint32_t source : wire.nodes(static_cast<int>(i)).src()) {
      if (source < i) reached[source] = true;
    }
  }
  return reached;
}

absl::flat_hash_set<const v1::UOp*> NodesOfPrograms(const v1::Graph& wire) {
  const auto size = static_cast<uint32_t>(wire.nodes_size());
  std::vector<bool> loops(size, false);  // has a loop below it, outside the bodies of calls
  std::vector<bool> in_program(size, false);
  for (uint32_t i = 0; i < size; ++i) {
    const v1::UOp& node = wire.nodes(static_cast<int>(i));
    loops[i] = Counts(node);
    for (int k = HasBody(node) ? 1 : 0; k < node.src_size(); ++k) {
      if (node.src(k) < i && loops[node.src(k)]) loops[i] = true;
    }
    in_program[i] = node.op() == v1::LINEAR || (node.op() == v1::SINK && (loops[i] || node.has_kernel()));
  }
  absl::flat_hash_set<const v1::UOp*> found;
  for (uint32_t i = size; i-- > 0;) {
    if (!in_program[i]) continue;
    const v1::UOp& node = wire.nodes(static_cast<int>(i));
    found.insert(&node);
    for (uint32_t source : node.src()) {
      if (source < i) in_program[source] = true;
    }
  }
  return found;
}

}  // namespace kiln::compiler
