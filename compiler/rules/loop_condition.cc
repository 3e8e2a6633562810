#include "compiler/rules/loop_condition.h"

#include <limits>

#include "compiler/ir/build.h"
#include "compiler/ir/infer.h"
#include "compiler/ir/interval.h"
#include "compiler/rules/linear.h"

namespace kiln::compiler {
namespace {

// Deeper arithmetic between the counter and its comparison is left alone.
constexpr int kMaxDepth = 24;
// Conditions of one REDUCE; more are left alone.
constexpr size_t kMaxConditions = 32;

bool Fits(const Bounds& bounds, DType dtype) {
  const Bounds range = BoundsOf(dtype);
  return bounds.known && bounds.min >= range.min && bounds.max <= range.max;
}

// `uop`, an integer, as the same number in the index type; null if it may not fit.
UOp* Widen(Graph& graph, UOp* uop, DependsOn& depends, int depth = 0) {
  if (uop->dtype() == kIndexType) return uop;
  if (!Fits(uop->bounds(), kIndexType)) return nullptr;
  if (depth < kMaxDepth && depends(uop)) {
    if (uop->op() == Op::CAST && IsIntOrBool(uop->src(0)->dtype()) && Fits(uop->src(0)->bounds(), uop->dtype()))
      return Widen(graph, uop->src(0), depends, depth + 1);
    const bool sum = uop->op() == Op::ADD || uop->op() == Op::MUL;
    if (sum && uop->dtype() != DType::kBool &&
        Fits(OfBinary(uop->op(), uop->src(0)->bounds(), uop->src(1)->bounds(), DType::kInt64), uop->dtype())) {
      UOp* a = Widen(graph, uop->src(0), depends, depth + 1);
      UOp* b = Widen(graph, uop->src(1), depends, depth + 1);
      if (a == nullptr || b == nullptr) return nullptr;
      return graph.Make(uop->op(), {a, b});
    }
  }
  if (uop->IsConst()) return Idx(graph, uop->const_int());
  return Cast(graph, uop, kIndexType);
}

// Coefficients beyond this are no index arithmetic, and might wrap when added.
constexpr int64_t kFar = int64_t{1} << 40;

bool IsModerate(const LinearForm& form) {
  auto moderate = [](int64_t x) { return x > -kFar && x < kFar; };
  for (const auto& term : form.terms) {
    if (!moderate(term.coefficient)) return false;
  }
  return moderate(form.constant) && Fits(form.Range(), kIndexType);
}

// coefficient * counter + rest, where the counter is the only term that depends
// on the loop.
struct Affine {
  UOp* counter = nullptr;
  int64_t coefficient = 0;
  LinearForm rest;
};

class Solver {
 public:
  Solver(Graph& graph, UOp* range, DependsOn& depends) : graph_(graph), range_(range), depends_(depends) {}

  std::optional<IterationSet> Run(absl::Span<UOp* const> conditions) {
    bool solved = true;
    for (UOp* condition : conditions) todo_.push_back({condition, true});
    for (size_t taken = 0; !todo_.empty(); ++taken) {
      if (taken >= kMaxConditions) return std::nullopt;
      const Literal literal = todo_.back();
      todo_.pop_back();
      if (Take(literal)) continue;
      iterations_.rest.push_back(NodeOf(literal));  // may be checked in the one iteration there is
      solved = false;
    }
    if (!solved && iterations_.equal == nullptr) return std::nullopt;
    return std::move(iterations_);
  }

 private:
  struct Literal {
    UOp* condition;
    bool holds;
  };

  UOp* NodeOf(const Literal& literal) { return literal.holds ? literal.condition : Not(graph_, literal.condition); }

  // False if the literal is of no form that says which iterations it holds for.
  bool Take(const Literal& literal) {
    UOp* uop = literal.condition;
    if (!depends_(uop)) {
      iterations_.gates.push_back(NodeOf(literal));
      iterations_.rest.push_back(NodeOf(literal));
      return true;
    }
    switch (uop->op()) {
      case Op::CMPNE:
        if (uop->src(0)->dtype() == DType::kBool) {
          if (!uop->src(1)->IsConst()) return false;
          todo_.push_back({uop->src(0), literal.holds != (uop->src(1)->const_int() != 0)});
          return true;
        }
        return TakeEquality(literal);
      case Op::CMPLT: return TakeOrder(literal);
      case Op::AND:
      case Op::MUL:
      case Op::OR:
      case Op::ADD:
      case Op::MAX: {
        // All of a conjunction, none of a disjunction.
        const bool conjunction = uop->op() == Op::AND || uop->op() == Op::MUL;
        if (conjunction != literal.holds) return false;
        todo_.push_back({uop->src(0), literal.holds});
        todo_.push_back({uop->src(1), literal.holds});
        return true;
      }
      default: return false;
    }
  }

