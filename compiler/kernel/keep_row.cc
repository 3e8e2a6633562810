#include "compiler/kernel/keep_row.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/kernel/ranges.h"
#include "compiler/kernel/work.h"
#include "compiler/rewrite/rewrite.h"

namespace kiln::compiler {
namespace {

// Fewer instructions than this cost no more than a load.
constexpr int64_t kWorthKeeping = 8;

bool Contains(absl::Span<UOp* const> ranges, const UOp* range) {
  return std::find(ranges.begin(), ranges.end(), range) != ranges.end();
}

// Every node under `roots`, with `to` in place of `from`.
absl::flat_hash_map<UOp*, UOp*> Images(Graph& graph, absl::Span<UOp* const> roots, UOp* from, UOp* to) {
  absl::flat_hash_map<UOp*, UOp*> images = {{from, to}};
  for (UOp* root : roots) {
    for (UOp* uop : Toposort(root)) {
      if (images.contains(uop)) continue;
      std::vector<UOp*> src;
      for (UOp* source : uop->src()) src.push_back(images.at(source));
      images[uop] = graph.Make(uop->op(), src, uop->arg());
    }
  }
  return images;
}

class Keeper {
 public:
  Keeper(Graph& graph, UOp* sink) : graph_(graph), sink_(sink), end_(sink->src(0)), open_(OpenRanges(sink)) {}

  UOp* Run() {
    if (end_->op() != Op::END) return sink_;
    store_ = end_->src(0);
    if (store_->op() != Op::STORE || store_->src().size() > 2 || store_->src(0)->op() != Op::INDEX) return sink_;
    place_ = store_->src(0);
    const std::vector<UOp*> order = Toposort(sink_);
    for (const UOp* uop : order) {
      if (uop->op() == Op::INDEX && uop != place_ && uop->src(0) == place_->src(0)) return sink_;
    }
    for (UOp* uop : order) {
      if (uop->op() != Op::END || uop == end_ || uop->src().size() != 2) continue;
      for (UOp* range : end_->src().subspan(1)) {
        if (UOp* kept = Try(uop, range)) return kept;
      }
    }
    return sink_;
  }

 private:
  // The kernel, if what `accumulation` adds up is worth keeping for the loop `range`.
  UOp* Try(UOp* accumulation, UOp* range) {
    UOp* loop = accumulation->src(1);
    UOp* store_sum = accumulation->src(0);
    if (loop->src(0) != range->src(0) || store_sum->op() != Op::STORE || store_sum->src(0)->op() != Op::AFTER)
      return nullptr;
    // In all the other loops of the output.
    const RangeSet& around = open_.at(accumulation);
    if (around.size() + 2 != end_->src().size() || Contains(around, range)) return nullptr;
    for (UOp* outer : around) {
      if (!Contains(end_->src().subspan(1), outer)) return nullptr;
    }
    const absl::flat_hash_map<UOp*, UOp*> images = Images(graph_, {store_->src(1), place_}, range, loop);
    const std::vector<UOp*> reduced = Toposort(store_sum->src(1));
    UOp* kept = Costliest(range, images, {reduced.begin(), reduced.end()});
    if (kept == nullptr) return nullptr;

    UOp* keep = graph_.Make(Op::STORE, {images.at(place_), images.at(kept)});
    std::vector<UOp*> after(store_sum->src(0)->src().begin(), store_sum->src(0)->src().end());
    after.push_back(keep);  // in the same iteration
    UOp* new_store = graph_.Make(Op::STORE, {graph_.Make(Op::AFTER, after), store_sum->src(1)});
    UOp* row = graph_.Make(Op::END, {new_store, loop});
    UOp* whole = graph_.Make(Op::AFTER, {place_->src(0), row});
    UOp* again = graph_.Make(Op::LOAD, {graph_.Make(Op::INDEX, {whole, place_->src(1)})});
    return Substitute(sink_, {{accumulation, row}, {kept, again}}, graph_);
  }

  UOp* Costliest(UOp* range, const absl::flat_hash_map<UOp*, UOp*>& images,
                 const absl::flat_hash_set<UOp*>& reduced) const {
    const auto in_loop = [&](UOp* uop) { return Contains(open_.at(uop), range); };
    UOp* best = nullptr;
    int64_t best_work = kWorthKeeping - 1;
    for (UOp* uop : Toposort(store_->src(1))) {
      if (!IsElementwise(uop->op()) || uop->dtype() != place_->src(0)->dtype() || uop->shape() != place_->shape() ||
          !in_loop(uop) || !reduced.contains(images.at(uop)))
        continue;
      const std::vector<UOp*> below = Toposort(uop);
      int64_t work = 0;
      for (UOp* node : below) {
        if (IsElementwise(node->op()) && node->dtype() != kIndexType && in_loop(node)) work += WorkOf(node);
      }
      if (work <= best_work) continue;
      best = uop;
      best_work = work;
    }
    return best;
  }

  Graph& graph_;
  UOp* sink_;
  UOp* end_;
  UOp* store_ = nullptr;
  UOp* place_ = nullptr;  // where it stores
  const absl::flat_hash_map<UOp*, RangeSet> open_;
};

}  // namespace

UOp* KeepRow(Graph& graph, UOp* sink) { return Keeper(graph, sink).Run(); }

}  // namespace kiln::compiler
