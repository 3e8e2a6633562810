#include "compiler/kernel/expand.h"

#include <gtest/gtest.h>

#include "compiler/interp/kernel_eval.h"
#include "compiler/testing/read_text.h"

namespace kiln::compiler {
namespace {

// out[i] = x[i] + 1 for i = 4 a + b, where b is lanes.
constexpr char kLanes[] = R"(
  0 CONST : weakint [] 8
  1 STACK : weakint [0]
  2 PARAM : int32 [1] slot=0
  3 CONST : int64 [] 2
  4 RANGE : int64 [3] range=(0) type=LOOP
  5 CONST : int64 [] 4
  6 MUL [4, 5]
  7 RANGE : int64 [5] range=(4294967296) type=UPCAST
  8 ADD [6, 7]
  9 INDEX [2, 8]
  10 PARAM : int32 [1] slot=1
  11 INDEX [10, 8]
  12 LOAD [11]
  13 CONST : int32 [] 1
  14 ADD [12, 13]
  15 STORE [9, 14]
  16 END [15, 4, 7]
  17 SINK [16] kernel name="add_one"
)";

TEST(Expand, LanesAreAShapeAndTheirLoopIsGone) {
  Graph graph;
  UOp* kernel = ReadText(graph, kLanes);
  UOp* expanded = Expand(graph, kernel);
  EXPECT_EQ(CountOf(expanded, Op::RANGE), 1u);
  const UOp* store = expanded->src(0)->src(0);
  ASSERT_EQ(store->op(), Op::STORE);
  EXPECT_EQ(ToString(store->src(1)->shape()), "(4,)");
  EXPECT_EQ(expanded->src(0)->src().size(), 2u);  // END(STORE, the loop that is left)

  KernelMemory want = {{0, std::vector<uint64_t>(8, 0)}, {1, {1, 2, 3, 4, 5, 6, 7, 8}}}, got = want;
  ASSERT_TRUE(EvalKernel(kernel, want).ok());
  ASSERT_TRUE(EvalKernel(expanded, got).ok());
  EXPECT_EQ(got[0], (std::vector<uint64_t>{2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(got, want);
}

TEST(Expand, AKernelWithoutLanesStaysAsItIs) {
  Graph graph;
  UOp* expanded = Expand(graph, ReadText(graph, kLanes));
  EXPECT_EQ(Expand(graph, expanded), expanded);
}

}  // namespace
}  // namespace kiln::compiler