  // a - b as an affine form: modulo 2^64, or exactly if neither a, b nor the
  // difference wraps.
  struct Difference {
    Affine affine;
    bool exact = false;
  };
  std::optional<Difference> DifferenceOf(UOp* comparison) {
    if (!IsInt(comparison->src(0)->dtype())) return std::nullopt;
    UOp* a = Widen(graph_, comparison->src(0), depends_);
    UOp* b = Widen(graph_, comparison->src(1), depends_);
    if (a == nullptr || b == nullptr) return std::nullopt;
    const LinearForm difference = ToLinear(Add(graph_, a, Mul(graph_, b, Idx(graph_, -1))));
    std::optional<Affine> affine = Split(difference);
    if (!affine.has_value()) return std::nullopt;
    return Difference{*std::move(affine), IsModerate(ToLinear(a)) && IsModerate(ToLinear(b)) && IsModerate(difference)};
  }

  std::optional<Affine> Split(const LinearForm& form) {
    Affine affine;
    affine.rest.constant = form.constant;
    for (const auto& term : form.terms) {
      if (!depends_(term.node)) {
        affine.rest.terms.push_back(term);
      } else if (affine.counter != nullptr) {
        return std::nullopt;
      } else {
        affine.counter = term.node;
        affine.coefficient = term.coefficient;
      }
    }
    if (affine.counter == nullptr) return std::nullopt;
    return affine;
  }

  UOp* Sum(const LinearForm& form) { return FromLinear(graph_, form); }
  UOp* Negated(LinearForm form, int64_t plus) {
    auto minus = [](int64_t x, int64_t from) {
      return static_cast<int64_t>(static_cast<uint64_t>(from) - static_cast<uint64_t>(x));
    };
    for (auto& term : form.terms) term.coefficient = minus(term.coefficient, 0);
    form.constant = minus(form.constant, plus);
    return Sum(form);
  }
  UOp* Quotient(UOp* a, int64_t b) { return b == 1 ? a : graph_.Make(Op::FLOORDIV, {a, Idx(graph_, b)}); }

  bool TakeOrder(const Literal& literal) {
    const std::optional<Difference> difference = DifferenceOf(literal.condition);
    if (!difference.has_value() || !difference->exact || !Limit(difference->affine, literal.holds)) return false;
    iterations_.rest.push_back(NodeOf(literal));
    return true;
  }

  // coefficient * counter + rest < 0 exactly, or >= 0, as a limit of r itself.
  bool Limit(Affine affine, bool less) {
    for (int depth = 0; depth < kMaxDepth; ++depth) {
      if (!IsModerate(affine.rest)) return false;
      const int64_t k = affine.coefficient;
      // k * c < -rest: c < ceil(-rest / k).  rest < m * c: c > floor(rest / m).
      UOp* limit = k > 0 ? Quotient(Negated(affine.rest, k - 1), k)
                         : Add(graph_, Quotient(Sum(affine.rest), -k), Idx(graph_, 1));
      const bool is_high = (k > 0) == less;  // c < limit, else c >= limit
      UOp* counter = affine.counter;
      if (counter == range_) {
        (is_high ? iterations_.highs : iterations_.lows).push_back(limit);
        return true;
      }
      // x // d < limit: x - d * limit < 0
      if (counter->op() != Op::FLOORDIV || !counter->src(1)->IsConst()) return false;
      const int64_t d = counter->src(1)->const_int();
      LinearForm form = ToLinear(counter->src(0));
      if (d <= 0 || d >= kFar || !IsModerate(form)) return false;
      std::optional<Affine> inner = Split(form);
      form.terms.push_back({limit, -d});
      if (!inner.has_value() || !IsModerate(form)) return false;
      affine = *std::move(inner);
      affine.rest.terms.push_back({limit, -d});
      less = is_high;
    }
    return false;
  }

  // k * r + rest == 0, or not.
  bool TakeEquality(const Literal& literal) {
    const std::optional<Difference> difference = DifferenceOf(literal.condition);
    if (!difference.has_value()) return false;
    const Affine& affine = difference->affine;
    const int64_t k = affine.coefficient;
    const bool equal = !literal.holds;  // the condition is a CMPNE
    if (affine.counter != range_ || (k != 1 && k != -1)) {
      // Neither less than 0 nor greater.
      if (!equal || !difference->exact) return false;
      Affine minus_one = affine;
      --minus_one.rest.constant;
      if (!Limit(affine, false) || !Limit(minus_one, true)) return false;
      iterations_.rest.push_back(NodeOf(literal));
      return true;
    }
    UOp* value = k == 1 ? Negated(affine.rest, 0) : Sum(affine.rest);
    UOp*& slot = equal ? iterations_.equal : iterations_.unequal;
    const bool is_first = slot == nullptr;
    if (is_first) slot = value;
    if (!equal || !is_first) iterations_.rest.push_back(NodeOf(literal));
    return equal || slot == value;
  }

  Graph& graph_;
  UOp* range_;
  DependsOn& depends_;
  std::vector<Literal> todo_;
  IterationSet iterations_;
};

}  // namespace

bool DependsOn::operator()(UOp* uop) {
  const auto found = known_.find(uop);
  if (found != known_.end()) return found->second;
  for (UOp* below : Toposort(uop)) {
    bool depends = below == range_;
    for (UOp* source : below->src()) depends |= known_[source];
    known_[below] = depends;
  }
  return known_[uop];
}

std::optional<IterationSet> SolveFor(Graph& graph, UOp* range, DependsOn& depends, absl::Span<UOp* const> conditions) {
  return Solver(graph, range, depends).Run(conditions);
}

}  // namespace kiln::compiler
