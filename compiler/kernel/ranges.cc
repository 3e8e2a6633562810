#include "compiler/kernel/ranges.h"

#include <algorithm>

#include "compiler/rules/linear.h"

namespace kiln::compiler {
namespace {

bool Before(const UOp* a, const UOp* b) { return a->id() < b->id(); }

void Insert(RangeSet& set, UOp* range) {
  auto at = std::lower_bound(set.begin(), set.end(), range, Before);
  if (at == set.end() || *at != range) set.insert(at, range);
}

// The loops that `uop` closes: its RANGE sources behind the first.
absl::Span<UOp* const> Closes(const UOp* uop) {
  if (uop->op() == Op::END || uop->op() == Op::REDUCE) return uop->src().subspan(1);
  return {};
}

bool Reaches(UOp* root, const UOp* uop) {
  const std::vector<UOp*> order = Toposort(root);
  return std::find(order.begin(), order.end(), uop) != order.end();
}

// Whether it is the same in all iterations of a run, and at least 1.
bool IsPositiveSize(UOp* uop) {
  if (!uop->bounds().known || uop->bounds().min < 1) return false;
  const std::vector<UOp*> order = Toposort(uop);
  return std::none_of(order.begin(), order.end(),
                      [](const UOp* node) { return node->op() == Op::RANGE || node->op() == Op::LOAD; });
}

// Whether it is `range`, or that times such sizes.
bool IsTimesSizes(UOp* uop, const UOp* range) {
  while (uop != range) {
    if (uop->op() != Op::MUL) return false;
    const bool first = Reaches(uop->src(0), range);
    if (!IsPositiveSize(uop->src(first ? 1 : 0))) return false;
    uop = uop->src(first ? 0 : 1);
  }
  return true;
}

}  // namespace

absl::flat_hash_map<UOp*, RangeSet> OpenRanges(UOp* sink) {
  absl::flat_hash_map<UOp*, RangeSet> open;
  for (UOp* uop : Toposort(sink)) {
    RangeSet mine;
    for (UOp* source : uop->src()) {
      for (UOp* range : open[source]) Insert(mine, range);
    }
    for (UOp* range : Closes(uop)) mine.erase(std::remove(mine.begin(), mine.end(), range), mine.end());
    if (uop->op() == Op::RANGE) Insert(mine, uop);
    open[uop] = std::move(mine);
  }
  return open;
}

std::optional<int64_t> StrideIn(UOp* index, UOp* range) {
  int64_t stride = 0;
  for (const auto& term : ToLinear(index).terms) {
    if (term.node == range) {
      stride = term.coefficient;
      continue;
    }
    if (Reaches(term.node, range)) return std::nullopt;
  }
  return stride;
}

bool MovesEvenly(UOp* index, UOp* range) {
  bool moves = false;
  for (const auto& term : ToLinear(index).terms) {
    if (term.node != range && !Reaches(term.node, range)) continue;
    // One term alone: of two, one may take back the other's step.
    if (moves || !IsTimesSizes(term.node, range)) return false;
    moves = true;
  }
  return moves;
}

std::vector<UOp*> OutputRanges(const UOp* sink) {
  const UOp* body = sink->src(0);
  if (body->op() != Op::END) return {};
  return {body->src().begin() + 1, body->src().end()};
}

std::vector<UOp*> OuterReduces(UOp* sink) {
  std::vector<UOp*> reduces;
  for (UOp* uop : Toposort(sink)) {
    if (uop->op() != Op::END || uop == sink->src(0)) continue;
    if (uop->src(1)->arg_as<RangeArg>().type == AxisType::kReduce) reduces.push_back(uop);
  }
  return reduces;
}

int64_t LargestDivisor(int64_t n, int64_t at_most) {
  for (int64_t d = std::min(n, at_most); d > 1; --d) {
    if (n % d == 0) return d;
  }
  return 1;
}

}  // namespace kiln::compiler
