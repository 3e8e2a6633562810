#include <gtest/gtest.h>

#include "compiler/ir/build.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/linear.h"
#include "compiler/rules/symbolic.h"
#include "compiler/testing/expression_text.h"
#include "compiler/testing/z3_oracle.h"

namespace kiln::compiler {
namespace {

struct Row {
  const char* before;
  const char* after;
};

class DivModTest : public ::testing::TestWithParam<Row> {};

TEST_P(DivModTest, Rewrites) {
  Graph graph;
  UOp* before = testing::ParseExpression(graph, GetParam().before);
  UOp* after = GraphRewrite(before, SymbolicRules(), graph);
  EXPECT_EQ(testing::ExpressionText(after), GetParam().after);
  const testing::Verdict verdict = testing::ProveEqual(before, after);
  EXPECT_TRUE(verdict.kind == testing::Verdict::kProved || verdict.kind == testing::Verdict::kNotAsked) << verdict.why;
}

INSTANTIATE_TEST_SUITE_P(Sums, DivModTest,
                         ::testing::Values(Row{"(add r8 r8)", "(mul r8 2)"}, Row{"(add (mul r8 3) (mul r8 -3))", "0"},
                                           Row{"(add (add r8 1) (add r4 2))", "(add (add r8 r4) 3)"},
                                           Row{"(add (mul (floordiv r24 6) 6) (floormod r24 6))", "r24"},
                                           Row{"(add (mul (floormod (floordiv r24 2) 4) 2) (floormod r24 2))",
                                               "(floormod r24 8)"}));

INSTANTIATE_TEST_SUITE_P(
    Remainders, DivModTest,
    ::testing::Values(Row{"(floormod r8 8)", "r8"}, Row{"(floormod (add r8 16) 8)", "r8"},
                      Row{"(floormod (add (mul r4 8) r8) 8)", "r8"}, Row{"(floormod (mul r7 12) 4)", "0"},
                      Row{"(floormod (floormod r100 12) 4)", "(floormod r100 4)"},
                      Row{"(floormod (add (mul r10 4) r4) 8)", "(add (mul (floormod r10 2) 4) r4)"}));

INSTANTIATE_TEST_SUITE_P(Quotients, DivModTest,
                         ::testing::Values(Row{"(floordiv r8 8)", "0"}, Row{"(floordiv (add (mul r4 8) r8) 8)", "r4"},
                                           Row{"(floordiv (mul r7 12) 4)", "(mul r7 3)"},
                                           Row{"(floordiv (floordiv r100 3) 4)", "(floordiv r100 12)"},
                                           Row{"(floordiv (add (mul r10 4) r4) 8)", "(floordiv r10 2)"},
                                           // Minus twice the divisor is no int64.
                                           Row{"(floordiv (add r8 -9000000000000000000) 7896707455405512218)", "-2"},
                                           Row{"(floormod (add r8 -9000000000000000000) 7896707455405512218)",
                                               "(add r8 6793414910811024436)"}));

INSTANTIATE_TEST_SUITE_P(
    Comparisons, DivModTest,
    ::testing::Values(Row{"(cmplt (add r8 3) 5)", "(cmplt r8 2)"}, Row{"(cmplt (mul r8 4) 9)", "(cmplt r8 3)"},
                      Row{"(cmplt (add (mul r8 6) (mul r4 -4)) 9)", "(cmplt (add (mul r8 3) (mul r4 -2)) 5)"},
                      Row{"(cmplt (floordiv r100 7) 3)", "(cmplt r100 21)"},
                      Row{"(cmpne (add r8 3) 5)", "(cmpne r8 2)"},
                      Row{"(cmpne (add x:int64 3) 5)", "(cmpne x:int64 2)"},
                      Row{"(cmpne (add (mul r8 6) (mul r4 4)) 10)", "(cmpne (add (mul r8 3) (mul r4 2)) 5)"},
                      Row{"(cmpne (add (mul r8 6) (mul r4 4)) 9)", "true"}, Row{"(cmplt (add r8 3) 3)", "false"},
                      Row{"(cmplt (add r8 -8) 0)", "true"}));

// What is left of a vector's sum may be a scalar: then it has to stay a vector.
TEST(DivMod, LanesThatCancelStayLanes) {
  Graph graph;
  auto parse = [&](const char* text) { return testing::ParseExpression(graph, text); };
  UOp* lanes = graph.Make(Op::STACK, {parse("r8"), parse("r8a")});
  UOp* sum = Add(graph, Mul(graph, lanes, Idx(graph, 4)), parse("r4"));
  for (UOp* before :
       {graph.Make(Op::FLOORMOD, {sum, Idx(graph, 4)}), Add(graph, sum, Mul(graph, lanes, Idx(graph, -4))),
        graph.Make(Op::CMPNE, {Mul(graph, lanes, Idx(graph, 4)), Idx(graph, 3)})}) {
    EXPECT_EQ(GraphRewrite(before, SymbolicRules(), graph)->shape(), Shape{2});
  }
}

class DivModNoChangeTest : public ::testing::TestWithParam<const char*> {};

TEST_P(DivModNoChangeTest, Stays) {
  Graph graph;
  UOp* before = testing::ParseExpression(graph, GetParam());
  const size_t size = graph.size();
  EXPECT_EQ(GraphRewrite(before, SymbolicRules(), graph), before) << GetParam();
  EXPECT_EQ(graph.size(), size);
}

INSTANTIATE_TEST_SUITE_P(All, DivModNoChangeTest,
                         ::testing::Values("(floormod r8 3)", "(floordiv r8 3)", "(floormod r8 x:int64)",
                                           "(floordiv (add (mul x:int64 8) r8) 8)",  // the sum may wrap
                                           "(floormod (add x:int64 8) 12)", "(cmplt (add x:int64 3) 5)",
                                           "(cmplt (mul x:int64 2) 5)", "(cmpne (mul x:int64 2) 5)",
                                           "(cmplt (floordiv x:int32 7:int32) 3:int32)", "(add x:int32 y:int32)",
                                           "(floormod x:int32 8:int32)", "(cmplt r8 3)"));

TEST(LinearForm, SumsOfProducts) {
  Graph graph;
  UOp* sum = testing::ParseExpression(graph, "(add (mul (add r8 2) 3) (add r4 (mul r8 -1)))");
  const LinearForm form = ToLinear(sum);
  EXPECT_EQ(form.constant, 6);
  ASSERT_EQ(form.terms.size(), 2u);
  EXPECT_TRUE(form.Range().min == 6 && form.Range().max == 6 + 2 * 7 + 3);
  EXPECT_EQ(testing::ExpressionText(FromLinear(graph, form)), "(add (add (mul r8 2) r4) 6)");
}

TEST(LinearForm, EqualSumsAreEqualNodes) {
  Graph graph;
  UOp* a = testing::ParseExpression(graph, "(add (add r8 r4) 1)");
  UOp* b = testing::ParseExpression(graph, "(add 1 (add r4 r8))");
  EXPECT_EQ(FromLinear(graph, ToLinear(a)), FromLinear(graph, ToLinear(b)));
}

TEST(LinearForm, RangeIsExactBeyondInt64) {
  Graph graph;
  const LinearForm form = ToLinear(testing::ParseExpression(graph, "(add (mul x:int64 4) (mul x:int64 4))"));
  ASSERT_EQ(form.terms.size(), 1u);
  EXPECT_EQ(form.terms[0].coefficient, 8);
  EXPECT_TRUE(form.Range().max == (static_cast<__int128>(1) << 66) - 8);
}

}  // namespace
}  // namespace kiln::compiler
