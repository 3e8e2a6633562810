#include <gtest/gtest.h>

#include "compiler/ir/build.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/symbolic.h"
#include "compiler/testing/expression_text.h"
#include "compiler/testing/z3_oracle.h"

namespace kiln::compiler {
namespace {

struct Row {
  const char* before;
  const char* after;
};

class ChoicesTest : public ::testing::TestWithParam<Row> {};

TEST_P(ChoicesTest, Rewrites) {
  Graph graph;
  UOp* before = testing::ParseExpression(graph, GetParam().before);
  UOp* after = GraphRewrite(before, SymbolicRules(), graph);
  EXPECT_EQ(testing::ExpressionText(after), GetParam().after);
  const testing::Verdict verdict = testing::ProveEqual(before, after);
  EXPECT_TRUE(verdict.kind == testing::Verdict::kProved || verdict.kind == testing::Verdict::kNotAsked) << verdict.why;
}

INSTANTIATE_TEST_SUITE_P(Conditions, ChoicesTest,
                         ::testing::Values(Row{"(and (and a:bool b:bool) a:bool)", "(and a:bool b:bool)"},
                                           Row{"(and (and a:bool b:bool) (cmpne b:bool true))", "false"},
                                           Row{"(or a:bool (or a:bool b:bool))", "(or a:bool b:bool)"},
                                           Row{"(or (cmpne a:bool true) a:bool)", "true"},
                                           Row{"(or a:bool true)", "true"},
                                           Row{"(cmpne (cast:int32 a:bool) 0:int32)", "a:bool"},
                                           Row{"(cmpne (cast:int32 a:bool) 1:int32)", "(cmpne a:bool true)"},
                                           Row{"(cmpne (cast:int32 a:bool) 2:int32)", "true"},
                                           Row{"(cmplt (cast:float32 a:bool) 1.0:float32)", "(cmpne a:bool true)"},
                                           Row{"(cmplt 0:int8 (cast:int8 a:bool))", "a:bool"}));

INSTANTIATE_TEST_SUITE_P(
    Choices, ChoicesTest,
    ::testing::Values(
        Row{"(where c:bool true false)", "c:bool"}, Row{"(where c:bool false true)", "(cmpne c:bool true)"},
        Row{"(where c:bool x:bool false)", "(and c:bool x:bool)"},
        Row{"(where c:bool true x:bool)", "(or c:bool x:bool)"},
        Row{"(where c:bool false x:bool)", "(and (cmpne c:bool true) x:bool)"},
        Row{"(where c:bool (where c:bool x:int8 y:int8) z:int8)", "(where c:bool x:int8 z:int8)"},
        Row{"(where c:bool x:int8 (where c:bool y:int8 z:int8))", "(where c:bool x:int8 z:int8)"},
        Row{"(where c:bool (where d:bool x:int8 y:int8) y:int8)", "(where (and c:bool d:bool) x:int8 y:int8)"},
        Row{"(where c:bool x:int8 (where d:bool x:int8 y:int8))", "(where (or c:bool d:bool) x:int8 y:int8)"},
        Row{"(max r8 -2)", "r8"}, Row{"(max r8 (add r4 20))", "(add r4 20)"},
        Row{"(max (max x:int8 3:int8) 5:int8)", "(max x:int8 5:int8)"}));

INSTANTIATE_TEST_SUITE_P(
    Digits, ChoicesTest,
    ::testing::Values(
        Row{"(where (cmplt 0 r2) 4:int32 0:int32)", "(cast:int32 (mul r2 4))"},
        Row{"(where (cmplt 0 r3) 4:int32 0:int32)", "(where (cmplt 0 r3) 4:int32 0:int32)"},
        Row{"(where (cmplt 0 r2) 4.0:float32 0.0:float32)", "(where (cmplt 0 r2) 4:float32 0:float32)"},
        Row{"(add (add (where (cmplt 0 (floormod r8 2)) 1:int32 0:int32) (where (cmplt 0 (floormod (floordiv r8 2) 2)) "
            "2:int32 0:int32)) (where (cmplt 0 (floordiv r8 4)) 4:int32 0:int32))",
            "(cast:int32 r8)"}));

INSTANTIATE_TEST_SUITE_P(Conversions, ChoicesTest,
                         ::testing::Values(Row{"(cast:int8 (cast:int16 x:int64))", "(cast:int8 x:int64)"},
                                           Row{"(cast:int64 (cast:int32 r8))", "r8"},
                                           Row{"(cast:float32 (cast:int32 x:bool))", "(cast:float32 x:bool)"},
                                           Row{"(add (cast:int32 r8) -1:int32)", "(cast:int32 (add r8 -1))"},
                                           Row{"(add (cast:int32 r8) (cast:int32 r4))", "(cast:int32 (add r8 r4))"},
                                           Row{"(floordiv (cast:int8 r100) 8:int8)", "(cast:int8 (floordiv r100 8))"},
                                           Row{"(cmplt (cast:int32 r8) 3:int32)", "(cmplt r8 3)"},
                                           Row{"(cmpne (cast:uint8 r8) (cast:uint8 r4))", "(cmpne r8 r4)"}));

// Behind a gate, indices are what the gate leaves of them.
INSTANTIATE_TEST_SUITE_P(Given, ChoicesTest,
                         ::testing::Values(Row{"(where (cmplt r8 4) (floormod r8 4) 9)", "(where (cmplt r8 4) r8 9)"},
                                           Row{"(where (cmplt r8 4) 9 (floordiv r8 4))", "(where (cmplt r8 4) 9 1)"},
                                           Row{"(where (cmplt (add r8 r4) 8) (floormod (add r8 r4) 8) 0)",
                                               "(where (cmplt (add r8 r4) 8) (add r8 r4) 0)"},
                                           Row{"(where (cmpne r8 5) 1 (floormod r8 4))", "1"},
                                           Row{"(and (cmplt r8 4) (cmplt r8 6))", "(cmplt r8 4)"},
                                           Row{"(and (cmplt r8 6) (cmplt r8 4))", "(cmplt r8 4)"},
                                           Row{"(and (cmplt r8 4) (cmpne (cmplt r8 5) true))", "false"},
                                           Row{"(and (and a:bool (cmplt r8 4)) (cmpne r8 6))",
                                               "(and a:bool (cmplt r8 4))"}));

class ChoicesNoChangeTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ChoicesNoChangeTest, Stays) {
  Graph graph;
  UOp* before = testing::ParseExpression(graph, GetParam());
  EXPECT_EQ(GraphRewrite(before, SymbolicRules(), graph), before) << GetParam();
}

INSTANTIATE_TEST_SUITE_P(All, ChoicesNoChangeTest,
                         ::testing::Values("(where c:bool (where d:bool x:int8 y:int8) z:int8)", "(max x:int8 y:int8)",
                                           "(max x:float32 -1.0:float32)",
                                           "(cast:int64 (cast:int8 x:int64))",    // bits are lost between
                                           "(cast:int8 (cast:float32 x:int32))",  // rounds, and saturates
                                           "(cast:float32 (cast:bool x:float32))",
                                           "(add (cast:int32 x:int64) -1:int32)",  // data
                                           "(cmplt (cast:int8 r300) 3:int8)",      // may wrap
                                           "(where (cmplt r8 4) (floormod r8 3) 9)",
                                           "(where (cmplt x:float32 1.0:float32) r8 9)",
                                           // The sum may wrap, so the gate says nothing about it.
                                           "(where (cmplt (add x:int64 8) 4) (floormod x:int64 4) 9)",
                                           "(and (cmplt r8 4) (cmplt r4 2))"));

// The number of a loop's iterations is settled where the loop begins.
TEST(Given, LoopsKeepTheirBounds) {
  Graph graph;
  UOp* r8 = testing::ParseExpression(graph, "r8");
  UOp* iterations = testing::ParseExpression(graph, "(floormod r8 6)");
  UOp* loop = graph.Make(Op::RANGE, {iterations}, RangeArg{7, AxisType::kLoop});
  UOp* root = And(graph, Lt(graph, loop, Idx(graph, 3)), Lt(graph, r8, Idx(graph, 5)));
  EXPECT_EQ(GraphRewrite(root, SymbolicRules(), graph), root);
}

}  // namespace
}  // namespace kiln::compiler
