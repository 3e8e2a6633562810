// Index arithmetic: sums, quotients and remainders of int64 expressions as
// linear forms. Every rule needs to know that the sum does not wrap; its exact
// range says so.
#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "compiler/ir/build.h"
#include "compiler/rules/linear.h"
#include "compiler/rules/symbolic.h"

namespace kiln::compiler {
namespace {

constexpr Var x{0}, c{2};

bool IsIndex(const UOp* uop) { return uop->dtype() == kIndexType; }
bool IsIndexConst(const UOp* uop) { return uop->IsConst() && uop->dtype() == kIndexType; }
bool IsPositiveConst(const UOp* uop) { return uop->IsConst() && uop->dtype() == kIndexType && uop->const_int() > 0; }

bool Fits(const Bounds& range) {
  return range.min >= std::numeric_limits<int64_t>::min() && range.max <= std::numeric_limits<int64_t>::max();
}

int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }
// Of a positive b. (a - FloorDiv(a, b) * b may leave int64 on its way.)
int64_t FloorMod(int64_t a, int64_t b) { return a % b < 0 ? a % b + b : a % b; }

UOp* Quotient(Graph& graph, UOp* a, int64_t b) { return b == 1 ? a : graph.Make(Op::FLOORDIV, {a, Idx(graph, b)}); }
UOp* Remainder(Graph& graph, UOp* a, int64_t b) { return graph.Make(Op::FLOORMOD, {a, Idx(graph, b)}); }

// form = g * whole + part with 0 <= part < g, for the greatest g > 1 that
// divides `divisor` and works; returns 0 if there is none.
int64_t SplitByFactor(const LinearForm& form, int64_t divisor, LinearForm& whole, LinearForm& part) {
  std::vector<int64_t> candidates = {divisor};
  for (const auto& term : form.terms) candidates.push_back(std::gcd(term.coefficient, divisor));
  std::sort(candidates.rbegin(), candidates.rend());
  for (int64_t g : candidates) {
    if (g <= 1) continue;
    whole = part = LinearForm();
    for (const auto& term : form.terms) {
      if (term.coefficient % g == 0) {
        whole.terms.push_back({term.node, term.coefficient / g});
      } else {
        part.terms.push_back(term);
      }
    }
    whole.constant = FloorDiv(form.constant, g);
    part.constant = FloorMod(form.constant, g);
    if (whole.terms.empty() && whole.constant == 0) continue;
    const Bounds range = part.Range();
    if (range.min >= 0 && range.max < g) return g;
  }
  return 0;
}

// (d*a + b) // d -> a + b // d, exactly, for any b.
UOp* SplitQuotient(const Match& m, Graph& graph) {
  const int64_t divisor = m[c]->const_int();
  const LinearForm form = ToLinear(m[x]);
  if (!Fits(form.Range())) return nullptr;
  LinearForm multiple, rest;
  for (const auto& term : form.terms) {
    if (term.coefficient % divisor == 0) {
      multiple.terms.push_back({term.node, term.coefficient / divisor});
    } else {
      rest.terms.push_back(term);
    }
  }
  multiple.constant = FloorDiv(form.constant, divisor);
  rest.constant = FloorMod(form.constant, divisor);
  // A constant alone is worth an addition only if what is left is then simpler:
  // without a constant, or never negative, which divides faster.
  const bool simpler = rest.constant == 0 || (form.Range().min < 0 && rest.Range().min >= 0);
  if (!multiple.terms.empty() || (multiple.constant != 0 && simpler)) {
    if (!Fits(rest.Range())) return nullptr;
    return Add(graph, FromLinear(graph, multiple), Quotient(graph, FromLinear(graph, rest), divisor));
  }
  // (g*a + b) // (g*d) -> a // d where 0 <= b < g.
  LinearForm whole, part;
  const int64_t g = SplitByFactor(form, divisor, whole, part);
  if (g == 0) return nullptr;
  return Quotient(graph, FromLinear(graph, whole), divisor / g);
}

// Coefficients modulo d: (d*a + b) % d -> b % d, and ((d+1)*a) % d -> a % d, as
// sliding windows have it. (g*a + b) % (g*d) -> (a % d) * g + b where 0 <= b < g.
UOp* SplitRemainder(const Match& m, Graph& graph) {
  const int64_t divisor = m[c]->const_int();
  const LinearForm form = ToLinear(m[x]);
  if (!Fits(form.Range())) return nullptr;
  LinearForm rest;
  bool reduced = false;
  for (const auto& term : form.terms) {
    const int64_t coefficient = term.coefficient % divisor;
    reduced |= coefficient != term.coefficient;
    if (coefficient != 0) rest.terms.push_back({term.node, coefficient});
  }
  rest.constant = FloorMod(form.constant, divisor);
  if (!Fits(rest.Range())) return nullptr;
  if (reduced || rest.constant != form.constant) {
    return Remainder(graph, FromLinear(graph, rest), divisor);
  }
  LinearForm whole, part;
  const int64_t g = SplitByFactor(form, divisor, whole, part);
  if (g == 0 || g == divisor) return nullptr;
  UOp* high = Mul(graph, Remainder(graph, FromLinear(graph, whole), divisor / g), Idx(graph, g));
  return Add(graph, high, FromLinear(graph, part));
}

// x stays within one multiple of c: x // c is constant there.
UOp* RemainderWithinOneMultiple(const Match& m, Graph& graph) {
  const int64_t divisor = m[c]->const_int();
  const Bounds& bounds = m[x]->bounds();
  if (!Fits(bounds)) return nullptr;
  const int64_t multiple = FloorDiv(static_cast<int64_t>(bounds.min), divisor);
  if (multiple != FloorDiv(static_cast<int64_t>(bounds.max), divisor)) return nullptr;
  if (multiple == 0) return m[x];
  if (multiple < -(int64_t{1} << 32) || multiple > (int64_t{1} << 32) || divisor > (int64_t{1} << 30)) return nullptr;
  return Add(graph, m[x], Idx(graph, -multiple * divisor));
}

UOp* QuotientOfQuotient(const Match& m, Graph& graph) {
  UOp* inner = m[x]->src(1);
  if (!IsPositiveConst(inner)) return nullptr;
  const __int128 product = static_cast<__int128>(inner->const_int()) * m[c]->const_int();
  if (product > std::numeric_limits<int64_t>::max()) return nullptr;
  return Quotient(graph, m[x]->src(0), static_cast<int64_t>(product));
}

UOp* RemainderOfRemainder(const Match& m, Graph& graph) {
  UOp* inner = m[x]->src(1);
  if (!IsPositiveConst(inner) || inner->const_int() % m[c]->const_int() != 0) return nullptr;
  return Remainder(graph, m[x]->src(0), m[c]->const_int());
}

// k * (x % a) + k*a * (x // a) -> k * x, and with (x // a) % b in place of the
// quotient -> k * (x % (a*b)).
bool Recombine(Graph& graph, LinearForm& form) {
  for (size_t i = 0; i < form.terms.size(); ++i) {
    const auto low = form.terms[i];
    if (low.node->op() != Op::FLOORMOD || !IsPositiveConst(low.node->src(1))) continue;
    UOp* value = low.node->src(0);
    const int64_t a = low.node->src(1)->const_int();
    for (size_t j = 0; j < form.terms.size(); ++j) {
      const auto high = form.terms[j];
      if (static_cast<__int128>(low.coefficient) * a != high.coefficient) continue;
      UOp* quotient = high.node;
      int64_t b = 0;
      if (quotient->op() == Op::FLOORMOD && IsPositiveConst(quotient->src(1))) {
        b = quotient->src(1)->const_int();
        quotient = quotient->src(0);
        if (static_cast<__int128>(a) * b > std::numeric_limits<int64_t>::max()) continue;
      }
      if (quotient->op() != Op::FLOORDIV || quotient->src(0) != value || !quotient->src(1)->IsConstInt(a)) continue;
      UOp* whole = b == 0 ? value : Remainder(graph, value, a * b);
      form.terms[i] = {whole, low.coefficient};
      form.terms.erase(form.terms.begin() + static_cast<int64_t>(j));
      return true;
    }
  }
  return false;
}

// The operands of a tree of ADDs, in order, its constants added up.
struct Summands {
  std::vector<UOp*> nodes;
  int64_t constant = 0;
  int constants = 0;
};

Summands SummandsOf(UOp* root) {
  Summands sum;
  std::vector<UOp*> stack = {root};
  while (!stack.empty()) {
    UOp* node = stack.back();
    stack.pop_back();
    if (node->op() == Op::ADD) {
      stack.push_back(node->src(1));
      stack.push_back(node->src(0));
    } else if (node->IsConst()) {
      sum.constant =
          static_cast<int64_t>(static_cast<uint64_t>(sum.constant) + static_cast<uint64_t>(node->const_int()));
      ++sum.constants;
    } else {
      sum.nodes.push_back(node);
    }
  }
  return sum;
}

// ADDs and MULs between a sum and its terms, as ToLinear walks them.
int OpsOf(UOp* root) {
  int ops = 0;
  std::vector<UOp*> stack = {root};
  while (!stack.empty()) {
    UOp* node = stack.back();
    stack.pop_back();
    const bool scaled = node->op() == Op::MUL && node->src(1)->IsConst();
    if (node->op() != Op::ADD && !scaled) continue;
    ++ops;
    stack.push_back(node->src(0));
    if (!scaled) stack.push_back(node->src(1));
  }
  return ops;
}

int OpsOf(const LinearForm& form) {
  int ops = static_cast<int>(form.terms.size()) - 1 + (form.constant != 0);
  for (const auto& term : form.terms) ops += term.coefficient != 1;
  return ops;
}

// A sum in normal form: like terms together, the constant last. (a + b) * c is
// spread out only if that saves an operation, so that gates can be matched with
// the index they guard.
UOp* NormalSum(const Match& m, Graph& graph) {
  UOp* root = m.root();
  if (root->dtype() != kIndexType) return nullptr;
  LinearForm form = ToLinear(root);
  const Summands sum = SummandsOf(root);
  if (Recombine(graph, form) || form.terms.size() < sum.nodes.size() || OpsOf(form) < OpsOf(root)) {
    UOp* result = FromLinear(graph, form);
    return result == root ? nullptr : result;
  }
  if (sum.constants == 0 || (sum.constants == 1 && root->src(1)->IsConst())) return nullptr;
  UOp* result = nullptr;
  for (UOp* node : sum.nodes) result = result == nullptr ? node : Add(graph, result, node);
  if (result == nullptr) return Idx(graph, sum.constant);
  return sum.constant == 0 ? result : Add(graph, result, Idx(graph, sum.constant));
}

// x + k < c -> x < c - k, where x + k does not wrap.
UOp* MoveConstantAcrossLess(const Match& m, Graph& graph) {
  UOp* sum = m[x];
  if (sum->op() != Op::ADD || !sum->src(1)->IsConst()) return nullptr;
  UOp* rest = sum->src(0);
  const __int128 k = sum->src(1)->const_int();
  const Bounds moved{rest->bounds().min + k, rest->bounds().max + k, true};
  const __int128 limit = static_cast<__int128>(m[c]->const_int()) - k;
  if (!Fits(moved) || !Fits(Bounds{limit, limit, true})) return nullptr;
  return Lt(graph, rest, Idx(graph, static_cast<int64_t>(limit)));
}

// g * s + k < c -> s < ceil((c - k) / g), where g divides every coefficient.
UOp* DivideLess(const Match& m, Graph& graph) {
  LinearForm form = ToLinear(m[x]);
  if (form.terms.empty() || !Fits(form.Range())) return nullptr;
  int64_t g = 0;
  for (const auto& term : form.terms) {
    if (term.coefficient == std::numeric_limits<int64_t>::min()) return nullptr;
    g = std::gcd(g, term.coefficient);
  }
  const __int128 limit = static_cast<__int128>(m[c]->const_int()) - form.constant;
  if (g == 1 || !Fits(Bounds{limit - g, limit + g, true})) return nullptr;
  for (auto& term : form.terms) term.coefficient /= g;
  form.constant = 0;
  return Lt(graph, FromLinear(graph, form), Idx(graph, -FloorDiv(static_cast<int64_t>(-limit), g)));
}

// x // k < c -> x < c * k for positive k.
UOp* LessOfQuotient(const Match& m, Graph& graph) {
  UOp* quotient = m[x];
  if (quotient->op() != Op::FLOORDIV || !IsPositiveConst(quotient->src(1))) return nullptr;
  const __int128 limit = static_cast<__int128>(m[c]->const_int()) * quotient->src(1)->const_int();
  if (!Fits(Bounds{limit, limit, true})) return nullptr;
  return Lt(graph, quotient->src(0), Idx(graph, static_cast<int64_t>(limit)));
}

// x + k != c -> x != c - k, wrapping or not.
UOp* MoveConstantAcrossUnequal(const Match& m, Graph& graph) {
  UOp* sum = m[x];
  if (sum->op() != Op::ADD || !sum->src(1)->IsConst()) return nullptr;
  const uint64_t moved = static_cast<uint64_t>(m[c]->const_int()) - static_cast<uint64_t>(sum->src(1)->const_int());
  return graph.Make(Op::CMPNE, {sum->src(0), Idx(graph, static_cast<int64_t>(moved))});
}

// g * s != c, where g divides every coefficient: true if g does not divide c,
// else s != c / g.
UOp* DivideUnequal(const Match& m, Graph& graph) {
  LinearForm form = ToLinear(m[x]);
  if (form.terms.empty() || form.constant != 0 || !Fits(form.Range())) return nullptr;
  int64_t g = 0;
  for (const auto& term : form.terms) {
    if (term.coefficient == std::numeric_limits<int64_t>::min()) return nullptr;
    g = std::gcd(g, term.coefficient);
  }
  if (g == 1) return nullptr;
  if (m[c]->const_int() % g != 0) return ConstInt(graph, DType::kBool, 1);
  for (auto& term : form.terms) term.coefficient /= g;
  return graph.Make(Op::CMPNE, {FromLinear(graph, form), Idx(graph, m[c]->const_int() / g)});
}

}  // namespace

