#include "compiler/rules/collapse_reduce.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/check.h"
#include "compiler/interp/scalar.h"
#include "compiler/ir/build.h"
#include "compiler/ir/interval.h"
#include "compiler/rules/linear.h"
#include "compiler/rules/loop_condition.h"

namespace kiln::compiler {
namespace {

// Larger bodies, and deeper sums of products, are no masks: they keep their loop.
constexpr size_t kMaxNodes = 2000;
constexpr int kMaxDepth = 12;
constexpr int kMaxTries = 200;

bool IsZero(const UOp* uop) {
  return uop->IsConst() &&
         (IsFloat(uop->dtype()) ? FloatValue(uop->dtype(), uop->arg_as<ConstArg>().bits) == 0 : uop->IsConstInt(0));
}

// Neither infinite nor NaN, whatever it is computed from.
bool IsFinite(const UOp* uop) {
  if (!IsFloat(uop->dtype())) return true;
  if (uop->IsConst()) return std::isfinite(FloatValue(uop->dtype(), uop->arg_as<ConstArg>().bits));
  return uop->op() == Op::CAST && uop->src(0)->dtype() == DType::kBool;
}

// `value` as a product under a mask: `factor` where all conditions hold, else 0.
struct Masked {
  std::vector<UOp*> conditions;
  UOp* factor = nullptr;  // null: 1
  // Some condition is a factor of a product: where it is 0, x * 0 is meant.
  bool by_product = false;
};

bool HasReduce(UOp* uop) {
  const std::vector<UOp*> order = Toposort(uop);
  return std::any_of(order.begin(), order.end(), [](const UOp* node) { return node->op() == Op::REDUCE; });
}

// One reduction over one loop.
class Collapser {
 public:
  Collapser(Graph& graph, Op reduce_op, UOp* range)
      : graph_(graph), reduce_op_(reduce_op), range_(range), size_(range->src(0)), depends_(range) {}

  // The reduction of `value`, or null.
  UOp* Reduce(UOp* value, int depth = 0) {
    if (depth > kMaxDepth || ++tries_ > kMaxTries || size_->bounds().min < 1) return nullptr;
    if (reduce_op_ == Op::MAX || (value->dtype() == DType::kBool && reduce_op_ == Op::ADD))
      return ReduceMax(value, depth);
    return reduce_op_ == Op::ADD ? ReduceAdd(value, depth) : nullptr;
  }

 private:
  bool IsModular(const UOp* value) const { return IsInt(value->dtype()); }

  // -- Iterations of the loop

  UOp* Min(UOp* a, UOp* b) { return Where(graph_, Lt(graph_, a, b), a, b); }
  UOp* Max(UOp* a, UOp* b) { return graph_.Make(Op::MAX, {a, b}); }
  UOp* Minus(UOp* a, UOp* b) { return Add(graph_, a, Mul(graph_, b, Idx(graph_, -1))); }
  UOp* AllOf(absl::Span<UOp* const> conditions) {
    UOp* all = ConstInt(graph_, DType::kBool, 1);
    for (UOp* condition : conditions) all = And(graph_, all, condition);
    return all;
  }
  UOp* IsIteration(UOp* r) { return And(graph_, Not(graph_, Lt(graph_, r, Idx(graph_, 0))), Lt(graph_, r, size_)); }
  UOp* First(const IterationSet& iterations) {
    UOp* first = Idx(graph_, 0);
    for (UOp* low : iterations.lows) first = Max(first, low);
    return first;
  }
  UOp* End(const IterationSet& iterations) {
    UOp* end = size_;
    for (UOp* high : iterations.highs) end = Min(end, high);
    return end;
  }
  // How many iterations there are, gates aside.
  UOp* Count(const IterationSet& iterations) {
    UOp* first = First(iterations);
    UOp* end = End(iterations);
    UOp* count = Max(Minus(end, first), Idx(graph_, 0));
    if (iterations.unequal == nullptr) return count;
    UOp* inside = And(graph_, Not(graph_, Lt(graph_, iterations.unequal, first)), Lt(graph_, iterations.unequal, end));
    return Minus(count, Cast(graph_, inside, kIndexType));
  }

  // -- Values

  UOp* Zero(const UOp* value) { return ConstNumber(graph_, value->dtype(), 0); }
  // count * value; `value` null is 1.
  UOp* Times(UOp* count, UOp* value, DType dtype) {
    UOp* number = Cast(graph_, count, dtype);
    return value == nullptr ? number : Mul(graph_, value, number);
  }

