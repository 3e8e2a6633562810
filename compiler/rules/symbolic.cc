#include "compiler/rules/symbolic.h"

#include <vector>

#include "compiler/interp/scalar.h"
#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

constexpr Var x{0}, y{1}, c{2}, d{3}, e{4};

bool AllConst(const UOp* uop) {
  for (const UOp* source : uop->src()) {
    if (!source->IsConst()) return false;
  }
  return true;
}

UOp* Fold(const Match& m, Graph& graph) {
  UOp* uop = m.root();
  std::vector<uint64_t> operands;
  for (UOp* source : uop->src()) operands.push_back(source->arg_as<ConstArg>().bits);
  const DType from = uop->op() == Op::WHERE ? uop->dtype() : uop->src(0)->dtype();
  return ConstBits(graph, uop->dtype(), EvalScalar(uop->op(), from, uop->dtype(), operands));
}

// The bounds leave one value.
UOp* FoldByBounds(const Match& m, Graph& graph) {
  UOp* uop = m.root();
  if (!uop->bounds().IsConst() || !uop->shape().empty()) return nullptr;
  return ConstBits(graph, uop->dtype(), static_cast<uint64_t>(uop->bounds().min));
}

std::vector<Rule> FoldingRules() {
  std::vector<Rule> rules;
  for (Op op : {
#define UOP(name, ...) Op::name,
#include "compiler/ir/ops.def"
#undef UOP
       }) {
    if (!IsElementwise(op)) continue;
    rules.push_back(RULE("op(constants) -> constant", Pattern::Any(op).If(AllConst), Fold));
    rules.push_back(RULE("op of one possible value -> constant", Pattern::Any(op), FoldByBounds));
  }
  return rules;
}

bool IsIntOrBoolNode(const UOp* uop) { return IsIntOrBool(uop->dtype()); }
bool IsIntNode(const UOp* uop) { return IsInt(uop->dtype()); }
bool IsBoolNode(const UOp* uop) { return uop->dtype() == DType::kBool; }

Pattern IntX() { return Pattern(x).If(IsIntOrBoolNode); }
Pattern BoolX() { return Pattern(x).If(IsBoolNode); }

