#include "compiler/kernel/reduce_to_acc.h"

#include <gtest/gtest.h>

#include "compiler/interp/kernel_eval.h"
#include "compiler/kernel/linearize.h"
#include "compiler/testing/read_text.h"

namespace kiln::compiler {
namespace {

// out[i] = the sum of x[4 i + j] over j < 4.
constexpr char kSums[] = R"(
  0 CONST : weakint [] 3
  1 STACK : weakint [0]
  2 PARAM : int32 [1] slot=0
  3 CONST : int64 [] 3
  4 RANGE : int64 [3] range=(0) type=LOOP
  5 INDEX [2, 4]
  6 CONST : weakint [] 12
  7 STACK : weakint [6]
  8 PARAM : int32 [7] slot=1
  9 CONST : int64 [] 4
  10 MUL [4, 9]
  11 RANGE : int64 [9] range=(1) type=REDUCE
  12 ADD [10, 11]
  13 INDEX [8, 12]
  14 LOAD [13]
  15 REDUCE [14, 11] ADD axes=()
  16 STORE [5, 15]
  17 END [16, 4]
  18 SINK [17] kernel name="sum_3_over_4"
)";

TEST(ReduceToAcc, ALoopAddsToAnAccumulatorThatIsSetBeforeIt) {
  Graph graph;
  UOp* kernel = ReduceToAcc(graph, ReadText(graph, kSums));
  EXPECT_EQ(CountOf(kernel, Op::REDUCE), 0u);
  EXPECT_EQ(CountOf(kernel, Op::RANGE), 2u);
  EXPECT_EQ(CountOf(kernel, Op::BUFFER), 1u);
  EXPECT_EQ(CountOf(kernel, Op::STORE), 3u);  // zero, each sum so far, and the result
  for (const UOp* uop : Toposort(kernel)) EXPECT_TRUE(uop->op() != Op::BUFFER || uop->addrspace() == AddrSpace::kReg);
  // In order, it sums.
  KernelMemory memory = {{0, {9, 9, 9}}, {1, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}};
  ASSERT_TRUE(EvalKernel(Linearize(graph, kernel), memory).ok());
  EXPECT_EQ(memory[0], (std::vector<uint64_t>{10, 26, 42}));
}

TEST(ReduceToAcc, AKernelWithoutReductionsStaysAsItIs) {
  Graph graph;
  UOp* kernel = ReduceToAcc(graph, ReadText(graph, kSums));
  EXPECT_EQ(ReduceToAcc(graph, kernel), kernel);
}

}  // namespace
}  // namespace kiln::compiler
