#include "compiler/shard/segments.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/check.h"
#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

class Cutter {
 public:
  Cutter(Graph& graph, const Shares& shares, const Levels& levels) : graph_(graph), shares_(shares), levels_(levels) {}

  Cut Run() {
    ChooseOutputs();
    for (auto& [key, draft] : drafts_) std::sort(draft.stores.begin(), draft.stores.end());
    std::multimap<int, size_t> transfers;
    int last = 0;
    for (size_t i = 0; i < shares_.transfers.size(); ++i) {
      if (!levels_.Reaches(shares_.transfers[i].target)) continue;
      const int level = levels_.Of(shares_.transfers[i].source);
      transfers.emplace(level, i);
      last = std::max(last, level);
    }
    for (const auto& [key, draft] : drafts_) last = std::max(last, key.first);
    for (int level = 0; level <= last; ++level) {
      for (const auto& [key, draft] : drafts_) {
        if (key.first == level) cut_.steps.emplace_back(Build(key.second, level, draft));
      }
      const auto [begin, end] = transfers.equal_range(level);
      for (auto it = begin; it != end; ++it) cut_.steps.emplace_back(it->second);
    }
    return std::move(cut_);
  }

 private:
  struct Draft {
    std::vector<std::pair<size_t, UOp*>> stores;  // by their order
    std::vector<Segment::Output> outputs;
  };

  void AddOutput(UOp* value, const std::string& devices, std::optional<size_t> result) {
    drafts_[{levels_.Of(value), devices}].outputs.push_back({value, result});
  }

  void ChooseOutputs() {
    for (size_t i = 0; i < shares_.stores.size(); ++i) {
      UOp* store = shares_.stores[i];
      if (levels_.Reaches(store)) drafts_[{levels_.Of(store), *levels_.DevicesOf(store)}].stores.emplace_back(i, store);
    }
    // Where it is kept for later, a result's own memory will do.
    absl::flat_hash_set<const UOp*> kept;
    for (size_t i = 0; i < shares_.results.size(); ++i) {
      const Shares::Result& result = shares_.results[i];
      if (result.aliases.has_value()) continue;
      UOp* memory = levels_.MemoryOf(result.value);
      if (memory != nullptr && levels_.IsComputed(memory)) {
        kept.insert(memory);
        AddOutput(memory, result.layout.devices, i);
      } else if (memory == nullptr || !levels_.IsTransferred(memory) || !kept.insert(memory).second) {
        AddOutput(result.value, result.layout.devices, i);
      }
    }
    for (UOp* value : levels_.crossing()) {
      if (kept.insert(value).second) AddOutput(value, *levels_.DevicesOf(value), std::nullopt);
    }
    for (const Transfer& transfer : shares_.transfers) {
      if (!levels_.Reaches(transfer.target) || levels_.MemoryOf(transfer.source) != nullptr) continue;
      if (kept.insert(transfer.source).second) AddOutput(transfer.source, transfer.from.devices, std::nullopt);
    }
  }

  Segment Build(const std::string& devices, int level, const Draft& draft) {
    Segment segment = {devices, nullptr, draft.outputs};
    absl::flat_hash_map<UOp*, UOp*> built;
    std::vector<UOp*> sources;
    for (const auto& [number, store] : draft.stores) sources.push_back(Rebuild(store, level, built));
    for (const Segment::Output& output : draft.outputs) {
      UOp* value = Rebuild(output.value, level, built);
      // A result is memory of its own, and no name for a parameter's.
      const bool computed = levels_.IsComputed(output.value);
      sources.push_back(computed ? value : graph_.Make(Op::LOAD, {value}));
    }
    segment.root = graph_.Make(Op::TUPLE, sources);
    return segment;
  }

  // `root` as the segments of `level` compute it.
  UOp* Rebuild(UOp* root, int level, absl::flat_hash_map<UOp*, UOp*>& built) {
    std::vector<std::pair<UOp*, size_t>> stack = {{root, 0}};
    while (!stack.empty()) {
      auto& [uop, next] = stack.back();
      if (built.contains(uop)) {
        stack.pop_back();
        continue;
      }
      const bool computed_before = levels_.IsComputed(uop) && levels_.Of(uop) < level;
      const bool leaf = uop->op() == Op::PARAM || levels_.DevicesOf(uop) == nullptr || computed_before;
      if (leaf) {
        built[uop] = computed_before ? Crossing(uop) : uop;
        continue;
      }
      const bool seen_before = uop->op() == Op::AFTER && levels_.Of(uop->src(1)) < level;
      const size_t count = seen_before ? 1 : uop->src().size();
      if (next < count) {
        UOp* source = uop->src(next++);
        stack.emplace_back(source, 0);
        continue;
      }
      std::vector<UOp*> sources;
      for (UOp* source : uop->src().subspan(0, count)) sources.push_back(built.at(source));
      UOp* made = seen_before ? sources[0] : graph_.Make(uop->op(), sources, uop->arg());
      if (made != uop && !seen_before) graph_.InheritOrigin(made, uop);
      built[uop] = made;
    }
    return built.at(root);
  }

  UOp* Crossing(UOp* value) {
    UOp*& param = crossing_[value];
    if (param != nullptr) return param;
    BufferArg arg;
    arg.slot = static_cast<uint32_t>(graph_.NextId());
    arg.dtype = value->dtype();
    cut_.crossing[arg.slot] = value;
    param = graph_.Make(Op::PARAM, {ShapeSource(graph_, value->shape())}, std::move(arg));
    return param;
  }

  Graph& graph_;
  const Shares& shares_;
  const Levels& levels_;
  std::map<std::pair<int, std::string>, Draft> drafts_;  // by level and devices
  absl::flat_hash_map<const UOp*, UOp*> crossing_;
  Cut cut_;
};

}  // namespace

Cut CutSegments(Graph& graph, const Shares& shares, const Levels& levels) {
  return Cutter(graph, shares, levels).Run();
}

}  // namespace kiln::compiler