std::vector<Rule> Identities() {
  auto to_x = [](const Match& m, Graph&) -> UOp* { return m[x]; };
  return {
      // Addition of 0 would turn -0.0 into 0.0, so floats stay.
      RULE("x + 0 -> x", PAdd(IntX(), Number(0)), to_x),
      RULE("x * 1 -> x", PMul(x, Number(1)), to_x),
      // 0 * inf and 0 * NaN are NaN, so floats stay.
      RULE("x * 0 -> 0", PMul(IntX(), Number(0).As(c)), ([](const Match& m, Graph&) -> UOp* { return m[c]; })),
      RULE("x / 1 -> x", Pattern::Of(Op::FDIV, {x, Number(1)}), to_x),
      RULE("x // 1 -> x", PFloorDiv(x, Number(1)), to_x),
      RULE("cdiv(x, 1) -> x", PCDiv(x, Number(1)), to_x),
      RULE("max(x, x) -> x", PMax(x, x), to_x),
      RULE("x & x -> x", PAnd(x, x), to_x),
      RULE("x | x -> x", POr(x, x), to_x),
      RULE("x & true -> x", PAnd(BoolX(), Number(1)), to_x),
      RULE("x & false -> false", PAnd(BoolX(), Number(0).As(c)), ([](const Match& m, Graph&) -> UOp* { return m[c]; })),
      RULE("x | false -> x", POr(BoolX(), Number(0)), to_x),
      RULE("x | 0 -> x", POr(IntX(), Number(0)), to_x),
      RULE("x ^ 0 -> x", PXor(IntX(), Number(0)), to_x),
      RULE("!!x -> x", PNe(PNe(BoolX(), Number(1)), Number(1)), to_x),
      RULE("x != false -> x", PNe(BoolX(), Number(0)), to_x),
      // Constants go right, and meet.
      RULE("c + x -> x + c", PAdd(Pattern::Constant().As(c), x), ([](const Match& m, Graph& g) -> UOp* {
             return m.root()->src(0) == m[c] && !m[x]->IsConst() ? Add(g, m[x], m[c]) : nullptr;
           })),
      RULE("c * x -> x * c", PMul(Pattern::Constant().As(c), x), ([](const Match& m, Graph& g) -> UOp* {
             return m.root()->src(0) == m[c] && !m[x]->IsConst() ? Mul(g, m[x], m[c]) : nullptr;
           })),
      RULE("(x + c) + d -> x + (c + d)", PAdd(PAdd(IntX(), Pattern::Constant().As(c)), Pattern::Constant().As(d)),
           ([](const Match& m, Graph& g) -> UOp* { return Add(g, m[x], Add(g, m[c], m[d])); })),
      RULE("(x * c) * d -> x * (c * d)", PMul(PMul(IntX(), Pattern::Constant().As(c)), Pattern::Constant().As(d)),
           ([](const Match& m, Graph& g) -> UOp* { return Mul(g, m[x], Mul(g, m[c], m[d])); })),
      // Choices.
      RULE("where(true, x, y) -> x", PWhere(Number(1), x, y), to_x),
      RULE("where(false, y, x) -> x", PWhere(Number(0), y, x), to_x),
      RULE("where(c, x, x) -> x", PWhere(c, x, x), to_x),
      RULE("where(!c, x, y) -> where(c, y, x)", PWhere(PNe(Pattern(c).If(IsBoolNode), Number(1)), x, y),
           ([](const Match& m, Graph& g) -> UOp* { return Where(g, m[c], m[y], m[x]); })),
      RULE("cast(x) to x's own dtype -> x", PCast(x),
           ([](const Match& m, Graph&) -> UOp* { return m[x]->dtype() == m.root()->dtype() ? m[x] : nullptr; })),
      RULE("bitcast(x) to x's own dtype -> x", Pattern::Of(Op::BITCAST, {x}),
           ([](const Match& m, Graph&) -> UOp* { return m[x]->dtype() == m.root()->dtype() ? m[x] : nullptr; })),
      RULE("trunc(integer x) -> x", Pattern::Of(Op::TRUNC, {Pattern(x).If(IsIntNode)}), to_x),
      // Gates.
      RULE("load(x, y, true) -> load(x)", Pattern::Of(Op::LOAD, {x, y, Number(1)}),
           ([](const Match& m, Graph& g) -> UOp* { return g.Make(Op::LOAD, {m[x]}); })),
      RULE("load(x, y, false) -> y", Pattern::Of(Op::LOAD, {x, y, Number(0)}),
           ([](const Match& m, Graph&) -> UOp* { return m[y]; })),
      RULE("where(c, load(x, y, c), d) -> load(x, d, c)", PWhere(c, Pattern::Of(Op::LOAD, {x, y, c}), d),
           ([](const Match& m, Graph& g) -> UOp* {
             return m[x]->shape() == m.root()->shape() ? g.Make(Op::LOAD, {m[x], m[d], m[c]}) : nullptr;
           })),
      RULE("where(c, d, load(x, y, !c)) -> load(x, d, !c)",
           PWhere(c, d, Pattern::Of(Op::LOAD, {x, y, PNe(c, Number(1)).As(e)})), ([](const Match& m, Graph& g) -> UOp* {
             return m[x]->shape() == m.root()->shape() ? g.Make(Op::LOAD, {m[x], m[d], m[e]}) : nullptr;
           })),
      RULE("store(x, y, true) -> store(x, y)", Pattern::Of(Op::STORE, {x, y, Number(1)}),
           ([](const Match& m, Graph& g) -> UOp* { return g.Make(Op::STORE, {m[x], m[y]}); })),
  };
}

}  // namespace

const RuleSet& IdentityRules() {
  static const RuleSet& rules = *new RuleSet([] {
    std::vector<Rule> all = FoldingRules();
    for (Rule& rule : Identities()) all.push_back(std::move(rule));
    return all;
  }());
  return rules;
}

const RuleSet& SymbolicRules() {
  static const RuleSet& rules =
      *new RuleSet(RuleSet::Join({&IdentityRules(), &ChoiceRules(), &DivModRules(), &GivenRules()}));
  return rules;
}

}  // namespace kiln::compiler
