#include "compiler/kernel/gpu_dims.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/ir/build.h"
#include "compiler/kernel/ranges.h"

namespace kiln::compiler {
namespace {

constexpr size_t kDimensions = 3;
constexpr int64_t kMostGroups = std::numeric_limits<int32_t>::max();  // along gidx0
constexpr int64_t kMostGroupsAbove = 65535;                           // along gidx1 and gidx2

int64_t SizeOf(const UOp* range) { return range->src(0)->const_int(); }

// Whether every turn stores to places of its own, as far as strides tell.
bool TurnsAreApart(UOp* sink, const std::vector<UOp*>& ranges) {
  for (UOp* uop : Toposort(sink)) {
    if (uop->op() != Op::STORE) continue;
    for (UOp* range : ranges) {
      const std::optional<int64_t> stride = StrideIn(uop->src(0)->src(1), range);
      if (SizeOf(range) > 1 && (!stride.has_value() || *stride == 0)) return false;
    }
  }
  return true;
}

int64_t LargestDivisor(int64_t n, int64_t at_most) {
  for (int64_t d = std::min(n, at_most); d > 1; --d) {
    if (n % d == 0) return d;
  }
  return 1;
}

// Loops as groups: by size, innermost first.
class Groups {
 public:
  explicit Groups(Graph& graph) : graph_(graph) {}

  void Add(int64_t size) { sizes_.push_back(size); }

  // The coordinate of each loop, in the order of Add; empty if they are too many.
  std::vector<UOp*> Coordinates() {
    __int128 all = 1;
    for (int64_t size : sizes_) all *= std::min<__int128>(size, kMostGroups + __int128{1});
    if (all > kMostGroups) return {};
    std::vector<UOp*> coordinates;
    const bool apart =
        sizes_.size() <= kDimensions && std::all_of(sizes_.begin() + !sizes_.empty(), sizes_.end(),
                                                    [](int64_t size) { return size <= kMostGroupsAbove; });
    if (apart) {
      for (size_t i = 0; i < sizes_.size(); ++i) coordinates.push_back(Special(absl::StrCat("gidx", i), sizes_[i]));
      return coordinates;
    }
    UOp* rest = Special("gidx0", static_cast<int64_t>(all));
    for (int64_t size : sizes_) {
      coordinates.push_back(graph_.Make(Op::FLOORMOD, {rest, Idx(graph_, size)}));
      rest = graph_.Make(Op::FLOORDIV, {rest, Idx(graph_, size)});
    }
    return coordinates;
  }

  UOp* Special(const std::string& name, int64_t size) {
    if (size == 1) return Idx(graph_, 0);
    return graph_.Make(Op::SPECIAL, {Idx(graph_, size)}, TextArg{name});
  }

 private:
  Graph& graph_;
  std::vector<int64_t> sizes_;
};

// `sink` with coordinates for loops, and no loop of theirs.
UOp* Replace(Graph& graph, UOp* sink, const absl::flat_hash_map<UOp*, UOp*>& coordinates) {
  absl::flat_hash_map<UOp*, UOp*> done = coordinates;
  for (UOp* uop : Toposort(sink)) {
    if (done.contains(uop)) continue;
    std::vector<UOp*> src;
    for (UOp* source : uop->src()) {
      if (uop->op() != Op::END || !coordinates.contains(source)) src.push_back(done[source]);
    }
    done[uop] = uop->op() == Op::END && src.size() == 1 ? src[0] : graph.Make(uop->op(), src, uop->arg());
  }
  return done[sink];
}

}  // namespace

UOp* GpuDims(Graph& graph, UOp* sink) {
  std::vector<UOp*> loops = OutputRanges(sink);
  if (sink->src().size() != 1 || loops.empty() || !TurnsAreApart(sink, loops)) return sink;
  std::reverse(loops.begin(), loops.end());  // innermost first
  Groups groups(graph);
  absl::flat_hash_map<UOp*, UOp*> coordinates;
  const bool has_items = std::any_of(loops.begin(), loops.end(),
                                     [](const UOp* loop) { return loop->arg_as<RangeArg>().type == AxisType::kLocal; });
  int64_t items = 1, item_dimension = 0;
  std::vector<UOp*> grouped;
  for (UOp* loop : loops) {
    const bool item = loop->arg_as<RangeArg>().type == AxisType::kLocal;
    if (item && item_dimension < static_cast<int64_t>(kDimensions)) {
      coordinates[loop] = groups.Special(absl::StrCat("lidx", item_dimension++), SizeOf(loop));
      continue;
    }
    const bool shared = !has_items && loop == loops.front();
    if (shared) items = LargestDivisor(SizeOf(loop), kMostItems);
    if (shared && items == SizeOf(loop)) {
      coordinates[loop] = groups.Special("lidx0", items);
      continue;
    }
    groups.Add(shared ? SizeOf(loop) / items : SizeOf(loop));
    grouped.push_back(loop);
  }
  const std::vector<UOp*> group = groups.Coordinates();
  if (group.size() != grouped.size()) return sink;
  for (size_t i = 0; i < grouped.size(); ++i) {
    UOp* coordinate = group[i];
    if (grouped[i] == loops.front() && items > 1) {
      UOp* item = groups.Special("lidx0", items);
      coordinate = compiler::Add(graph, Mul(graph, coordinate, Idx(graph, items)), item);
    }
    coordinates[grouped[i]] = coordinate;
  }
  return Replace(graph, sink, coordinates);
}

}  // namespace kiln::compiler
