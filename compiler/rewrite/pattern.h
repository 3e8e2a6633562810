// Patterns over UOps, and rules made of them: the way to write a pass as data.
//
//   constexpr Var x{0};
//   RULE("x * 1 -> x", Mul(x, Number(1)), [](const Match& m, Graph&) { return m[x]; })
//
// The name is the rule: it shows in dumps, counters and tests. The body may
// return nullptr to say that the rule does not apply after all; nor does it where
// it returns another shape, such as a scalar that its partner broadcast. Operands
// of a commutative op match in either order.
#ifndef KILN_COMPILER_REWRITE_PATTERN_H_
#define KILN_COMPILER_REWRITE_PATTERN_H_

#include <array>
#include <initializer_list>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

inline constexpr int kMaxVars = 8;

// A name that a pattern binds. The same Var twice must bind the same node.
struct Var {
  int index;
};

// What a pattern bound.
class Match {
 public:
  UOp* operator[](Var var) const { return bound_[var.index]; }
  // The node that the whole pattern matched.
  UOp* root() const { return root_; }

 private:
  friend class Pattern;
  friend class RuleSet;
  std::array<UOp*, kMaxVars> bound_ = {};
  UOp* root_ = nullptr;
};

class Pattern {
 public:
  using Predicate = bool (*)(const UOp*);

  // Any node, bound to `var`.
  Pattern(Var var) : var_(var.index) {}  // NOLINT: a Var is a pattern

  // `op` over exactly these sources.
  static Pattern Of(Op op, std::initializer_list<Pattern> src);
  // `op` over any sources.
  static Pattern Any(Op op);
  // A CONST that is not Invalid.
  static Pattern Constant();

  // The same, bound to `var` as well.
  Pattern As(Var var) const;
  // The same, if the node also satisfies `predicate`. A pattern has one: Number()
  // and Constant() have theirs.
  Pattern If(Predicate predicate) const;

  bool Matches(UOp* uop, Match& match) const;

  Op op() const { return op_; }
  bool has_op() const { return has_op_; }

 private:
  Pattern() = default;

  bool MatchSources(UOp* uop, Match& match) const;

  bool has_op_ = false;
  bool fixed_sources_ = false;
  Op op_ = Op::CONST;
  int var_ = -1;
  Predicate predicate_ = nullptr;
  std::vector<Pattern> src_;
};

// A CONST whose value, as a number of its dtype, is `value` (0, 1 and -1 only).
Pattern Number(int value);

struct Rule {
  using Body = UOp* (*)(const Match&, Graph&);
  absl::string_view name;
  Pattern pattern;
  Body body;
};

#define RULE(name, pattern, body) \
  ::kiln::compiler::Rule { name, pattern, body }

// Rules, indexed by the op at the pattern's root. Sets add up.
class RuleSet {
 public:
  explicit RuleSet(std::vector<Rule> rules);
  static RuleSet Join(std::initializer_list<const RuleSet*> sets);

  // The replacement by the first rule that applies, or nullptr. If `applied`
  // is given it gets the rule.
  UOp* Apply(UOp* uop, Graph& graph, const Rule** applied = nullptr) const;

  const std::vector<Rule>& rules() const { return rules_; }

 private:
  std::vector<Rule> rules_;
  std::array<std::vector<uint16_t>, 256> by_op_;
};

// -- Short names for patterns of elementwise ops.
#define KILN_PATTERN_BINARY(Name, OP) \
  inline Pattern Name(Pattern a, Pattern b) { return Pattern::Of(Op::OP, {std::move(a), std::move(b)}); }
KILN_PATTERN_BINARY(PAdd, ADD)
KILN_PATTERN_BINARY(PMul, MUL)
KILN_PATTERN_BINARY(PMax, MAX)
KILN_PATTERN_BINARY(PAnd, AND)
KILN_PATTERN_BINARY(POr, OR)
KILN_PATTERN_BINARY(PXor, XOR)
KILN_PATTERN_BINARY(PLt, CMPLT)
KILN_PATTERN_BINARY(PNe, CMPNE)
KILN_PATTERN_BINARY(PFloorDiv, FLOORDIV)
KILN_PATTERN_BINARY(PFloorMod, FLOORMOD)
KILN_PATTERN_BINARY(PCDiv, CDIV)
KILN_PATTERN_BINARY(PCMod, CMOD)
#undef KILN_PATTERN_BINARY
inline Pattern PWhere(Pattern c, Pattern a, Pattern b) {
  return Pattern::Of(Op::WHERE, {std::move(c), std::move(a), std::move(b)});
}
inline Pattern PCast(Pattern a) { return Pattern::Of(Op::CAST, {std::move(a)}); }

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_REWRITE_PATTERN_H_
