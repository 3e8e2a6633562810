// A chain of two nests: y[i] = x[i] + x[i] is local to a slice, out[i] = y[i] * y[i]; 3 slices of 4.
#include "compiler/lower/chain_nests.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "compiler/interp/kernel_eval.h"
#include "compiler/kernel/linearize.h"
#include "compiler/kernel/reduce_to_acc.h"
#include "compiler/testing/read_text.h"

namespace kiln::compiler {
namespace {

constexpr char kChain[] = R"(
  0 CONST : weakint [] 12
  1 STACK : weakint [0]
  2 PARAM : int32 [1] slot=0
  3 CONST : int64 [] 3
  4 RANGE : int64 [3] range=(0) type=THREAD
  5 CONST : int64 [] 4
  6 MUL : int64 [4, 5]
  7 CONST : weakint [] 4
  8 STACK : weakint [7]
  9 BUFFER : int32 [8] slot=7 space=LOCAL
  10 RANGE : int64 [5] range=(1) type=LOOP
  11 INDEX [9, 10]
  12 PARAM : int32 [1] slot=1
  13 ADD : int64 [6, 10]
  14 INDEX [12, 13]
  15 LOAD [14]
  16 ADD [15, 15]
  17 STORE [11, 16]
  18 END [17, 10]
  19 AFTER [9, 18]
  20 RANGE : int64 [5] range=(2) type=LOOP
  21 ADD : int64 [6, 20]
  22 INDEX [2, 21]
  23 INDEX [19, 20]
  24 LOAD [23]
  25 MUL [24, 24]
  26 STORE [22, 25]
  27 END [26, 20]
  28 END [27, 4]
  29 SINK [28] kernel name="chain"
)";

constexpr char kNoChain[] = R"(
  0 CONST : weakint [] 12
  1 STACK : weakint [0]
  2 PARAM : int32 [1] slot=0
  3 CONST : int64 [] 12
  4 RANGE : int64 [3] range=(0) type=LOOP
  5 INDEX [2, 4]
  6 CONST : int32 [] 1
  7 STORE [5, 6]
  8 END [7, 4]
  9 SINK [8] kernel name="ones"
)";

TEST(ChainNests, AChainIsTold) {
  Graph graph;
  EXPECT_TRUE(IsChain(ReadText(graph, kChain)));
  EXPECT_FALSE(IsChain(ReadText(graph, kNoChain)));
}

TEST(ChainNests, EachNestIsAKernelOfItsOwn) {
  Graph graph;
  const ChainNests nests(graph, ReadText(graph, kChain));
  ASSERT_EQ(nests.size(), 2u);
  EXPECT_EQ(nests.local_bytes(), 16);
  for (size_t i = 0; i < 2; ++i) {
    UOp* kernel = nests.Kernel(i);
    EXPECT_FALSE(IsChain(kernel));
    EXPECT_EQ(CountOf(kernel, Op::STORE), 1u);
    EXPECT_EQ(CountOf(kernel, Op::BUFFER), 0u) << "what another nest makes is a parameter";
    EXPECT_EQ(CountOf(kernel, Op::RANGE), 1u) << "which slice it is is a variable";
  }
  EXPECT_EQ(CountOf(nests.Kernel(0), Op::ADD), 2u);
  EXPECT_EQ(CountOf(nests.Kernel(0), Op::MUL), 1u);  // of the slice's place
}

TEST(ChainNests, TogetherTheyAreOneLoopOverTheSlices) {
  Graph graph;
  ChainNests nests(graph, ReadText(graph, kChain));
  for (size_t i = 0; i < nests.size(); ++i) nests.SetLowered(i, ReduceToAcc(graph, nests.Kernel(i)));
  UOp* whole = nests.Whole();
  EXPECT_EQ(CountOf(whole, Op::BUFFER), 1u);
  KernelMemory memory = {{0, std::vector<uint64_t>(12, 99)}, {1, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}};
  const absl::Status status = EvalKernel(Linearize(graph, whole), memory);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(memory[0], (std::vector<uint64_t>{0, 4, 16, 36, 64, 100, 144, 196, 256, 324, 400, 484}));
}

}  // namespace
}  // namespace kiln::compiler
