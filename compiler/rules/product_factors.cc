#include "compiler/rules/product_factors.h"

#include <algorithm>
#include <utility>

#include "compiler/interp/scalar.h"
#include "compiler/rewrite/pattern.h"

namespace kiln::compiler {
namespace {

constexpr size_t kMaxFactors = 16;

UOp* BeforeMoves(UOp* uop) {
  while (uop->op() == Op::EXPAND || uop->op() == Op::RESHAPE) uop = uop->src(0);
  return uop;
}

// `uop` may be spelled as the other one times -1, as a difference from it is.
bool IsNumber(UOp* uop, int number) {
  Match match;
  uop = BeforeMoves(uop);
  const int inner = uop->op() == Op::MUL && Number(-1).Matches(BeforeMoves(uop->src(1)), match) ? -number : number;
  return Number(inner).Matches(inner == number ? uop : BeforeMoves(uop->src(0)), match);
}

UOp* BesideNumber(const UOp* sum, int number) {
  if (sum->op() != Op::ADD) return nullptr;
  if (IsNumber(sum->src(1), number)) return sum->src(0);
  return IsNumber(sum->src(0), number) ? sum->src(1) : nullptr;
}

bool IsFloatCast(const UOp* uop) {
  return uop->op() == Op::CAST && IsFloat(uop->dtype()) && IsFloat(uop->src(0)->dtype());
}

// What stands in a factor that is none itself: in the order of its sources.
std::vector<ProductFactor> Parts(const ProductFactor& factor) {
  UOp* uop = factor.uop;
  const bool above = factor.place == ProductFactor::kAbove;
  const ProductFactor::Place inverted = above ? ProductFactor::kBelow : ProductFactor::kAbove;
  if (factor.place == ProductFactor::kDivisor || InverseOf(uop).x != nullptr) return {};
  if (uop->op() == Op::MUL) return {{uop->src(0), factor.place}, {uop->src(1), factor.place}};
  if (uop->op() == Op::RECIPROCAL) return {{uop->src(0), inverted}};
  if (IsFloatCast(uop)) return {{uop->src(0), factor.place}};
  if (uop->op() != Op::FDIV) return {};
  const bool whole = above && InverseBy(uop->src(1)).x != nullptr;
  return {{uop->src(0), factor.place}, {uop->src(1), whole ? ProductFactor::kDivisor : inverted}};
}

}  // namespace

UOp* LessOne(const UOp* sum) { return BesideNumber(sum, 1); }
UOp* PlusOne(const UOp* sum) { return BesideNumber(sum, -1); }
bool IsOne(UOp* uop) { return IsNumber(uop, 1); }

bool SameBeforeCasts(UOp* a, UOp* b) {
  while (IsFloatCast(a)) a = a->src(0);
  while (IsFloatCast(b)) b = b->src(0);
  return a == b;
}

Inverse InverseBy(UOp* divisor) {
  int power = 1;
  // (s * s) * s or s * (s * s)
  if (divisor->op() == Op::MUL) {
    UOp* a = divisor->src(0);
    UOp* b = divisor->src(1);
    if (a->op() == Op::MUL) std::swap(a, b);
    if (b->op() == Op::MUL) {
      if (b->src(0) != a || b->src(1) != a) return {};
      power = 3;
    } else {
      if (a != b) return {};
      power = 2;
    }
    divisor = a;
  }
  return {LessOne(divisor), divisor, power};
}

Inverse InverseOf(const UOp* factor) {
  if (factor->op() == Op::RECIPROCAL) return InverseBy(factor->src(0));
  if (factor->op() == Op::FDIV && IsOne(factor->src(0))) return InverseBy(factor->src(1));
  return {};
}

ProductTree::ProductTree(UOp* root) : root_(root) {
  std::vector<ProductFactor> stack = {{root, ProductFactor::kAbove}};
  while (!stack.empty() && factors_.size() + stack.size() < kMaxFactors) {
    const ProductFactor factor = stack.back();
    stack.pop_back();
    const std::vector<ProductFactor> parts = Parts(factor);
    (parts.empty() ? factors_ : inside_).push_back(factor);
    stack.insert(stack.end(), parts.begin(), parts.end());
  }
  factors_.insert(factors_.end(), stack.begin(), stack.end());
}

UOp* ProductTree::With(Graph& graph, Change a, Change b) const {
  Change changes[] = {a, b};
  return Rebuild(graph, {root_, ProductFactor::kAbove}, changes);
}

// As deep as there are nodes inside. A change that has been made is null from then on.
UOp* ProductTree::Rebuild(Graph& graph, const ProductFactor& factor, Change (&changes)[2]) const {
  for (Change& change : changes) {
    if (change.instead != nullptr && change.factor == factor) return std::exchange(change.instead, nullptr);
  }
  if (std::find(inside_.begin(), inside_.end(), factor) == inside_.end()) return factor.uop;
  std::vector<UOp*> sources;
  const std::vector<ProductFactor> parts = Parts(factor);
  for (const ProductFactor& part : parts) sources.push_back(Rebuild(graph, part, changes));
  const bool times = parts.back().place == ProductFactor::kDivisor && sources.back() != parts.back().uop;
  return times ? graph.Make(Op::MUL, sources) : graph.Make(factor.uop->op(), sources, factor.uop->arg());
}

std::optional<FactorLists> FactorListsOf(UOp* root) {
  FactorLists found;
  std::vector<std::pair<UOp*, bool>> stack = {{root, true}};
  while (!stack.empty()) {
    const auto [uop, above] = stack.back();
    stack.pop_back();
    UOp* source = BeforeMoves(uop);
    if (uop->op() == Op::MUL || uop->op() == Op::FDIV) {
      stack.push_back({uop->src(0), above});
      stack.push_back({uop->src(1), above == (uop->op() == Op::MUL)});
    } else if (uop->op() == Op::RECIPROCAL) {
      stack.push_back({uop->src(0), !above});
    } else if (source->IsConst() && IsFloat(source->dtype())) {
      const double number = FloatValue(source->dtype(), source->arg_as<ConstArg>().bits);
      found.number *= above ? number : 1 / number;
    } else {
      (above ? found.above : found.below).push_back(uop);
    }
    if (stack.size() + found.above.size() + found.below.size() > kMaxFactors) return std::nullopt;
  }
  const auto by_id = [](const UOp* a, const UOp* b) { return a->id() < b->id(); };
  std::sort(found.above.begin(), found.above.end(), by_id);
  std::sort(found.below.begin(), found.below.end(), by_id);
  return found;
}

}  // namespace kiln::compiler
