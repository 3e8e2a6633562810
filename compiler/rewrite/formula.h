// Writing what a rule builds as one writes mathematics:
//
//   const Formula z = r * r;
//   return r + r * z * Polynomial(z, kSin);
//
// A Formula is a node with C++'s operators. A number beside one takes its dtype.
// As everywhere in the IR, integers wrap, SHR is arithmetic on signed, and there
// is no subtraction: a - b is a + b * -1, which is exact.
#ifndef KILN_COMPILER_REWRITE_FORMULA_H_
#define KILN_COMPILER_REWRITE_FORMULA_H_

#include <type_traits>

#include "absl/types/span.h"
#include "compiler/ir/build.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

class Formula {
 public:
  Formula(Graph& graph, UOp* uop) : graph_(&graph), uop_(uop) {}

  Graph& graph() const { return *graph_; }
  UOp* uop() const { return uop_; }
  DType dtype() const { return uop_->dtype(); }

  // A constant of this dtype. Integers wrap, floats round.
  template <typename T>
  Formula Like(T value) const {
    if constexpr (std::is_integral_v<T>) {
      if (!IsFloat(dtype())) return {*graph_, ConstInt(*graph_, dtype(), static_cast<int64_t>(value))};
    }
    return {*graph_, ConstNumber(*graph_, dtype(), static_cast<double>(value))};
  }

  Formula As(DType dtype) const { return {*graph_, Cast(*graph_, uop_, dtype)}; }         // CAST
  Formula BitsAs(DType dtype) const { return {*graph_, Bitcast(*graph_, uop_, dtype)}; }  // BITCAST

 private:
  Graph* graph_;
  UOp* uop_;
};

inline Formula Apply(Op op, Formula a, Formula b) { return {a.graph(), a.graph().Make(op, {a.uop(), b.uop()})}; }

#define KILN_FORMULA_OPERATOR(symbol, OP)                                              \
  inline Formula operator symbol(Formula a, Formula b) { return Apply(Op::OP, a, b); } \
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>          \
  Formula operator symbol(Formula a, T b) {                                            \
    return Apply(Op::OP, a, a.Like(b));                                                \
  }                                                                                    \
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>          \
  Formula operator symbol(T a, Formula b) {                                            \
    return Apply(Op::OP, b.Like(a), b);                                                \
  }
KILN_FORMULA_OPERATOR(+, ADD)
KILN_FORMULA_OPERATOR(*, MUL)
KILN_FORMULA_OPERATOR(/, FDIV)
KILN_FORMULA_OPERATOR(<, CMPLT)
KILN_FORMULA_OPERATOR(!=, CMPNE)
KILN_FORMULA_OPERATOR(&, AND)
KILN_FORMULA_OPERATOR(|, OR)
KILN_FORMULA_OPERATOR(^, XOR)
KILN_FORMULA_OPERATOR(<<, SHL)
KILN_FORMULA_OPERATOR(>>, SHR)
#undef KILN_FORMULA_OPERATOR

inline Formula operator!(Formula a) { return a != 1; }  // of bool
inline Formula operator-(Formula a) { return a * -1; }
inline Formula operator-(Formula a, Formula b) { return a + -b; }
template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
Formula operator-(Formula a, T b) {
  return a + a.Like(-b);
}
template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
Formula operator-(T a, Formula b) {
  return a + -b;
}
inline Formula IsEqual(Formula a, Formula b) { return !(a != b); }
template <typename T>
Formula IsEqual(Formula a, T b) {
  return !(a != b);
}

inline Formula Where(Formula condition, Formula a, Formula b) {
  return {a.graph(), Where(a.graph(), condition.uop(), a.uop(), b.uop())};
}
inline Formula Trunc(Formula x) { return {x.graph(), x.graph().Make(Op::TRUNC, {x.uop()})}; }

// c[0] + x * (c[1] + x * (c[2] + …))
inline Formula Polynomial(Formula x, absl::Span<const double> c) {
  Formula sum = x.Like(c.back());
  for (size_t i = c.size() - 1; i-- > 0;) sum = sum * x + c[i];
  return sum;
}

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_REWRITE_FORMULA_H_