  // `value` in iteration `e` of the loop, where that is an iteration: its loads are gated so.
  UOp* At(UOp* value, UOp* e, UOp* is_iteration) {
    absl::flat_hash_map<UOp*, UOp*> done;
    for (UOp* uop : Toposort(value)) {
      if (!depends_(uop)) {
        done[uop] = uop;
        continue;
      }
      if (uop == range_) {
        done[uop] = e;
        continue;
      }
      std::vector<UOp*> src;
      for (UOp* source : uop->src()) src.push_back(done[source]);
      if (uop->op() == Op::LOAD) {
        if (src.size() < 2) src.push_back(Zero(uop));
        if (src.size() < 3) src.push_back(ConstInt(graph_, DType::kBool, 1));
        src[2] = And(graph_, is_iteration, src[2]);
      }
      done[uop] = graph_.Make(uop->op(), src, uop->arg());
    }
    return done[value];
  }

  // -- Sums

  UOp* ReduceAdd(UOp* value, int depth) {
    if (!depends_(value)) return Times(size_, value, value->dtype());
    switch (value->op()) {
      case Op::ADD:
        if (IsModular(value)) {
          UOp* a = Reduce(value->src(0), depth + 1);
          UOp* b = a == nullptr ? nullptr : Reduce(value->src(1), depth + 1);
          if (b != nullptr) return Add(graph_, a, b);
        }
        return nullptr;
      case Op::MUL:
        for (const size_t side : {0, 1}) {
          if (!IsModular(value) || depends_(value->src(side))) continue;
          UOp* sum = Reduce(value->src(1 - side), depth + 1);
          return sum == nullptr ? nullptr : Mul(graph_, sum, value->src(side));
        }
        break;
      case Op::CAST:
        // Low bits of a sum are the sum of low bits.
        if (IsModular(value) && IsInt(value->src(0)->dtype()) && Bits(value->dtype()) <= Bits(value->src(0)->dtype())) {
          UOp* sum = Reduce(value->src(0), depth + 1);
          if (sum != nullptr) return Cast(graph_, sum, value->dtype());
        }
        break;
      case Op::WHERE:
        if (UOp* sum = ReduceWhere(value, depth)) return sum;
        break;
      default: break;
    }
    UOp* masked = ReduceMasked(value);
    return masked != nullptr ? masked : SumOfAffine(value, {});
  }

  // 0 + 1 + … + (n - 1), or over the iterations alone, where no product wraps.
  UOp* SumOfCounter(const IterationSet& iterations) {
    if (size_->bounds().max > int64_t{1} << 31 || iterations.unequal != nullptr) return nullptr;
    UOp* first = First(iterations);
    UOp* count = Max(Minus(End(iterations), first), Idx(graph_, 0));
    UOp* ends = Add(graph_, Add(graph_, first, End(iterations)), Idx(graph_, -1));
    constexpr int64_t kFar = int64_t{1} << 32;  // times 2^31 is below 2^63
    if (ends->bounds().min < -kFar || ends->bounds().max > kFar || count->bounds().max >= kFar / 2) return nullptr;
    return graph_.Make(Op::FLOORDIV, {Mul(graph_, ends, count), Idx(graph_, 2)});
  }

  // Of k * r + rest over the iterations, low bits alone: k * (sum of r) + rest * count.
  UOp* SumOfAffine(UOp* value, const IterationSet& iterations) {
    UOp* wide = value;
    while (wide->op() == Op::CAST && IsInt(wide->dtype()) && IsInt(wide->src(0)->dtype()) &&
           Bits(wide->dtype()) <= Bits(wide->src(0)->dtype())) {
      wide = wide->src(0);
    }
    if (wide->dtype() != kIndexType) return nullptr;
    LinearForm rest = ToLinear(wide);
    int64_t k = 0;
    std::erase_if(rest.terms, [&](const auto& term) {
      if (term.node == range_) k = term.coefficient;
      return term.node == range_;
    });
    if (std::any_of(rest.terms.begin(), rest.terms.end(), [&](const auto& term) { return depends_(term.node); }))
      return nullptr;
    UOp* counters = SumOfCounter(iterations);
    if (counters == nullptr) return nullptr;
    UOp* sum =
        Add(graph_, Mul(graph_, counters, Idx(graph_, k)), Mul(graph_, FromLinear(graph_, rest), Count(iterations)));
    return Cast(graph_, sum, value->dtype());
  }

