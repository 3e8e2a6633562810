#include "compiler/kernel/linearize.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "compiler/kernel/ranges.h"

namespace kiln::compiler {
namespace {

// The body of one loop, or of the whole kernel: instructions and inner loops in
// order. An inner loop takes its place when its END is reached: by then all that
// it needs from outside has been placed before it.
struct Scope {
  struct Item {
    UOp* instruction;  // or null:
    size_t loop;       // an inner scope
  };
  UOp* range = nullptr;
  std::vector<Item> items;
};

class Linearizer {
 public:
  explicit Linearizer(UOp* sink) : order_(Toposort(sink)), open_(OpenRanges(sink)) { scopes_.push_back({}); }

  std::vector<UOp*> Run() {
    Nest();
    for (UOp* uop : order_) Place(uop);
    return Flatten();
  }

 private:
  // Gives every RANGE a scope and a depth, from the outermost ENDs inwards.
  void Nest() {
    for (size_t i = order_.size(); i-- > 0;) {
      UOp* end = order_[i];
      if (end->op() != Op::END) continue;
      size_t depth = 0;
      for (UOp* range : open_.at(end)) depth = std::max(depth, depth_.at(range) + 1);
      for (UOp* range : end->src().subspan(1)) {
        scope_of_[range] = scopes_.size();
        scopes_.push_back({range, {}});
        depth_[range] = depth++;
      }
    }
  }

  size_t ScopeOf(UOp* uop) const {
    size_t scope = 0, deepest = 0;
    for (UOp* range : open_.at(uop)) {
      const size_t depth = depth_.at(range) + 1;
      if (depth <= deepest) continue;
      deepest = depth;
      scope = scope_of_.at(range);
    }
    return scope;
  }

  void Place(UOp* uop) {
    if (uop->op() == Op::SINK || uop->op() == Op::RANGE) return;  // a loop opens where its scope stands
    if (uop->op() != Op::END) {
      scopes_[ScopeOf(uop)].items.push_back({uop, 0});
      return;
    }
    const auto ranges = uop->src().subspan(1);
    scopes_[scope_of_.at(ranges.back())].items.push_back({uop, 0});
    for (size_t k = ranges.size(); k-- > 0;) {
      const size_t parent = k > 0 ? scope_of_.at(ranges[k - 1]) : ScopeOf(uop);
      scopes_[parent].items.push_back({nullptr, scope_of_.at(ranges[k])});
    }
  }

  std::vector<UOp*> Flatten() const {
    std::vector<UOp*> list;
    std::vector<std::pair<size_t, size_t>> stack = {{0, 0}};  // scope, next item
    while (!stack.empty()) {
      auto& [scope, next] = stack.back();
      const Scope& here = scopes_[scope];
      if (next == 0 && here.range != nullptr) list.push_back(here.range);
      if (next == here.items.size()) {
        stack.pop_back();
        continue;
      }
      const Scope::Item item = here.items[next++];
      if (item.instruction != nullptr) {
        list.push_back(item.instruction);
      } else {
        stack.emplace_back(item.loop, 0);
      }
    }
    return list;
  }

  const std::vector<UOp*> order_;
  const absl::flat_hash_map<UOp*, RangeSet> open_;
  std::vector<Scope> scopes_;  // the first is the kernel itself
  absl::flat_hash_map<UOp*, size_t> scope_of_;
  absl::flat_hash_map<UOp*, size_t> depth_;
};

}  // namespace

UOp* Linearize(Graph& graph, UOp* sink) { return graph.Make(Op::LINEAR, Linearizer(sink).Run(), sink->arg()); }

}  // namespace kiln::compiler
