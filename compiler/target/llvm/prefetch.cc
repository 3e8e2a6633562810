#include "compiler/target/llvm/prefetch.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {
namespace {

constexpr size_t kNone = static_cast<size_t>(-1);

// Of a node that is computed from loops' counters, constants and variables alone.
bool IsPure(const UOp* uop) {
  switch (uop->op()) {
    case Op::CONST:
    case Op::RANGE:
    case Op::STACK:
    case Op::EXPAND:
    case Op::RESHAPE: return true;
    case Op::PARAM: return uop->IsVariable();
    default: return IsElementwise(uop->op());
  }
}

bool CanPrefetch(const UOp* load) {
  if (load->op() != Op::LOAD || load->src().size() > 1 || load->src(0)->op() != Op::INDEX) return false;
  return load->src(0)->src(0)->op() == Op::PARAM;
}

}  // namespace

Prefetches FindPrefetches(const UOp* linear) {
  const absl::Span<UOp* const> all = linear->src();
  absl::flat_hash_map<const UOp*, size_t> position;
  for (size_t i = 0; i < all.size(); ++i) position[all[i]] = i;

  Prefetches prefetches;
  absl::flat_hash_map<size_t, std::vector<size_t>> moved;  // before the instruction at a position
  absl::flat_hash_set<size_t> moves;
  std::vector<size_t> first_loops = {kNone};  // of each scope that is open
  for (size_t i = 0; i < all.size(); ++i) {
    UOp* uop = all[i];
    if (uop->op() == Op::RANGE) {
      const bool reduction = uop->arg_as<RangeArg>().type == AxisType::kReduce;
      if (first_loops.back() == kNone && reduction) first_loops.back() = i;
      first_loops.push_back(kNone);
    } else if (uop->op() == Op::END) {
      first_loops.resize(first_loops.size() - (uop->src().size() - 1));
    } else if (first_loops.back() != kNone && CanPrefetch(uop)) {
      const size_t loop = first_loops.back();
      std::vector<UOp*> place = Toposort(uop->src(0)->src(1));
      if (!std::all_of(place.begin(), place.end(), IsPure)) continue;
      place.push_back(uop->src(0)->src(0));
      prefetches.before[all[loop]].push_back(uop);
      for (const UOp* part : place) {
        const auto at = position.find(part);
        if (at != position.end() && at->second > loop && moves.insert(at->second).second)
          moved[loop].push_back(at->second);
      }
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if (const auto found = moved.find(i); found != moved.end()) {
      std::sort(found->second.begin(), found->second.end());
      for (size_t at : found->second) prefetches.list.push_back(all[at]);
    }
    if (!moves.contains(i)) prefetches.list.push_back(all[i]);
  }
  return prefetches;
}

}  // namespace kiln::compiler
