#include "compiler/kernel/linearize.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/interp/kernel_eval.h"
#include "compiler/testing/read_text.h"

namespace kiln::compiler {
namespace {

// out[4 i + j] = x[j] * y[i].
constexpr char kProducts[] = R"(
  0 CONST : weakint [] 12
  1 STACK : weakint [0]
  2 PARAM : int32 [1] slot=0
  3 CONST : int64 [] 3
  4 RANGE : int64 [3] range=(0) type=LOOP
  5 CONST : int64 [] 4
  6 MUL [4, 5]
  7 RANGE : int64 [5] range=(1) type=LOOP
  8 ADD [6, 7]
  9 INDEX [2, 8]
  10 PARAM : int32 [1] slot=1
  11 INDEX [10, 7]
  12 LOAD [11]
  13 PARAM : int32 [1] slot=2
  14 INDEX [13, 4]
  15 LOAD [14]
  16 MUL [12, 15]
  17 STORE [9, 16]
  18 END [17, 4, 7]
  19 SINK [18] kernel name="products"
)";

TEST(Linearize, SourcesStandBeforeUsersAndOutOfTheLoopsThatDoNotChangeThem) {
  Graph graph;
  UOp* kernel = ReadText(graph, kProducts);
  UOp* linear = Linearize(graph, kernel);
  ASSERT_EQ(linear->op(), Op::LINEAR);
  const std::vector<UOp*> list(linear->src().begin(), linear->src().end());
  const auto at = [&list](const UOp* uop) { return std::find(list.begin(), list.end(), uop) - list.begin(); };
  for (const UOp* uop : list) {
    for (const UOp* source : uop->src()) EXPECT_LT(at(source), at(uop));
  }
  std::vector<const UOp*> loops;
  for (const UOp* uop : list) {
    if (uop->op() == Op::RANGE) loops.push_back(uop);
  }
  ASSERT_EQ(loops.size(), 2u);
  EXPECT_EQ(loops[0]->src(0)->const_int(), 3);  // the outer one first
  const UOp* store = kernel->src(0)->src(0);
  const UOp *of_inner = store->src(1)->src(0), *of_outer = store->src(1)->src(1);
  EXPECT_LT(at(of_outer), at(loops[1]));
  EXPECT_GT(at(of_inner), at(loops[1]));
  EXPECT_EQ(list.back()->op(), Op::END);

  KernelMemory want = {{0, std::vector<uint64_t>(12, 0)}, {1, std::vector<uint64_t>(12, 2)}, {2, {}}};
  for (uint64_t i = 0; i < 12; ++i) want[2].push_back(i + 5);
  KernelMemory got = want;
  ASSERT_TRUE(EvalKernel(kernel, want).ok());
  ASSERT_TRUE(EvalKernel(linear, got).ok());
  EXPECT_EQ(got[0], (std::vector<uint64_t>{10, 10, 10, 10, 12, 12, 12, 12, 14, 14, 14, 14}));
  EXPECT_EQ(got, want);
}

}  // namespace
}  // namespace kiln::compiler