  UOp* ReduceWhere(UOp* value, int depth) {
    UOp *condition = value->src(0), *a = value->src(1), *b = value->src(2);
    if (!depends_(condition)) {
      a = Reduce(a, depth + 1);
      b = a == nullptr ? nullptr : Reduce(b, depth + 1);
      return b == nullptr ? nullptr : Where(graph_, condition, a, b);
    }
    if (IsZero(a) || IsZero(b)) return nullptr;  // a mask
    if (!IsModular(value) && !(a->IsConst() && b->IsConst() && IsFinite(a) && IsFinite(b))) return nullptr;
    UOp* zero = Zero(value);
    UOp* where = Reduce(Where(graph_, condition, a, zero), depth + 1);
    UOp* other = where == nullptr ? nullptr : Reduce(Where(graph_, Not(graph_, condition), b, zero), depth + 1);
    return other == nullptr ? nullptr : Add(graph_, where, other);
  }

  UOp* ReduceMasked(UOp* value) {
    Masked masked;
    masked.factor = Strip(value, masked, 0);
    if (masked.conditions.empty()) return nullptr;
    const std::optional<IterationSet> iterations = SolveFor(graph_, range_, depends_, masked.conditions);
    if (!iterations.has_value()) return nullptr;
    UOp* one = ConstNumber(graph_, value->dtype(), 1);
    if (iterations->equal != nullptr) {
      // What a reduction closes must not come into another one, which may close the same.
      if (HasReduce(iterations->equal)) return nullptr;
      UOp* factor = masked.factor == nullptr ? one : masked.factor;
      UOp* in_range = IsIteration(iterations->equal);
      UOp* is_iteration = And(graph_, in_range, At(AllOf(iterations->rest), iterations->equal, in_range));
      return Where(graph_, is_iteration,
                   At(factor, iterations->equal, HasReduce(is_iteration) ? in_range : is_iteration), Zero(value));
    }
    UOp* gate = AllOf(iterations->gates);
    if (masked.factor != nullptr && depends_(masked.factor)) {
      UOp* sum = SumOfAffine(masked.factor, *iterations);
      return sum == nullptr ? nullptr : Where(graph_, gate, sum, Zero(value));
    }
    const bool finite = masked.factor == nullptr || IsFinite(masked.factor);
    if (masked.by_product && !finite) return nullptr;
    UOp* count = Count(*iterations);
    UOp* sum = Times(count, masked.factor, value->dtype());
    if (!finite) gate = And(graph_, gate, Lt(graph_, Idx(graph_, 0), count));  // 0 * inf is no sum of nothing
    return Where(graph_, gate, sum, Zero(value));
  }

  // The factor of `value` without its masks, which go to `masked`; null for 1.
  UOp* Strip(UOp* value, Masked& masked, int depth) {
    if (!depends_(value) || depth > kMaxDepth) return value;
    switch (value->op()) {
      case Op::WHERE:
        if (IsZero(value->src(2))) {
          masked.conditions.push_back(value->src(0));
          return Strip(value->src(1), masked, depth + 1);
        }
        if (!IsZero(value->src(1))) return value;
        masked.conditions.push_back(Not(graph_, value->src(0)));
        return Strip(value->src(2), masked, depth + 1);
      case Op::CAST: {
        if (value->dtype() == DType::kBool) return value;
        if (value->src(0)->dtype() == DType::kBool) {
          masked.conditions.push_back(value->src(0));
          return nullptr;
        }
        UOp* factor = Strip(value->src(0), masked, depth + 1);
        return factor == nullptr ? nullptr : Cast(graph_, factor, value->dtype());
      }
      case Op::MUL: {
        if (value->dtype() == DType::kBool) return value;
        const size_t before = masked.conditions.size();
        UOp* a = Strip(value->src(0), masked, depth + 1);
        UOp* b = Strip(value->src(1), masked, depth + 1);
        if (masked.conditions.size() > before && (a != nullptr || b != nullptr)) masked.by_product = true;
        if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
        return Mul(graph_, a, b);
      }
      case Op::LOAD: {
        if (value->src().size() < 3 || !IsZero(value->src(1))) return value;
        masked.conditions.push_back(value->src(2));
        const UOp* place = value->src(0);
        const Bounds& index = place->src(1)->bounds();
        const bool inside = index.min >= 0 && index.max < place->src(0)->shape()[0].min();
        return inside ? graph_.Make(Op::LOAD, {value->src(0)}) : value;
      }
      default: return value;
    }
  }

