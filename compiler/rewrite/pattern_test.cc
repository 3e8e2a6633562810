#include "compiler/rewrite/pattern.h"

#include <gtest/gtest.h>

#include "compiler/ir/build.h"
#include "compiler/testing/expression_text.h"

namespace kiln::compiler {
namespace {

constexpr Var x{0}, y{1}, c{2};

class PatternTest : public ::testing::Test {
 protected:
  UOp* Parse(const char* text) { return testing::ParseExpression(graph_, text); }
  // Whether it matches, and what it bound in match_.
  bool Matches(const Pattern& pattern, UOp* uop) {
    match_ = Match();
    return pattern.Matches(uop, match_);
  }
  Graph graph_;
  Match match_;
};

TEST_F(PatternTest, BindsOperands) {
  ASSERT_TRUE(Matches(PFloorDiv(x, y), Parse("(floordiv r8 3)")));
  EXPECT_EQ(match_[x], Parse("r8"));
  EXPECT_EQ(match_[y], Parse("3"));
  EXPECT_FALSE(Matches(PFloorMod(x, y), Parse("(floordiv r8 3)")));
}

TEST_F(PatternTest, CommutativeOpsMatchInEitherOrder) {
  ASSERT_TRUE(Matches(PAdd(Pattern::Constant().As(c), x), Parse("(add r8 3)")));
  EXPECT_EQ(match_[c], Parse("3"));
  EXPECT_EQ(match_[x], Parse("r8"));
  EXPECT_FALSE(Matches(PLt(Pattern::Constant(), x), Parse("(cmplt r8 3)")));
}

TEST_F(PatternTest, TheFirstOrderThatFailsBindsNothing) {
  // x binds r8 in the first attempt, which then fails.
  ASSERT_TRUE(Matches(PAdd(x, PMul(x, y)), Parse("(add (mul r4 2) r4)")));
  EXPECT_EQ(match_[x], Parse("r4"));
}

TEST_F(PatternTest, TheSameVarIsTheSameNode) {
  EXPECT_TRUE(Matches(PMax(x, x), Parse("(max r8 r8)")));
  EXPECT_FALSE(Matches(PMax(x, x), Parse("(max r8 r4)")));
}

TEST_F(PatternTest, NumbersOfEveryDType) {
  EXPECT_TRUE(Matches(Number(1), Parse("1")));
  EXPECT_TRUE(Matches(Number(1), Parse("true")));
  EXPECT_TRUE(Matches(Number(1), Parse("1.0:float16")));
  EXPECT_TRUE(Matches(Number(-1), Parse("255:uint8")));
  EXPECT_TRUE(Matches(Number(0), Parse("0.0:float64")));
  EXPECT_FALSE(Matches(Number(0), Parse("-0.0:float64")));
  EXPECT_FALSE(Matches(Number(1), Parse("2")));
  EXPECT_FALSE(Matches(Number(1), Parse("r8")));
}

TEST_F(PatternTest, InvalidIsNoConstant) {
  UOp* invalid = graph_.Make(Op::CONST, {}, ConstArg{DType::kInt32, 0, true});
  EXPECT_FALSE(Matches(Pattern::Constant(), invalid));
  EXPECT_FALSE(Matches(Number(0), invalid));
  EXPECT_TRUE(Matches(Pattern::Any(Op::CONST), invalid));
}

TEST_F(PatternTest, PredicatesAndSourceCounts) {
  const auto is_int = [](const UOp* uop) { return IsInt(uop->dtype()); };
  EXPECT_TRUE(Matches(Pattern(x).If(is_int), Parse("r8")));
  EXPECT_FALSE(Matches(Pattern(x).If(is_int), Parse("a:bool")));
  EXPECT_FALSE(Matches(Pattern::Of(Op::ADD, {x}), Parse("(add r8 r4)")));
  EXPECT_TRUE(Matches(Pattern::Any(Op::ADD), Parse("(add r8 r4)")));
}

TEST_F(PatternTest, RuleSetTakesTheFirstRuleThatApplies) {
  const RuleSet rules({
      RULE("never", PAdd(x, y), ([](const Match&, Graph&) -> UOp* { return nullptr; })),
      RULE("itself", PAdd(x, y), ([](const Match& m, Graph&) -> UOp* { return m.root(); })),
      RULE("another shape", PAdd(x, y), ([](const Match& m, Graph& g) -> UOp* { return g.Make(Op::STACK, {m[y]}); })),
      RULE("left", PAdd(x, y), ([](const Match& m, Graph&) -> UOp* { return m[x]; })),
      RULE("right", PAdd(x, y), ([](const Match& m, Graph&) -> UOp* { return m[y]; })),
  });
  const Rule* applied = nullptr;
  EXPECT_EQ(rules.Apply(Parse("(add r8 r4)"), graph_, &applied), Parse("r8"));
  ASSERT_NE(applied, nullptr);
  EXPECT_EQ(applied->name, "left");
  EXPECT_EQ(rules.Apply(Parse("(mul r8 r4)"), graph_), nullptr);
  EXPECT_EQ(RuleSet::Join({&rules, &rules}).rules().size(), 10u);
}

}  // namespace
}  // namespace kiln::compiler
