#include "compiler/target/llvm/prefetch.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "compiler/ir/graph.h"
#include "compiler/target/llvm/streamed_stores.h"

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

constexpr int64_t kFarBytes = 128 << 10;  // of storage: what is smaller may be in the L2 cache

// By how much `index` grows with `range`; none if it is no sum of multiples.
std::optional<int64_t> StepIn(UOp* index, const UOp* range) {
  absl::flat_hash_map<const UOp*, std::optional<int64_t>> steps;
  for (const UOp* uop : Toposort(index)) {
    std::optional<int64_t> step = uop == range ? 1 : 0;
    const auto of = [&](size_t source) { return steps.at(uop->src(source)); };
    if (uop->op() == Op::ADD) {
      step = of(0).has_value() && of(1).has_value() ? std::optional(*of(0) + *of(1)) : std::nullopt;
    } else if (uop->op() == Op::MUL && uop->src(1)->IsConst()) {
      step = of(0).has_value() ? std::optional(*of(0) * uop->src(1)->const_int()) : std::nullopt;
    } else if (uop->op() == Op::RESHAPE || uop->op() == Op::EXPAND) {
      step = of(0);
    } else if (std::any_of(uop->src().begin(), uop->src().end(), [&](UOp* source) { return steps.at(source) != 0; })) {
      step = std::nullopt;
    }
    steps[uop] = step;
  }
  return steps.at(index);
}

// Whether `load` reads, in each iteration of `loop`, the lines behind those of the last one.
bool ReadsOn(const UOp* load, UOp* loop) {
  if (!CanPrefetch(load) || load->shape().empty()) return false;
  const Shape& storage = load->src(0)->src(0)->shape();
  const int64_t item = ItemSize(load->dtype()), bytes = NumElements(load->shape()) * item;
  if (!IsConst(storage) || NumElements(storage) * item < kFarBytes || bytes % kLineBytes != 0) return false;
  const std::optional<int64_t> step = StepIn(load->src(0)->src(1), loop);
  return step.has_value() && *step * item == bytes;
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
  UOp* innermost = nullptr;                   // the loop that was opened last, if nothing was closed since
  for (size_t i = 0; i < all.size(); ++i) {
    UOp* uop = all[i];
    if (uop->op() == Op::RANGE || uop->op() == Op::END) innermost = uop->op() == Op::RANGE ? uop : nullptr;
    if (innermost != nullptr && uop->op() == Op::LOAD && ReadsOn(uop, innermost)) prefetches.ahead.insert(uop);
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
