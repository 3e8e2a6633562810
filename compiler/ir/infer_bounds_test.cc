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
                      // What may wrap is anything, unless all of it wraps alike.
                      Row{"(cast:int8 r300)", -128, 127}, Row{"(add x:int8 1:int8)", -128, 127},
                      Row{"(mul x:int64 2)", kMin, kMax}, Row{"(floordiv r8 x:int64)", -7, 7},
                      Row{"(cast:uint8 (add r8 -3))", 0, 255}, Row{"(cast:uint8 (add r8 256))", 0, 7},
                      Row{"(cast:int8 (add r8 250))", -6, 1}, Row{"(cast:uint8 (add r8 -9))", 247, 254},
                      Row{"(add (cast:uint8 r4) 255:uint8)", 0, 255}, Row{"(add (cast:uint8 r2) 255:uint8)", 0, 255},
                      Row{"(mul (cast:uint8 r2) 255:uint8)", 0, 255}));

// Divisors of any sign, and of both; 0 gives 0, or the dividend.
INSTANTIATE_TEST_SUITE_P(
    Division, BoundsTest,
    ::testing::Values(Row{"(floordiv r8 -3)", -3, 0}, Row{"(floordiv r8 0)", 0, 0}, Row{"(floordiv r100 r8)", 0, 99},
                      Row{"(floordiv r100 (add r8 -4))", -99, 99}, Row{"(floordiv r100 (add r8 2))", 0, 49},
                      Row{"(cdiv (add r8 -4) -3)", -1, 1}, Row{"(cdiv (add r8 -4) r3)", -4, 3},
                      Row{"(floormod (add r8 -4) 3)", 0, 2}, Row{"(floormod (add r8 -4) -3)", -2, 0},
                      Row{"(floormod (add r4 9) 8)", 1, 4}, Row{"(floormod (add r4 -7) 8)", 1, 4},
                      Row{"(floormod r8 r5)", 0, 7}, Row{"(floormod r8 0)", 0, 7},
                      Row{"(floormod r100 (add r8 1))", 0, 7}, Row{"(cmod r100 -8)", 0, 7},
                      Row{"(cmod (add r4 -11) 8)", -3, 0}, Row{"(cmod (add r3 -11) 8)", -3, -1},
                      Row{"(cmod (add r8 -4) r100)", -4, 3}, Row{"(cdiv x:int64 -1)", kMin, kMax},
                      Row{"(floordiv x:int8 -1:int8)", -128, 127}, Row{"(cmod x:int64 16)", -15, 15}));

INSTANTIATE_TEST_SUITE_P(
    BitOps, BoundsTest,
    ::testing::Values(Row{"(and (add r8 -4) 3)", 0, 3}, Row{"(and (add r8 -9) (add r4 -6))", -16, -3},
                      Row{"(and (add r8 -4) (add r8 -4))", -4, 3}, Row{"(or r8 8)", 8, 15}, Row{"(or r8 r4)", 0, 7},
                      Row{"(or (add r8 -9) r4)", -9, -1}, Row{"(xor r8 r4)", 0, 7},
                      Row{"(xor r8 (add r8 -9))", -16, -1}, Row{"(xor (add r8 -4) 1)", -4, 3}, Row{"(xor r8 r8)", 0, 0},
                      Row{"(shl r8 2)", 0, 28}, Row{"(shl r8 64)", 0, 0}, Row{"(shl r8 r3)", 0, 28},
                      Row{"(shl r8 r100)", kMin, kMax}, Row{"(shr (add r8 -4) 1)", -2, 1},
                      Row{"(shr (add r8 -9) 70)", -1, -1}, Row{"(shr (add r8 -4) r100)", -4, 3},
                      Row{"(shl x:bool true)", 0, 0}, Row{"(shr r100 -1)", 0, 0}));

INSTANTIATE_TEST_SUITE_P(Others, BoundsTest,
                         ::testing::Values(Row{"(mul (add r8 -4) (add r8 -4))", 0, 16}, Row{"(cmplt r8 r8)", 0, 0},
                                           Row{"(cmpne x:int8 x:int8)", 0, 0}, Row{"(cmpne x:float32 x:float32)", 0, 1},
                                           Row{"(where (cmplt r8 8) r8 200)", 0, 7},
                                           Row{"(where (cmplt r8 r100) r8 r100)", 0, 7},
                                           Row{"(where (cmplt r8 r100) r100 r8)", 0, 99},
                                           Row{"(cast:bool (add r8 1))", 1, 1}, Row{"(cast:bool (add r8 -1))", 0, 1},
                                           Row{"(cast:int32 x:float32)", -2147483648, 2147483647},
                                           Row{"(bitcast:uint8 (cast:int8 r8))", 0, 7}, Row{"(and x:bool false)", 0, 0},
                                           Row{"(or x:bool true)", 1, 1}, Row{"(add x:bool true)", 1, 1},
                                           Row{"(mul x:int64 x:int64)", kMin, kMax}));

TEST(Bounds, FloatsHaveNone) {
  Graph graph;
  EXPECT_FALSE(testing::ParseExpression(graph, "(add x:float32 1.0:float32)")->bounds().known);
}

}  // namespace
}  // namespace kiln::compiler
