#include <gtest/gtest.h>

#include <limits>

#include "compiler/testing/expression_text.h"

namespace kiln::compiler {
namespace {

struct Row {
  const char* expression;
  int64_t min;
  int64_t max;
};

class BoundsTest : public ::testing::TestWithParam<Row> {};

TEST_P(BoundsTest, Holds) {
  Graph graph;
  const Bounds bounds = testing::ParseExpression(graph, GetParam().expression)->bounds();
  ASSERT_TRUE(bounds.known);
  EXPECT_EQ(static_cast<int64_t>(bounds.min), GetParam().min) << GetParam().expression;
  EXPECT_EQ(static_cast<int64_t>(bounds.max), GetParam().max) << GetParam().expression;
}

constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();

INSTANTIATE_TEST_SUITE_P(
    All, BoundsTest,
    ::testing::Values(Row{"7", 7, 7}, Row{"r8", 0, 7}, Row{"r1", 0, 0}, Row{"x:int8", -128, 127},
                      Row{"x:uint16", 0, 65535}, Row{"b:bool", 0, 1}, Row{"(add r8 r4)", 0, 10},
                      Row{"(add r8 -3)", -3, 4}, Row{"(mul r8 -2)", -14, 0}, Row{"(max r8 3)", 3, 7},
                      Row{"(floordiv r8 3)", 0, 2}, Row{"(floordiv (add r8 -4) 3)", -2, 1},
                      Row{"(cdiv (add r8 -4) 3)", -1, 1}, Row{"(floormod r8 3)", 0, 2}, Row{"(floormod r3 8)", 0, 2},
                      Row{"(cmod (add r8 -4) 3)", -2, 2}, Row{"(and r8 4)", 0, 4}, Row{"(shr r100 2)", 0, 24},
                      Row{"(cmplt r8 8)", 1, 1}, Row{"(cmplt r8 4)", 0, 1}, Row{"(cmpne r8 8)", 1, 1},
                      Row{"(cmpne 2 2)", 0, 0}, Row{"(where b:bool r8 20)", 0, 20}, Row{"(cast:int8 r8)", 0, 7},
                      // What may wrap is anything.
                      Row{"(cast:int8 r300)", -128, 127}, Row{"(add x:int8 1:int8)", -128, 127},
                      Row{"(mul x:int64 2)", kMin, kMax}, Row{"(floordiv r8 x:int64)", kMin, kMax},
                      Row{"(cast:uint8 (add r8 -3))", 0, 255}));

TEST(Bounds, FloatsHaveNone) {
  Graph graph;
  EXPECT_FALSE(testing::ParseExpression(graph, "(add x:float32 1.0:float32)")->bounds().known);
}

}  // namespace
}  // namespace kiln::compiler
