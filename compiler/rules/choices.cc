// Choices, conditions and conversions: WHERE, bool algebra, CAST. What comes of
// pads and masks ends as conjunctions of comparisons, the form that gates, bounds
// and range collapse read.
#include <vector>

#include "compiler/ir/build.h"
#include "compiler/ir/infer.h"
#include "compiler/rules/symbolic.h"

namespace kiln::compiler {
namespace {

constexpr Var x{0}, y{1}, z{2}, c{3}, d{4};

bool IsBoolNode(const UOp* uop) { return uop->dtype() == DType::kBool; }
bool IsIntNode(const UOp* uop) { return IsInt(uop->dtype()); }
bool IsCast(const UOp* uop) { return uop->op() == Op::CAST; }

bool IsTrue(const UOp* uop) { return IsBoolNode(uop) && uop->IsConstInt(1); }
bool IsFalse(const UOp* uop) { return IsBoolNode(uop) && uop->IsConstInt(0); }
Pattern True() { return Pattern::Any(Op::CONST).If(IsTrue); }
Pattern False() { return Pattern::Any(Op::CONST).If(IsFalse); }
Pattern Bool(Var var) { return Pattern(var).If(IsBoolNode); }

// The operands of a tree of `op`.
void Flatten(UOp* root, Op op, std::vector<UOp*>& operands) {
  std::vector<UOp*> stack = {root};
  while (!stack.empty() && operands.size() < 64) {
    UOp* uop = stack.back();
    stack.pop_back();
    if (uop->op() == op) {
      stack.push_back(uop->src(1));
      stack.push_back(uop->src(0));
    } else {
      operands.push_back(uop);
    }
  }
}

bool IsNegation(const UOp* a, const UOp* b) {
  return a->op() == Op::CMPNE && a->src(0) == b && a->src(1)->IsConstInt(1) && b->dtype() == DType::kBool;
}

// In a chain of ANDs (ORs), an operand that stands there already adds nothing,
// and one whose negation stands there decides.
template <Op op>
UOp* DropRepeated(const Match& m, Graph& graph) {
  if (m.root()->dtype() != DType::kBool) return nullptr;
  for (const size_t side : {1, 0}) {
    UOp* one = m.root()->src(side);
    UOp* rest = m.root()->src(1 - side);
    if (one->op() == op) continue;
    std::vector<UOp*> others;
    Flatten(rest, op, others);
    for (UOp* other : others) {
      if (other == one) return rest;
      if (IsNegation(other, one) || IsNegation(one, other)) return ConstInt(graph, DType::kBool, op == Op::OR);
    }
  }
  return nullptr;
}

std::vector<Rule> Conditions() {
  return {
      RULE("a & … & a -> a & …, and a & !a -> false", Pattern::Any(Op::AND), DropRepeated<Op::AND>),
      RULE("a | … | a -> a | …, and a | !a -> true", Pattern::Any(Op::OR), DropRepeated<Op::OR>),
      RULE("x | true -> true", POr(Bool(x), True().As(c)), ([](const Match& m, Graph&) -> UOp* { return m[c]; })),
      RULE("cast(condition) != 0 -> condition", PNe(Pattern::Of(Op::CAST, {Bool(x)}), Number(0)),
           ([](const Match& m, Graph&) -> UOp* { return m[x]; })),
      RULE("cast(condition) != 1 -> !condition", PNe(Pattern::Of(Op::CAST, {Bool(x)}), Number(1)),
           ([](const Match& m, Graph& g) -> UOp* { return Not(g, m[x]); })),
      RULE("cast(condition) < 1 -> !condition", PLt(Pattern::Of(Op::CAST, {Bool(x)}), Number(1)),
           ([](const Match& m, Graph& g) -> UOp* { return Not(g, m[x]); })),
      RULE("0 < cast(condition) -> condition", PLt(Number(0), Pattern::Of(Op::CAST, {Bool(x)})),
           ([](const Match& m, Graph&) -> UOp* { return m[x]; })),
  };
}

std::vector<Rule> Choices() {
  return {
      RULE("where(c, true, false) -> c", PWhere(c, True(), False()),
           ([](const Match& m, Graph&) -> UOp* { return m[c]; })),
      RULE("where(c, false, true) -> !c", PWhere(c, False(), True()),
           ([](const Match& m, Graph& g) -> UOp* { return Not(g, m[c]); })),
      RULE("where(c, x, false) -> c & x", PWhere(c, Bool(x), False()),
           ([](const Match& m, Graph& g) -> UOp* { return And(g, m[c], m[x]); })),
      RULE("where(c, true, x) -> c | x", PWhere(c, True(), Bool(x)),
           ([](const Match& m, Graph& g) -> UOp* { return g.Make(Op::OR, {m[c], m[x]}); })),
      // One node more, but a conjunction: what gates are.
      RULE("where(c, false, x) -> !c & x", PWhere(c, False(), Bool(x)),
           ([](const Match& m, Graph& g) -> UOp* { return And(g, Not(g, m[c]), m[x]); })),
      RULE("where(c, where(c, x, y), z) -> where(c, x, z)", PWhere(c, PWhere(c, x, y), z),
           ([](const Match& m, Graph& g) -> UOp* { return Where(g, m[c], m[x], m[z]); })),
      RULE("where(c, x, where(c, y, z)) -> where(c, x, z)", PWhere(c, x, PWhere(c, y, z)),
           ([](const Match& m, Graph& g) -> UOp* { return Where(g, m[c], m[x], m[z]); })),
      RULE("where(c, where(d, x, y), y) -> where(c & d, x, y)", PWhere(c, PWhere(d, x, y), y),
           ([](const Match& m, Graph& g) -> UOp* { return Where(g, And(g, m[c], m[d]), m[x], m[y]); })),
      RULE("where(c, x, where(d, x, y)) -> where(c | d, x, y)", PWhere(c, x, PWhere(d, x, y)),
           ([](const Match& m, Graph& g) -> UOp* { return Where(g, g.Make(Op::OR, {m[c], m[d]}), m[x], m[y]); })),
      RULE("max(x, y) -> x where x >= y always", PMax(Pattern(x).If(IsIntNode), y),
           ([](const Match& m, Graph&) -> UOp* {
             if (m[x]->bounds().min >= m[y]->bounds().max) return m[x];
             return m[y]->bounds().min >= m[x]->bounds().max ? m[y] : nullptr;
           })),
      RULE("max(max(x, c), d) -> max(x, max(c, d))",
           PMax(PMax(Pattern(x).If(IsIntNode), Pattern::Constant().As(c)), Pattern::Constant().As(d)),
           ([](const Match& m, Graph& g) -> UOp* { return g.Make(Op::MAX, {m[x], g.Make(Op::MAX, {m[c], m[d]})}); })),
  };
}

// cast(cast(x)): the middle dtype may be left out if it keeps every value of x,
// or every bit that is left in the end.
UOp* CastOfCast(const Match& m, Graph& graph) {
  UOp* inner = m[x]->src(0);
  const DType from = inner->dtype(), middle = m[x]->dtype(), to = m.root()->dtype();
  if (!IsIntOrBool(from)) return nullptr;
  const auto holds = [](const UOp* value, DType dtype) {
    const Bounds range = BoundsOf(dtype);
    return value->bounds().min >= range.min && value->bounds().max <= range.max;
  };
  const bool low_bits = IsInt(from) && IsInt(middle) && IsInt(to) && Bits(to) <= Bits(middle);
  const bool kept = IsInt(middle) && holds(inner, middle);
  if (from != DType::kBool && !low_bits && !kept) return nullptr;
  if (from == DType::kBool && middle == DType::kBool) return nullptr;
  return Cast(graph, inner, to);
}

// Whether `uop` is an index, or a constant, in a narrower dtype that holds it: not
// data, which may come in vectors. `wide` is the index itself.
bool IsNarrowIndex(Graph& graph, UOp* uop, UOp*& wide) {
  if (!IsInt(uop->dtype()) || uop->dtype() == kIndexType) return false;
  const bool is_cast = uop->op() == Op::CAST && uop->src(0)->dtype() == kIndexType;
  const Bounds range = BoundsOf(uop->dtype());
  if (is_cast) wide = uop->src(0);
  if (uop->IsConst()) wide = Idx(graph, uop->const_int());
  return (is_cast || (uop->IsConst() && range.max <= BoundsOf(kIndexType).max)) && wide->bounds().min >= range.min &&
         wide->bounds().max <= range.max;
}

// Index arithmetic in a narrower dtype, moved back to where it is understood.
// Sums and products keep their low bits; quotients need operands that fit.
UOp* UnderCast(const Match& m, Graph& graph) {
  UOp *a = nullptr, *b = nullptr, *root = m.root();
  if (!IsNarrowIndex(graph, root->src(0), a) || !IsNarrowIndex(graph, root->src(1), b)) return nullptr;
  if (a->IsConst() && b->IsConst()) return nullptr;
  if (IsComparison(root->op())) return graph.Make(root->op(), {a, b});
  return Cast(graph, graph.Make(root->op(), {a, b}), root->dtype());
}

// A digit's weight: an arange that was made digit by digit adds them up to its index.
bool IsDigit(const UOp* uop) { return uop->dtype() == kIndexType && uop->bounds().min == 0 && uop->bounds().max == 1; }

UOp* WeightOfDigit(const Match& m, Graph& graph) {
  if (!IsInt(m[c]->dtype()) || m[c]->bounds().max > BoundsOf(kIndexType).max) return nullptr;
  return Cast(graph, Mul(graph, m[x], Idx(graph, m[c]->const_int())), m[c]->dtype());
}

std::vector<Rule> Conversions() {
  std::vector<Rule> rules = {
      RULE("where(0 < x, c, 0) -> cast(x * c) for a binary digit x",
           PWhere(PLt(Number(0), Pattern(x).If(IsDigit)), Pattern::Constant().As(c), Number(0)), WeightOfDigit),
      RULE("cast(cast(x)) -> cast(x) where nothing is lost between", PCast(Pattern(x).If(IsCast)), CastOfCast),
  };
  for (Op op : {Op::ADD, Op::MUL, Op::FLOORDIV, Op::FLOORMOD, Op::MAX})
    rules.push_back(RULE("cast(x) op cast(y) -> cast(x op y) for indices", Pattern::Any(op), UnderCast));
  for (Op op : {Op::CMPLT, Op::CMPNE})
    rules.push_back(RULE("cast(x) < cast(y) -> x < y for indices", Pattern::Any(op), UnderCast));
  return rules;
}

}  // namespace

const RuleSet& ChoiceRules() {
  static const RuleSet& rules = *new RuleSet([] {
    std::vector<Rule> all = Conditions();
    for (Rule& rule : Choices()) all.push_back(std::move(rule));
    for (Rule& rule : Conversions()) all.push_back(std::move(rule));
    return all;
  }());
  return rules;
}

}  // namespace kiln::compiler
