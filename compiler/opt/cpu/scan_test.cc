#include "compiler/opt/cpu/scan.h"

#include <gtest/gtest.h>

#include "absl/strings/substitute.h"
#include "compiler/interp/kernel_eval.h"
#include "compiler/kernel/expand.h"
#include "compiler/kernel/linearize.h"
#include "compiler/testing/read_text.h"

namespace kiln::compiler {
namespace {

// out[i] = the sum of those x[j] that `$0` does not leave out, j < 8.
constexpr char kSum[] = R"(
  0 CONST : weakint [] 8
  1 STACK : weakint [0]
  2 PARAM : int32 [1] slot=0
  3 CONST : int64 [] 8
  4 RANGE : int64 [3] range=(0) type=LOOP
  5 INDEX [2, 4]
  6 RANGE : int64 [3] range=(1) type=REDUCE
  7 CMPLT $0
  8 CONST : int32 [] 0
  9 PARAM : int32 [1] slot=1
  10 INDEX [9, 6]
  11 LOAD [10]
  12 WHERE [7, 8, 11]
  13 REDUCE [12, 6] ADD axes=()
  14 STORE [5, 13]
  15 END [14, 4]
  16 SINK [15] kernel name="sum_8_over_8"
)";
constexpr char kUpToThis[] = "[4, 6]", kFromThisOn[] = "[6, 4]", kSome[] = "[4, 3]";

class ScheduleScanTest : public testing::Test {
 protected:
  UOp* Kernel(const char* left_out) { return ReadText(graph_, absl::Substitute(kSum, left_out)); }
  UOp* Scheduled(UOp* kernel, uint32_t vector_bytes) {
    v1::Target target;
    target.mutable_tuning()->set_vector_bytes(vector_bytes);
    return ScheduleScan(graph_, kernel, target);
  }
  std::vector<uint64_t> Out(UOp* kernel) {
    KernelMemory memory = {{0, std::vector<uint64_t>(8, 99)}, {1, {1, 2, 3, 4, 5, 6, 7, 8}}};
    const absl::Status status = EvalKernel(kernel, memory);
    EXPECT_TRUE(status.ok()) << status;
    return memory[0];
  }
  static int64_t Iterations(UOp* kernel) {
    int64_t iterations = 1;
    for (const UOp* uop : Toposort(kernel)) {
      if (uop->op() == Op::RANGE && uop->arg_as<RangeArg>().id < kLaneIds) iterations *= uop->src(0)->const_int();
    }
    return iterations;
  }

  Graph graph_;
};

using Numbers = std::vector<uint64_t>;

TEST_F(ScheduleScanTest, OneLoopDoesTheWorkOfTwo) {
  UOp* kernel = Kernel(kUpToThis);
  EXPECT_EQ(Out(kernel), (Numbers{1, 3, 6, 10, 15, 21, 28, 36}));
  UOp* scan = Scheduled(kernel, 4);
  ASSERT_NE(scan, nullptr);
  EXPECT_EQ(Iterations(kernel), 64);
  EXPECT_EQ(Iterations(scan), 8);
  EXPECT_EQ(Out(Linearize(graph_, scan)), Out(kernel));
}

TEST_F(ScheduleScanTest, FromTheEndOn) {
  UOp* kernel = Kernel(kFromThisOn);
  EXPECT_EQ(Out(kernel), (Numbers{36, 35, 33, 30, 26, 21, 15, 8}));
  UOp* scan = Scheduled(kernel, 4);
  ASSERT_NE(scan, nullptr);
  EXPECT_EQ(Out(Linearize(graph_, scan)), Out(kernel));
}

TEST_F(ScheduleScanTest, LanesAreScannedInRegisters) {
  for (const char* order : {kUpToThis, kFromThisOn}) {
    UOp* kernel = Kernel(order);
    UOp* scan = Scheduled(kernel, 16);
    ASSERT_NE(scan, nullptr);
    EXPECT_EQ(Iterations(scan), 2);  // of four lanes
    EXPECT_EQ(Out(Linearize(graph_, Expand(graph_, scan))), Out(kernel));
  }
}

TEST_F(ScheduleScanTest, AnotherSumIsNone) {
  EXPECT_EQ(Scheduled(Kernel(kSome), 16), nullptr);
  EXPECT_EQ(LoopWithoutIterations(graph_, Kernel(kSome)), nullptr);
}

TEST_F(ScheduleScanTest, TheLoopThatIsSummedOverHasNoIterations) {
  UOp* kernel = Kernel(kUpToThis);
  const UOp* loop = LoopWithoutIterations(graph_, kernel);
  ASSERT_NE(loop, nullptr);
  EXPECT_EQ(loop->arg_as<RangeArg>().type, AxisType::kReduce);
}

}  // namespace
}  // namespace kiln::compiler