  // -- Maxima; of bool, whether any is true.

  UOp* ReduceMax(UOp* value, int depth) {
    if (!depends_(value)) return value;
    UOp* least = Identity(graph_, Op::MAX, value->dtype());
    if (value->dtype() == DType::kBool) {
      if (value->op() == Op::OR || value->op() == Op::ADD || value->op() == Op::MAX) {
        UOp* a = Reduce(value->src(0), depth + 1);
        UOp* b = a == nullptr ? nullptr : Reduce(value->src(1), depth + 1);
        if (b != nullptr) return graph_.Make(Op::OR, {a, b});
      }
      return Choose(value, ConstInt(graph_, DType::kBool, 1), least, least);
    }
    switch (value->op()) {
      case Op::MAX: {
        UOp* a = Reduce(value->src(0), depth + 1);
        UOp* b = a == nullptr ? nullptr : Reduce(value->src(1), depth + 1);
        return b == nullptr ? nullptr : Max(a, b);
      }
      case Op::CAST: {
        // Order is kept from bool to any number.
        if (value->src(0)->dtype() != DType::kBool) return nullptr;
        UOp* any = Reduce(value->src(0), depth + 1);
        return any == nullptr ? nullptr : Cast(graph_, any, value->dtype());
      }
      case Op::WHERE: {
        UOp *condition = value->src(0), *a = value->src(1), *b = value->src(2);
        if (depends_(condition)) return Choose(condition, a, b, least);
        a = Reduce(a, depth + 1);
        b = a == nullptr ? nullptr : Reduce(b, depth + 1);
        return b == nullptr ? nullptr : Where(graph_, condition, a, b);
      }
      default: return nullptr;
    }
  }

  // The greatest of `a` in the iterations where the condition holds and `b` in others.
  UOp* Choose(UOp* condition, UOp* a, UOp* b, UOp* least) {
    if (depends_(b)) {
      std::swap(a, b);
      condition = Not(graph_, condition);
    }
    if (depends_(b)) return nullptr;
    const std::optional<IterationSet> iterations = SolveFor(graph_, range_, depends_, {condition});
    if (!iterations.has_value()) return nullptr;
    if (iterations->equal != nullptr) {
      UOp* is_iteration = And(graph_, IsIteration(iterations->equal),
                              At(AllOf(iterations->rest), iterations->equal, IsIteration(iterations->equal)));
      UOp* there = Where(graph_, is_iteration, At(a, iterations->equal, is_iteration), b);
      if (b == least || size_->bounds().min < 2) return b == least ? there : nullptr;
      return Max(b, there);  // other iterations give b
    }
    if (depends_(a)) return nullptr;
    UOp* count = Count(*iterations);
    UOp* some = And(graph_, AllOf(iterations->gates), Lt(graph_, Idx(graph_, 0), count));
    if (b == least) return Where(graph_, some, a, b);
    UOp* all = Not(graph_, Lt(graph_, count, size_));
    return Where(graph_, some, Where(graph_, all, a, Max(a, b)), b);
  }

  Graph& graph_;
  const Op reduce_op_;
  UOp* const range_;
  UOp* const size_;
  DependsOn depends_;
  int tries_ = 0;
};

}  // namespace

UOp* CollapseReduce(Graph& graph, Rewriter& simplify, Op reduce_op, UOp* value, absl::Span<UOp* const> ranges) {
  std::vector<UOp*> left(ranges.begin(), ranges.end());
  for (size_t i = 0; i < left.size();) {
    UOp* reduced =
        ToposortUpTo(value, kMaxNodes).empty() ? nullptr : Collapser(graph, reduce_op, left[i]).Reduce(value);
    if (reduced == nullptr) {
      ++i;
      continue;
    }
    value = simplify.Rewrite(reduced);
    left.erase(left.begin() + static_cast<int64_t>(i));
    i = 0;  // with one loop gone, others may go
  }
  if (left.empty()) return value;
  std::vector<UOp*> src = {value};
  src.insert(src.end(), left.begin(), left.end());
  return graph.Make(Op::REDUCE, src, ReduceArg{reduce_op, {}});
}

}  // namespace kiln::compiler
