#include "compiler/lower/cost.h"

#include <gtest/gtest.h>

#include "compiler/testing/read_text.h"

namespace kiln::compiler {
namespace {

// out[i] = the sum of x[6 i + j] times w[j], i < 5, j < 6.
constexpr char kProduct[] = R"(
  0 CONST : weakint [] 5
  1 STACK : weakint [0]
  2 PARAM : float32 [1] slot=0
  3 CONST : int64 [] 5
  4 RANGE : int64 [3] range=(0) type=LOOP
  5 INDEX [2, 4]
  6 CONST : weakint [] 30
  7 STACK : weakint [6]
  8 PARAM : float32 [7] slot=1
  9 CONST : weakint [] 6
  10 STACK : weakint [9]
  11 PARAM : float32 [10] slot=2
  12 CONST : int64 [] 6
  13 RANGE : int64 [12] range=(1) type=REDUCE
  14 MUL [4, 12]
  15 ADD [14, 13]
  16 INDEX [8, 15]
  17 LOAD [16]
  18 INDEX [11, 13]
  19 LOAD [18]
  20 MUL [17, 19]
  21 REDUCE [20, 13] ADD axes=()
  22 STORE [5, 21]
  23 END [22, 4]
  24 SINK [23] kernel name="sum_5_over_6"
)";

TEST(Cost, OfAProduct) {
  Graph graph;
  const v1::Cost cost = CostOf(graph, ReadText(graph, kProduct));
  // Thirty products, as many additions and LOADs of x; six LOADs of w, which do not depend on i; five STOREs.
  EXPECT_EQ(cost.flops(), 30u + 30 + 30 + 6 + 5);
  EXPECT_EQ(cost.bytes_read(), 4u * (30 + 6));
  EXPECT_EQ(cost.bytes_written(), 4u * 5);
}

// A loop of ten iterations: each stores four lanes.
constexpr char kStores[] = R"(
  0 CONST : weakint [] 40
  1 STACK : weakint [0]
  2 PARAM : int64 [1] slot=0 space=GLOBAL
  3 CONST : int64 [] 10
  4 RANGE : int64 [3] range=(0) type=THREAD
  5 CONST : int64 [] 4
  6 MUL : int64 [4, 5]
  7 INDEX : int64 [2, 6]
  8 STORE : void [7, 4]
  9 GROUP : void []
  10 END : void [9, 4]
  11 LINEAR : void [2, 4, 6, 7, 8, 10] kernel name="stores"
)";

TEST(Cost, OfAProgram) {
  Graph graph;
  const UOp* program = ReadText(graph, kStores);
  // The PARAM and the RANGE are listed outside, MUL and STORE in each iteration, as the END once.
  EXPECT_EQ(CostOfProgram(program).flops(), 1u + 10 + 10 + 10 + 1);
  EXPECT_EQ(IterationsOf(program), 10u);
}

TEST(Cost, AThreadIsWokenForSixtyFourThousandOperations) {
  v1::Cost cost;
  cost.set_flops(1 << 20);
  EXPECT_EQ(GrainOf(cost, 1024), 64u);
  cost.set_bytes_read(1 << 20);
  EXPECT_EQ(GrainOf(cost, 1024), 32u);
  EXPECT_EQ(GrainOf(cost, 1), 1u);
  EXPECT_EQ(GrainOf({}, 0), 65536u);
}

}  // namespace
}  // namespace kiln::compiler
