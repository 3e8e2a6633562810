#include "compiler/rules/symbolic.h"

#include <gtest/gtest.h>

#include "compiler/rewrite/rewrite.h"
#include "compiler/testing/expression_text.h"

namespace kiln::compiler {
namespace {

struct Row {
  const char* before;
  const char* after;
};

class SymbolicTest : public ::testing::TestWithParam<Row> {};

TEST_P(SymbolicTest, Rewrites) {
  Graph graph;
  UOp* before = testing::ParseExpression(graph, GetParam().before);
  EXPECT_EQ(testing::ExpressionText(GraphRewrite(before, IdentityRules(), graph)), GetParam().after);
}

INSTANTIATE_TEST_SUITE_P(Folding, SymbolicTest,
                         ::testing::Values(Row{"(add 2 3)", "5"}, Row{"(mul 200:uint8 2:uint8)", "144:uint8"},
                                           Row{"(floordiv -7 2)", "-4"}, Row{"(cdiv -7 2)", "-3"},
                                           Row{"(floormod 5:int32 0:int32)", "5:int32"}, Row{"(cmplt 1 2)", "true"},
                                           Row{"(cast:int8 300)", "44:int8"},
                                           Row{"(cast:int32 2.9:float32)", "2:int32"},
                                           Row{"(add 0.5:float32 0.25:float32)", "0.75:float32"},
                                           Row{"(where true 1 2)", "1"}));

INSTANTIATE_TEST_SUITE_P(Bounds, SymbolicTest,
                         ::testing::Values(Row{"(cmplt r8 8)", "true"}, Row{"(cmplt r8 0)", "false"},
                                           Row{"(cmpne r8 9)", "true"}, Row{"(floordiv r8 8)", "0"}, Row{"r1", "r1"},
                                           Row{"(add r1 3)", "3"}, Row{"(max r8 10)", "10"}));

INSTANTIATE_TEST_SUITE_P(
    Identities, SymbolicTest,
    ::testing::Values(Row{"(add x:int32 0:int32)", "x:int32"}, Row{"(add 0:int32 x:int32)", "x:int32"},
                      Row{"(mul x:float32 1.0:float32)", "x:float32"}, Row{"(mul x:int8 0:int8)", "0:int8"},
                      Row{"(fdiv x:float32 1.0:float32)", "x:float32"}, Row{"(floordiv x:int32 1:int32)", "x:int32"},
                      Row{"(cdiv x:int32 1:int32)", "x:int32"}, Row{"(max x:float32 x:float32)", "x:float32"},
                      Row{"(and x:int32 x:int32)", "x:int32"}, Row{"(or x:int32 x:int32)", "x:int32"},
                      Row{"(and x:bool true)", "x:bool"}, Row{"(and x:bool false)", "false"},
                      Row{"(or false x:bool)", "x:bool"}, Row{"(xor x:int16 0:int16)", "x:int16"},
                      Row{"(cmpne (cmpne x:bool true) true)", "x:bool"}, Row{"(cmpne x:bool false)", "x:bool"},
                      Row{"(trunc x:int32)", "x:int32"}, Row{"(cast:int32 x:int32)", "x:int32"}));

INSTANTIATE_TEST_SUITE_P(Constants, SymbolicTest,
                         ::testing::Values(Row{"(add 3:int32 x:int32)", "(add x:int32 3:int32)"},
                                           Row{"(mul 2.0:float32 x:float32)", "(mul x:float32 2:float32)"},
                                           Row{"(add (add x:int32 3:int32) 4:int32)", "(add x:int32 7:int32)"},
                                           Row{"(mul (mul x:uint8 16:uint8) 16:uint8)", "0:uint8"},
                                           Row{"(add (add x:int8 100:int8) 100:int8)", "(add x:int8 -56:int8)"}));

INSTANTIATE_TEST_SUITE_P(
    Choices, SymbolicTest,
    ::testing::Values(Row{"(where c:bool x:int32 x:int32)", "x:int32"}, Row{"(where false x:int32 y:int32)", "y:int32"},
                      Row{"(where (cmpne c:bool true) x:int32 y:int32)", "(where c:bool y:int32 x:int32)"}));

// What looks like a match and must stay: the same node comes back.
class SymbolicNoChangeTest : public ::testing::TestWithParam<const char*> {};

TEST_P(SymbolicNoChangeTest, Stays) {
  Graph graph;
  UOp* before = testing::ParseExpression(graph, GetParam());
  const size_t size = graph.size();
  EXPECT_EQ(GraphRewrite(before, IdentityRules(), graph), before) << GetParam();
  EXPECT_EQ(graph.size(), size);
}

INSTANTIATE_TEST_SUITE_P(All, SymbolicNoChangeTest,
                         ::testing::Values("(add x:float32 0.0:float32)",                    // -0.0 + 0.0 is 0.0
                                           "(mul x:float32 0.0:float32)",                    // NaN and infinities
                                           "(cmpne x:float32 x:float32)",                    // true for NaN
                                           "(add (add x:float32 1.0:float32) 1.0:float32)",  // rounds twice
                                           "(fdiv x:float32 x:float32)", "(floordiv x:int32 x:int32)",  // 0 / 0 is 0
                                           "(cmpne x:int32 1:int32)", "(max x:int32 y:int32)", "(add x:int32 y:int32)",
                                           "(trunc x:float32)", "(cast:int32 (cast:int8 x:int32))",
                                           "(where c:bool x:int32 y:int32)", "(cmplt r8 4)"));

TEST(Symbolic, AScalarThatIsBroadcastStays) {
  Graph graph;
  UOp* scalar = testing::ParseExpression(graph, "x:int32");
  UOp* row =
      graph.Make(Op::STACK, {testing::ParseExpression(graph, "0:int32"), testing::ParseExpression(graph, "0:int32")});
  UOp* sum = graph.Make(Op::ADD, {scalar, row});
  EXPECT_EQ(GraphRewrite(sum, IdentityRules(), graph)->shape(), Shape{2});
}

TEST(Symbolic, GatesOfMemory) {
  Graph graph;
  UOp* x = testing::ParseExpression(graph, "x:int32");
  UOp* y = testing::ParseExpression(graph, "y:int32");
  UOp* yes = testing::ParseExpression(graph, "true");
  UOp* no = testing::ParseExpression(graph, "false");
  UOp* c = testing::ParseExpression(graph, "c:bool");
  const auto rewrite = [&graph](UOp* uop) { return GraphRewrite(uop, IdentityRules(), graph); };
  EXPECT_EQ(rewrite(graph.Make(Op::LOAD, {x, y, yes})), graph.Make(Op::LOAD, {x}));
  EXPECT_EQ(rewrite(graph.Make(Op::LOAD, {x, y, no})), y);
  EXPECT_EQ(rewrite(graph.Make(Op::STORE, {x, y, yes})), graph.Make(Op::STORE, {x, y}));
  UOp* z = testing::ParseExpression(graph, "z:int32");
  UOp* load = graph.Make(Op::LOAD, {x, y, c});
  EXPECT_EQ(rewrite(graph.Make(Op::WHERE, {c, load, z})), graph.Make(Op::LOAD, {x, z, c}));
  // An alternative of more elements than the memory cannot become the LOAD's.
  UOp* wide = graph.Make(Op::WHERE, {c, load, graph.Make(Op::STACK, {z, x})});
  EXPECT_EQ(rewrite(wide), wide);
  UOp* gated = graph.Make(Op::STORE, {x, y, c});
  EXPECT_EQ(rewrite(gated), gated);
}

}  // namespace
}  // namespace kiln::compiler
