#include "compiler/import/storage_sizes.h"

#include <algorithm>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/structure/program_scopes.h"

namespace kiln::compiler {
namespace {

// An index that may be as large as any int32 is one that nothing bounds.
constexpr int64_t kMaxStorageElements = std::numeric_limits<int32_t>::max();

struct Need {
  int64_t elements = 1;
  bool unbounded = false;
  bool whole = false;
};

bool MayHoldStorage(Op op) {
  return op == Op::INDEX || op == Op::SHRINK || op == Op::AFTER || op == Op::LINEAR || op == Op::SINK ||
         op == Op::GROUP || op == Op::IF || op == Op::BARRIER;
}

}  // namespace

bool LacksShapes(const v1::Graph& wire) {
  return std::any_of(wire.nodes().begin(), wire.nodes().end(), [](const v1::UOp& node) {
    return node.src().empty() &&
           (node.op() == v1::DEFINE_GLOBAL || node.op() == v1::DEFINE_LOCAL || node.op() == v1::DEFINE_REG);
  });
}

absl::StatusOr<StorageSizes> LeastSizes(UOp* root, const std::vector<std::pair<uint32_t, UOp*>>& unsized,
                                        const v1::Graph& wire) {
  absl::flat_hash_map<UOp*, Need> needs;
  for (const auto& [node, storage] : unsized) needs[storage] = {};
  for (UOp* uop : Toposort(root)) {
    for (UOp* source : uop->src()) {
      UOp* base = source;
      while (base->op() == Op::AFTER) base = base->src(0);
      const auto need = needs.find(base);
      if (need == needs.end()) continue;
      need->second.whole |= !MayHoldStorage(uop->op());
      const bool indexes = (uop->op() == Op::INDEX || uop->op() == Op::SHRINK) && uop->src().size() > 1;
      if (!indexes || source != uop->src(0)) continue;
      const Bounds& at = uop->src(1)->bounds();
      const int64_t lanes = uop->op() == Op::SHRINK ? MaxElements(uop->shape()) : 1;
      if (!at.known || at.max + lanes > kMaxStorageElements) {
        need->second.unbounded = true;
      } else {
        need->second.elements = std::max(need->second.elements, static_cast<int64_t>(at.max) + lanes);
      }
    }
  }
  StorageSizes sizes;
  for (const auto& [node, storage] : unsized) {
    const Need& need = needs[storage];
    const v1::UOp& sent = wire.nodes(static_cast<int>(node));
    if (need.unbounded || need.whole) {
      return WithNode(MakeError(v1::BAD_ARGUMENT,
                                absl::StrCat("node ", node, " (", v1::Op_Name(sent.op()), ") has no shape, and ",
                                             need.whole ? "is used whole" : "an index into it has no bound below 2^31",
                                             "; give it its shape as a source")),
                      node, v1::Op_Name(sent.op()), sent.tag());
    }
    sizes[node] = need.elements;
  }
  return sizes;
}

}  // namespace kiln::compiler
