#include "compiler/kernel/gpu_dims.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/ir/build.h"
#include "compiler/kernel/loops_apart.h"
#include "compiler/kernel/ranges.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/structure/group_product.h"

namespace kiln::compiler {
namespace {

constexpr size_t kDimensions = 3;
constexpr int64_t kMaxGroups = std::numeric_limits<int32_t>::max();  // along gidx0
constexpr int64_t kMaxGroupsAbove = 65535;                           // along gidx1 and gidx2

int64_t SizeOf(const UOp* range) { return range->src(0)->const_int(); }

// Loops as groups: by size, innermost first.
class Groups {
 public:
  explicit Groups(Graph& graph) : graph_(graph) {}

  void Add(int64_t size) { sizes_.push_back(size); }

  // The coordinate of each loop, in the order of Add; empty if they are too many.
  std::vector<UOp*> Coordinates() {
    __int128 all = 1;
    for (int64_t size : sizes_) all *= std::min<__int128>(size, kMaxGroups + __int128{1});
    if (all > kMaxGroups) return {};
    std::vector<UOp*> coordinates;
    const bool apart =
        sizes_.size() <= kDimensions && std::all_of(sizes_.begin() + !sizes_.empty(), sizes_.end(),
                                                    [](int64_t size) { return size <= kMaxGroupsAbove; });
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

// `sink` with coordinates for loops, and no loop of theirs. A REDUCE reduces over coordinates, but for such that are
// always 0.
UOp* Replace(Graph& graph, UOp* sink, const absl::flat_hash_map<UOp*, UOp*>& coordinates) {
  absl::flat_hash_map<UOp*, UOp*> done = coordinates;
  for (UOp* uop : Toposort(sink)) {
    if (done.contains(uop)) continue;
    const bool closes = uop->op() == Op::END || uop->op() == Op::REDUCE;
    std::vector<UOp*> src;
    for (UOp* source : uop->src()) {
      UOp* made = done[source];
      const bool gone = coordinates.contains(source) && (uop->op() == Op::END || made->op() != Op::SPECIAL);
      if (!closes || source == uop->src(0) || !gone) src.push_back(made);
    }
    const bool bare =
        src.size() == 1 && (uop->op() == Op::END || (uop->op() == Op::REDUCE && uop->arg_as<ReduceArg>().axes.empty()));
    done[uop] = bare ? src[0] : graph.Make(uop->op(), src, uop->arg());
  }
  return done[sink];
}

bool Has(absl::Span<UOp* const> ranges, const UOp* range) {
  return std::find(ranges.begin(), ranges.end(), range) != ranges.end();
}

AxisType TypeOf(const UOp* loop) { return loop->arg_as<RangeArg>().type; }

bool IsLane(const UOp* loop) { return TypeOf(loop) == AxisType::kUpcast || TypeOf(loop) == AxisType::kUnroll; }
bool IsItem(const UOp* loop) { return TypeOf(loop) == AxisType::kLocal || TypeOf(loop) == AxisType::kWarp; }

class Distribution {
 public:
  Distribution(Graph& graph, UOp* sink, bool reduces_over_items)
      : graph_(graph), sink_(sink), open_(OpenRanges(sink)), order_(Toposort(sink)) {
    for (UOp* loop : OutputRanges(sink)) {
      if (!IsLane(loop)) outputs_.push_back(loop);
    }
    // Tiles are of loops whose iterations were apart (opt/tensor_tile.h): their digits do not show it any more.
    if (!HasGroupProduct(sink)) outputs_ = LoopsApart(sink, outputs_);
    std::reverse(outputs_.begin(), outputs_.end());  // innermost first
    for (UOp* uop : order_) {
      if (uop->op() != Op::REDUCE) continue;
      reduces_.push_back(uop);
      for (UOp* range : uop->src().subspan(1)) {
        const bool item = reduces_over_items && TypeOf(range) == AxisType::kGroupReduce && range->src(0)->IsConst();
        if (item && !Has(group_loops_, range)) group_loops_.push_back(range);
      }
    }
  }

  UOp* Run() {
    const bool scheduled = !group_loops_.empty() || std::any_of(outputs_.begin(), outputs_.end(), IsItem);
    if (!scheduled && outputs_.empty()) return sink_;
    if (scheduled) {
      TakeItems();
    } else {
      ShareInnermost();
    }
    std::vector<UOp*> loops;
    for (UOp* loop : outputs_) {
      if (coordinates_.contains(loop) || (scheduled && !IsGroup(loop))) continue;
      groups_.Add(loop == outputs_.front() ? SizeOf(loop) / shared_items_ : SizeOf(loop));
      loops.push_back(loop);
    }
    const std::vector<UOp*> group = groups_.Coordinates();
    if (group.size() != loops.size()) return sink_;
    for (size_t i = 0; i < loops.size(); ++i) {
      UOp* coordinate = group[i];
      if (loops[i] == outputs_.front() && shared_items_ > 1) {
        UOp* item = groups_.Special("lidx0", shared_items_);
        coordinate = Add(graph_, Mul(graph_, coordinate, Idx(graph_, shared_items_)), item);
      }
      coordinates_[loops[i]] = coordinate;
    }
    UOp* distributed = Replace(graph_, sink_, coordinates_);
    return scheduled ? StoreOnce(distributed) : distributed;
  }

  std::vector<int64_t> ItemsAskedFor() const {
    std::vector<int64_t> items;
    for (const Dimension& dimension : Dimensions(outputs_.size() + group_loops_.size(), kMaxGroups))
      items.push_back(dimension.size);
    return items;
  }

 private:
  // Loops that one coordinate stands for.
  struct Dimension {
    std::vector<UOp*> loops;
    int64_t size;
    int64_t step;  // the smallest in memory
  };

  // -- A kernel with no schedule

  void ShareInnermost() {
    const int64_t items = LargestDivisor(SizeOf(outputs_.front()), kMaxItems);
    if (items == SizeOf(outputs_.front())) {
      coordinates_[outputs_.front()] = groups_.Special("lidx0", items);
    } else {
      shared_items_ = items;
    }
  }

  // -- One that has

  bool IsGroup(UOp* loop) const {
    if (TypeOf(loop) == AxisType::kGlobal) return true;
    return std::all_of(reduces_.begin(), reduces_.end(),
                       [&](UOp* reduce) { return Has(open_.at(reduce), loop) || Inside(reduce); });
  }

  // Whether it is reduced within another REDUCE, and done again in its iterations anyway.
  bool Inside(const UOp* reduce) const {
    return std::any_of(reduces_.begin(), reduces_.end(), [&](const UOp* other) {
      const auto closed = other->src().subspan(1);
      return other != reduce &&
             std::any_of(closed.begin(), closed.end(), [&](const UOp* range) { return Has(open_.at(reduce), range); });
    });
  }

  void TakeItems() {
    std::vector<Dimension> dimensions = Dimensions(kDimensions, kMaxItemsOfGroup);
    // Where two are walked in equal steps, the shorter comes first: so a warp walks along both.
    std::stable_sort(dimensions.begin(), dimensions.end(), [](const Dimension& a, const Dimension& b) {
      return std::pair(a.step, a.size) < std::pair(b.step, b.size);
    });
    for (size_t i = 0; i < dimensions.size(); ++i) {
      UOp* special = groups_.Special(absl::StrCat("lidx", i), dimensions[i].size);
      if (special->op() == Op::SPECIAL) items_.push_back(special);
      for (UOp* loop : dimensions[i].loops) coordinates_[loop] = special;
    }
  }

  // What is beyond `most` of them, or has more than `max_items` with the others, is not taken: it stays a loop, or is
  // a group.
  std::vector<Dimension> Dimensions(size_t most, int64_t max_items) const {
    std::vector<UOp*> items = group_loops_;
    std::copy_if(outputs_.begin(), outputs_.end(), std::back_inserter(items), IsItem);
    std::vector<Dimension> dimensions;
    int64_t all = 1;
    for (UOp* loop : items) {
      const auto found = std::find_if(dimensions.begin(), dimensions.end(), [&](const Dimension& dimension) {
        return dimension.size == SizeOf(loop) && std::none_of(dimension.loops.begin(), dimension.loops.end(),
                                                              [&](UOp* other) { return Together(loop, other); });
      });
      if (found != dimensions.end()) {
        found->loops.push_back(loop);
        found->step = std::min(found->step, SmallestStep(loop));
        continue;
      }
      if (dimensions.size() == most || SizeOf(loop) > max_items / all) continue;
      all *= SizeOf(loop);
      dimensions.push_back({{loop}, SizeOf(loop), SmallestStep(loop)});
    }
    return dimensions;
  }

  // Whether some node stands in both.
  bool Together(UOp* a, UOp* b) const {
    return std::any_of(order_.begin(), order_.end(), [&](UOp* uop) {
      const auto in = [&](UOp* loop) {
        return Has(open_.at(uop), loop) || (uop->op() != Op::RANGE && Has(uop->src(), loop));
      };
      return in(a) && in(b);
    });
  }

  int64_t SmallestStep(UOp* loop) const {
    int64_t smallest = std::numeric_limits<int64_t>::max();
    for (UOp* uop : order_) {
      if ((uop->op() != Op::LOAD && uop->op() != Op::STORE) || uop->src(0)->op() != Op::INDEX) continue;
      const std::optional<int64_t> step = StrideIn(uop->src(0)->src(1), loop);
      if (step.value_or(0) != 0) smallest = std::min(smallest, std::max(*step, -*step));
    }
    return smallest;
  }

  // With what does not depend on an item stored by the first one alone.
  UOp* StoreOnce(UOp* sink) {
    absl::flat_hash_map<UOp*, UOp*> gated;
    for (UOp* uop : Toposort(sink)) {
      if (uop->op() != Op::STORE || uop->src(0)->op() != Op::INDEX) continue;
      const std::vector<UOp*> place = Toposort(uop->src(0));
      std::vector<UOp*> src(uop->src().begin(), uop->src().end());
      for (UOp* item : items_) {
        if (Has(place, item)) continue;
        UOp* first = Lt(graph_, item, Idx(graph_, 1));
        if (src.size() > 2) {
          src[2] = And(graph_, src[2], first);
        } else {
          src.push_back(first);
        }
      }
      if (src.size() > uop->src().size() || src.back() != uop->src().back())
        gated[uop] = graph_.Make(Op::STORE, src, uop->arg());
    }
    return gated.empty() ? sink : Substitute(sink, gated, graph_);
  }

  Graph& graph_;
  UOp* sink_;
  const absl::flat_hash_map<UOp*, RangeSet> open_;
  const std::vector<UOp*> order_;
  std::vector<UOp*> outputs_;      // whose iterations are apart, innermost first
  std::vector<UOp*> group_loops_;  // GROUP_REDUCE
  std::vector<UOp*> reduces_;      // all REDUCEs
  std::vector<UOp*> items_;        // coordinates
  int64_t shared_items_ = 1;       // of the innermost loop
  Groups groups_{graph_};
  absl::flat_hash_map<UOp*, UOp*> coordinates_;
};

}  // namespace

UOp* GpuDims(Graph& graph, UOp* sink, bool reduces_over_items) {
  if (sink->src().size() != 1) return sink;
  return Distribution(graph, sink, reduces_over_items).Run();
}

std::vector<int64_t> ItemsAskedFor(Graph& graph, UOp* sink) { return Distribution(graph, sink, true).ItemsAskedFor(); }

}  // namespace kiln::compiler
