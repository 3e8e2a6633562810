#include "compiler/rewrite/rewrite.h"

#include <gtest/gtest.h>

#include "compiler/ir/build.h"
#include "compiler/testing/expression_text.h"

namespace kiln::compiler {
namespace {

constexpr Var x{0}, y{1};

// x // y -> x + y, a rule whose result is looked at again; and x + x -> x.
const RuleSet& Rules() {
  static const RuleSet& rules = *new RuleSet({
      RULE("x // y -> x + y", PFloorDiv(x, y), ([](const Match& m, Graph& g) -> UOp* { return Add(g, m[x], m[y]); })),
      RULE("x + x -> x", PAdd(x, x), ([](const Match& m, Graph&) -> UOp* { return m[x]; })),
  });
  return rules;
}

TEST(GraphRewrite, ReplacementsAreRewrittenInTurn) {
  Graph graph;
  UOp* root = testing::ParseExpression(graph, "(mul (floordiv r8 r8) r4)");
  EXPECT_EQ(testing::ExpressionText(GraphRewrite(root, Rules(), graph)), "(mul r8 r4)");
}

TEST(GraphRewrite, SourcesComeFirst) {
  Graph graph;
  UOp* root = testing::ParseExpression(graph, "(add (floordiv r8 r8) r8)");
  EXPECT_EQ(testing::ExpressionText(GraphRewrite(root, Rules(), graph)), "r8");
}

TEST(GraphRewrite, NothingToDoGivesTheSameNode) {
  Graph graph;
  UOp* root = testing::ParseExpression(graph, "(mul (add r8 r4) (add r8 r4))");
  const size_t size = graph.size();
  EXPECT_EQ(GraphRewrite(root, Rules(), graph), root);
  EXPECT_EQ(graph.size(), size);
}

TEST(GraphRewrite, DepthCostsNoStack) {
  Graph graph;
  UOp* root = testing::ParseExpression(graph, "r8");
  for (int i = 0; i < 200'000; ++i) root = graph.Make(Op::MUL, {root, Idx(graph, 3)});
  UOp* deep = graph.Make(Op::FLOORDIV, {root, root});
  EXPECT_EQ(GraphRewrite(deep, Rules(), graph), root);
}

TEST(Rewriter, RemembersAcrossCalls) {
  Graph graph;
  Rewriter rewriter(Rules(), graph);
  UOp* quotient = testing::ParseExpression(graph, "(floordiv r8 r8)");
  UOp* first = rewriter.Rewrite(quotient);
  EXPECT_EQ(rewriter.Rewrite(quotient), first);
  EXPECT_EQ(rewriter.Rewrite(graph.Make(Op::MUL, {quotient, first})), graph.Make(Op::MUL, {first, first}));
}

TEST(Substitute, ReplacesAndRebuildsAbove) {
  Graph graph;
  UOp* root = testing::ParseExpression(graph, "(mul (add r8 1) (add r4 r8))");
  UOp* r8 = testing::ParseExpression(graph, "r8");
  UOp* sum = testing::ParseExpression(graph, "(add r8 2)");
  EXPECT_EQ(testing::ExpressionText(Substitute(root, {{r8, sum}}, graph)),
            "(mul (add (add r8 2) 1) (add r4 (add r8 2)))");
}

TEST(Substitute, NothingInsideAReplacementIsReplaced) {
  Graph graph;
  UOp* root = testing::ParseExpression(graph, "(add r8 r4)");
  UOp* r8 = testing::ParseExpression(graph, "r8");
  UOp* r4 = testing::ParseExpression(graph, "r4");
  EXPECT_EQ(testing::ExpressionText(Substitute(root, {{r8, r4}, {r4, r8}}, graph)), "(add r4 r8)");
}

TEST(Substitute, WithoutMatchIsTheSameNode) {
  Graph graph;
  UOp* root = testing::ParseExpression(graph, "(add r8 r4)");
  EXPECT_EQ(Substitute(root, {{testing::ParseExpression(graph, "r5"), root}}, graph), root);
}

}  // namespace
}  // namespace kiln::compiler
