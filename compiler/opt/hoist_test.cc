#include "compiler/opt/hoist.h"

#include <gtest/gtest.h>

#include <numeric>

#include "compiler/interp/kernel_eval.h"
#include "compiler/testing/read_text.h"

namespace kiln::compiler {
namespace {

// out[i] = the sum of row i of x, which is copied to local memory first.
constexpr char kSums[] = R"(
  0 CONST : weakint [] 2
  1 STACK : weakint [0]
  2 PARAM : int32 [1] slot=0
  3 CONST : int64 [] 2
  4 RANGE : int64 [3] range=(0) type=LOOP
  5 INDEX [2, 4]
  6 CONST : weakint [] 12
  7 STACK : weakint [6]
  8 PARAM : int32 [7] slot=1
  9 CONST : weakint [] 6
  10 STACK : weakint [9]
  11 BUFFER : int32 [10] slot=9 space=LOCAL
  12 CONST : int64 [] 6
  13 RANGE : int64 [12] range=(1) type=LOOP
  14 INDEX [11, 13]
  15 MUL [4, 12]
  16 ADD [15, 13]
  17 INDEX [8, 16]
  18 LOAD [17]
  19 STORE [14, 18]
  20 END [19, 13]
  21 AFTER [11, 20]
  22 RANGE : int64 [12] range=(2) type=REDUCE
  23 INDEX [21, 22]
  24 LOAD [23]
  25 REDUCE [24, 22] ADD axes=()
  26 STORE [5, 25]
  27 END [26, 4]
  28 SINK [27] kernel name="sum_2_over_6"
)";
constexpr uint32_t kSlots = 2, kOut = 0, kX = 1, kMade = 2;

TEST(HoistCopies, ACopyOfAConstantIsMadeByAKernelOfItsOwn) {
  Graph graph;
  UOp* kernel = MarkConstants(graph, ReadText(graph, kSums), {kX});
  std::vector<Hoisted> hoisted;
  UOp* without = HoistCopies(graph, kernel, kSlots, hoisted);
  EXPECT_EQ(CountOf(without, Op::BUFFER), 0u);
  ASSERT_EQ(hoisted.size(), 1u);
  EXPECT_EQ(hoisted[0].slot, kX);
  EXPECT_EQ(hoisted[0].bytes, 12 * 4);
  // First the copy, then as many runs as one likes.
  std::vector<uint64_t> x(12);
  std::iota(x.begin(), x.end(), 1);
  KernelMemory copied = {{0, x}, {1, std::vector<uint64_t>(12, 99)}};
  ASSERT_TRUE(EvalKernel(hoisted[0].sink, copied).ok());
  KernelMemory memory = {{kOut, {99, 99}}, {kMade, copied[1]}};
  ASSERT_TRUE(EvalKernel(without, memory).ok());
  EXPECT_EQ(memory[kOut], (std::vector<uint64_t>{21, 57}));
}

TEST(HoistCopies, ACopyOfWhatMayChangeStays) {
  Graph graph;
  UOp* kernel = ReadText(graph, kSums);
  std::vector<Hoisted> hoisted;
  EXPECT_EQ(HoistCopies(graph, kernel, kSlots, hoisted), kernel);
  EXPECT_TRUE(hoisted.empty());
}

TEST(HoistCopies, OnlyTheLoadOfTheConstantIsOfConstants) {
  Graph graph;
  std::vector<UOp*> found;
  for (UOp* uop : Toposort(MarkConstants(graph, ReadText(graph, kSums), {kX}))) {
    if (uop->op() == Op::LOAD && OfConstants(uop)) found.push_back(uop);
  }
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]->src(0)->src(0)->arg_as<BufferArg>().slot, kX);
  EXPECT_FALSE(OfConstants(ReadText(graph, kSums)));
}

}  // namespace
}  // namespace kiln::compiler