const RuleSet& DivModRules() {
  const auto index_x = [] { return Pattern(x).If(IsIndex); };
  const auto positive_c = [] { return Pattern(c).If(IsPositiveConst); };
  const auto constant_c = [] { return Pattern(c).If(IsIndexConst); };
  static const RuleSet& rules = *new RuleSet({
      RULE("sum in normal form", Pattern::Any(Op::ADD), NormalSum),
      RULE("x % c, x within one multiple -> x - k*c", PFloorMod(index_x(), positive_c()), RemainderWithinOneMultiple),
      RULE("(d*a + b) % d -> b % d", PFloorMod(index_x(), positive_c()), SplitRemainder),
      RULE("(x % (c*k)) % c -> x % c", PFloorMod(Pattern::Any(Op::FLOORMOD).As(x).If(IsIndex), positive_c()),
           RemainderOfRemainder),
      RULE("(d*a + b) // d -> a + b // d", PFloorDiv(index_x(), positive_c()), SplitQuotient),
      RULE("(x // a) // c -> x // (a*c)", PFloorDiv(Pattern::Any(Op::FLOORDIV).As(x).If(IsIndex), positive_c()),
           QuotientOfQuotient),
      RULE("x + k < c -> x < c - k", PLt(index_x(), constant_c()), MoveConstantAcrossLess),
      RULE("g*s + k < c -> s < ceil((c - k) / g)", PLt(index_x(), constant_c()), DivideLess),
      RULE("x // k < c -> x < c*k", PLt(index_x(), constant_c()), LessOfQuotient),
      RULE("x + k != c -> x != c - k", PNe(index_x(), constant_c()), MoveConstantAcrossUnequal),
      RULE("g*s != c -> s != c / g, or true", PNe(index_x(), constant_c()), DivideUnequal),
  });
  return rules;
}

}  // namespace kiln::compiler
