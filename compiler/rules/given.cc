// Simplifying behind a gate. In where(x < 5, f(x), …) the index x is at most 4 as
// far as f knows. So x is replaced by a counter of just that interval, f is
// simplified by all the other rules, and x put back.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/build.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/facts.h"
#include "compiler/rules/symbolic.h"

namespace kiln::compiler {
namespace {

constexpr Var x{0}, y{1}, z{2}, c{3}, i{4};

// Larger expressions are left as they are.
constexpr size_t kMaxNodes = 128;
// More conditions than these in one gate are not compared with each other.
constexpr size_t kMaxOperands = 12;

// What an expression costs, and whether a smaller interval could make it cheaper.
struct Weight {
  int cost = 0;
  bool decides = false;
};

Weight WeightOf(absl::Span<UOp* const> order) {
  Weight weight;
  for (const UOp* uop : order) {
    if (!IsElementwise(uop->op())) continue;
    const Op op = uop->op();
    const bool division = op == Op::FLOORDIV || op == Op::FLOORMOD || op == Op::CDIV || op == Op::CMOD;
    weight.cost += division ? 4 : 1;
    weight.decides |= division || op == Op::MAX || op == Op::WHERE || IsComparison(op);
  }
  return weight;
}

const RuleSet& OtherRules() {
  static const RuleSet& rules = *new RuleSet(RuleSet::Join({&IdentityRules(), &ChoiceRules(), &DivModRules()}));
  return rules;
}

// A counter that takes the place of `fact.sum` - `min`. Its number is of no loop.
UOp* Stand(Graph& graph, __int128 min, __int128 max) {
  return graph.Make(Op::RANGE, {Idx(graph, static_cast<int64_t>(max - min + 1))}, RangeArg{-1, AxisType::kLoop});
}

// Whether coefficients may be negated and added without a thought.
bool IsModerate(const LinearForm& form) {
  constexpr int64_t kFar = int64_t{1} << 40;
  return std::all_of(form.terms.begin(), form.terms.end(),
                     [](const auto& term) { return term.coefficient > -kFar && term.coefficient < kFar; });
}

// `uop` where `fact` holds, if that is cheaper; else null.
UOp* Given(Graph& graph, UOp* uop, const Fact& fact) {
  const Bounds own = fact.sum.Range();
  const __int128 min = std::max(own.min, fact.min), max = std::min(own.max, fact.max);
  constexpr __int128 kFar = __int128{1} << 60;
  if (min > max || (min == own.min && max == own.max) || min < -kFar || max > kFar || !IsModerate(fact.sum))
    return nullptr;
  const auto unit = std::find_if(fact.sum.terms.begin(), fact.sum.terms.end(),
                                 [](const auto& term) { return term.coefficient == 1 || term.coefficient == -1; });
  if (unit == fact.sum.terms.end() || unit->node->IsConst()) return nullptr;
  const std::vector<UOp*> order = ToposortUpTo(uop, kMaxNodes);
  if (std::find(order.begin(), order.end(), unit->node) == order.end()) return nullptr;
  const Weight before = WeightOf(order);
  if (!before.decides) return nullptr;

  // sum = min + stand, so node = ±(min + stand - the other terms).
  UOp* stand = Stand(graph, min, max);
  LinearForm form;
  for (const auto& term : fact.sum.terms) {
    if (term.node != unit->node) form.terms.push_back({term.node, -term.coefficient * unit->coefficient});
  }
  form.terms.push_back({stand, unit->coefficient});
  form.constant = static_cast<int64_t>(min) * unit->coefficient;
  absl::flat_hash_map<UOp*, UOp*> replacements = {{unit->node, FromLinear(graph, form)}};
  // A load happens whatever is chosen afterwards: its own gate must go on saying
  // all that keeps it inside its buffer. And a loop has the iterations it has, those of a
  // reduction too, which may close the very counters that the fact is about.
  const auto closes = [&fact](const UOp* node) {
    if (node->op() != Op::REDUCE) return false;
    const auto ranges = node->src().subspan(1);
    return std::any_of(fact.sum.terms.begin(), fact.sum.terms.end(), [&](const auto& term) {
      return std::find(ranges.begin(), ranges.end(), term.node) != ranges.end();
    });
  };
  for (UOp* fixed : order) {
    if (fixed->op() == Op::LOAD || fixed->op() == Op::RANGE || closes(fixed)) replacements.emplace(fixed, fixed);
  }
  UOp* known = Substitute(uop, replacements, graph);
  known = GraphRewrite(known, OtherRules(), graph);
  LinearForm back = fact.sum;
  back.constant = static_cast<int64_t>(-min);
  UOp* result = GraphRewrite(Substitute(known, {{stand, FromLinear(graph, back)}}, graph), OtherRules(), graph);
  return result != uop && WeightOf(Toposort(result)).cost < before.cost ? result : nullptr;
}

UOp* Given(Graph& graph, UOp* uop, absl::Span<const Fact> facts) {
  for (const Fact& fact : facts) {
    if (UOp* simpler = Given(graph, uop, fact)) return simpler;
  }
  return nullptr;
}

bool Contradict(absl::Span<const Fact> facts) {
  return std::any_of(facts.begin(), facts.end(), [](const Fact& fact) {
    const Bounds own = fact.sum.Range();
    return std::max(own.min, fact.min) > std::min(own.max, fact.max);
  });
}

bool IsComparison(const UOp* uop) {
  return IsComparison(uop->op()) || (uop->op() == Op::AND && uop->dtype() == DType::kBool);
}

UOp* Branches(const Match& m, Graph& graph) {
  if (!m.root()->shape().empty()) return nullptr;
  if (UOp* a = Given(graph, m[x], FactsFrom(m[c]))) return Where(graph, m[c], a, m[y]);
  if (UOp* b = Given(graph, m[y], FactsFrom(m[c], false))) return Where(graph, m[c], m[x], b);
  return nullptr;
}

// A gated access: m[i] is its index, m[c] the gate.
UOp* Access(const Match& m, Graph& graph) {
  if (m[i]->dtype() != kIndexType || !m[i]->shape().empty()) return nullptr;
  UOp* index = Given(graph, m[i], FactsFrom(m[c]));
  if (index == nullptr) return nullptr;
  std::vector<UOp*> src(m.root()->src().begin(), m.root()->src().end());
  src[0] = graph.Make(Op::INDEX, {src[0]->src(0), index});
  return graph.Make(m.root()->op(), src, m.root()->arg());
}

UOp* Conjunction(const Match& m, Graph& graph) {
  UOp* root = m.root();
  if (root->dtype() != DType::kBool || !root->shape().empty()) return nullptr;
  const Conjuncts conjuncts = ConjunctsOf(root);
  if (!conjuncts.complete || conjuncts.parts.size() > kMaxOperands) return nullptr;
  if (Contradict(FactsFrom(root))) return ConstInt(graph, DType::kBool, 0);
  for (const size_t side : {1, 0}) {
    UOp* simpler = Given(graph, root->src(side), FactsFrom(root->src(1 - side)));
    if (simpler == nullptr) continue;
    return side == 0 ? And(graph, simpler, root->src(1)) : And(graph, root->src(0), simpler);
  }
  return nullptr;
}

Pattern Place() { return Pattern::Of(Op::INDEX, {z, i}); }

}  // namespace

const RuleSet& GivenRules() {
  static const RuleSet& rules = *new RuleSet({
      RULE("where(c, x, y) -> where(c, x given c, y given !c)", PWhere(Pattern(c).If(IsComparison), x, y), Branches),
      RULE("load(b[i], x, c) -> load(b[i given c], x, c)",
           Pattern::Of(Op::LOAD, {Place(), x, Pattern(c).If(IsComparison)}), Access),
      RULE("store(b[i], x, c) -> store(b[i given c], x, c)",
           Pattern::Of(Op::STORE, {Place(), x, Pattern(c).If(IsComparison)}), Access),
      RULE("a & b -> a & (b given a), or false", Pattern::Any(Op::AND), Conjunction),
  });
  return rules;
}

}  // namespace kiln::compiler
