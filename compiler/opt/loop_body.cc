#include "compiler/opt/loop_body.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "compiler/kernel/work.h"
#include "compiler/rules/linear.h"

namespace kiln::compiler {

LoopBody LoopBodyOf(UOp* closer, const RangeSet& open) {
  LoopBody body;
  body.ranges.assign(closer->src().begin() + 1, closer->src().end());
  body.open = open;
  absl::flat_hash_set<UOp*> seen;
  std::vector<UOp*> stack = {closer->src(0)};
  while (!stack.empty()) {
    UOp* uop = stack.back();
    stack.pop_back();
    if (uop->op() == Op::REDUCE || !seen.insert(uop).second) continue;
    const bool load = uop->op() == Op::LOAD;
    if ((load || uop->op() == Op::STORE) && uop->src(0)->op() == Op::INDEX) body.accesses.push_back(uop);
    if (load || (IsElementwise(uop->op()) && uop->dtype() != kIndexType)) {
      body.widest = std::max(body.widest, IsNarrowFloat(uop->dtype()) ? 4 : ItemSize(uop->dtype()));
      body.work += static_cast<size_t>(WorkOf(uop));
    }
    stack.insert(stack.end(), uop->src().begin(), uop->src().end());
  }
  std::sort(body.accesses.begin(), body.accesses.end(), [](const UOp* a, const UOp* b) { return a->id() < b->id(); });
  return body;
}

const UOp* MainLoad(const LoopBody& body) {
  const UOp* main = nullptr;
  int64_t most = 0;
  for (const UOp* access : body.accesses) {
    int64_t moves = 1;
    for (const auto& ranges : {std::vector<UOp*>(body.open.begin(), body.open.end()), body.ranges}) {
      for (UOp* range : ranges) {
        if (StrideIn(PlaceOf(access), range) != 0) moves *= std::max<int64_t>(Iterations(range), 1);
      }
    }
    if (moves <= most) continue;
    most = moves;
    main = access;
  }
  return main;
}

int64_t Iterations(const UOp* range) { return range->src(0)->IsConst() ? range->src(0)->const_int() : 0; }

int64_t IterationsOfAll(absl::Span<UOp* const> ranges) {
  int64_t iterations = 1;
  for (const UOp* range : ranges)
    iterations = std::min<int64_t>(iterations * std::max<int64_t>(1, Iterations(range)), int64_t{1} << 40);
  return iterations;
}

int64_t PowerOf2In(const UOp* range) {
  const int64_t iterations = std::max<int64_t>(Iterations(range), 1);
  return iterations & -iterations;
}

UOp* PlaceOf(const UOp* access) { return access->src(0)->src(1); }

bool BeginsAtMultiples(const UOp* access, const UOp* axis, int64_t amount) {
  const LinearForm form = ToLinear(PlaceOf(access));
  const auto own = [axis](const LinearForm::Term& term) { return term.node == axis; };
  if (std::none_of(form.terms.begin(), form.terms.end(), own)) return true;
  return form.constant % amount == 0 && std::all_of(form.terms.begin(), form.terms.end(), [&](const auto& term) {
           return own(term) || term.coefficient % amount == 0;
         });
}

}  // namespace kiln::compiler
