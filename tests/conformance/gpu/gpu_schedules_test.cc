// The schedules that are chosen for GPUs: which they are for the common kernels, and that they change no value. The
// interpreter runs each kernel before and after, with its work items as loops; numbers are small and whole, so that
// every order of a sum gives the same.
#include <gtest/gtest.h>

#include <bit>

#include "absl/strings/str_cat.h"
#include "client/cpp/ops.h"
#include "compiler/import/wire.h"
#include "compiler/interp/kernel_eval.h"
#include "compiler/kernel/bounds.h"
#include "compiler/kernel/expand.h"
#include "compiler/kernel/gpu_dims.h"
#include "compiler/kernel/linearize.h"
#include "compiler/kernel/reduce_to_acc.h"
#include "compiler/kernel/simplify_ranges.h"
#include "compiler/opt/gpu/gpu_heuristic.h"
#include "compiler/opt/schedule_text.h"
#include "compiler/pass/pipeline.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/decompose.h"
#include "compiler/rules/symbolic.h"
#include "compiler/target/gpu/architectures.h"
#include "compiler/testing/items_as_loops.h"

namespace kiln::testing {
namespace {

using namespace compiler;  // NOLINT: a test about the IR
using client::Shape;
using client::Tensor;
using compiler::Graph;

constexpr int64_t kMaxSteps = 40'000'000;

class GpuSchedules : public ::testing::Test {
 protected:
  Tensor Param(const Shape& shape, v1::DType dtype = v1::FLOAT32) { return maker_.Param(slots_++, dtype, shape); }

  // The schedules of the kernels of `output`, one a line, which all give the same values.
  std::string SchedulesOf(const Tensor& output, int64_t cores = 1) {
    maker_.Output(output);
    v1::Target target = *GpuTarget("sm_90a");
    target.mutable_tuning()->set_cores(static_cast<uint32_t>(cores));
    Graph graph;
    const Options options;
    Lowering lowering(graph, options);
    const auto sink = RunStage(lowering, Stage::kCallify, *FromWire(maker_.Build().value(), Limits(), graph));
    EXPECT_TRUE(sink.ok()) << sink.status();
    const auto calls = RunStage(lowering, Stage::kRangeify, *sink);
    EXPECT_TRUE(calls.ok()) << calls.status();
    std::string text;
    for (UOp* call : (*calls)->src()) {
      UOp* kernel = Decompose(graph, SimplifyRanges(graph, call->src(0)), NativeOps());
      const std::vector<OptOp> opts = ChooseGpuOpts(kernel, target);
      absl::StrAppend(&text, text.empty() ? "" : "\n", ToString(opts));
      Check(graph, kernel, ApplyOpts(graph, kernel, opts));
    }
    return text;
  }

 private:
  static void Check(Graph& graph, UOp* kernel, UOp* scheduled) {
    KernelMemory memory;
    for (const UOp* uop : Toposort(kernel)) {
      if (uop->op() != Op::PARAM || uop->IsVariable()) continue;
      auto& cells = memory[uop->arg_as<BufferArg>().slot];
      for (int64_t i = 0; i < NumElements(uop->shape()); ++i) {
        const int64_t number = (i * 37 + i / 11) % 9 - 4;
        cells.push_back(uop->dtype() == DType::kFloat32 ? std::bit_cast<uint32_t>(static_cast<float>(number))
                                                        : static_cast<uint64_t>(number + 4));
      }
    }
    KernelMemory want = memory;
    ASSERT_TRUE(EvalKernel(kernel, want, kMaxSteps).ok());
    UOp* items = ItemsAsLoops(
        graph, GraphRewrite(GpuDims(graph, *ProveBounds(graph, scheduled, false), true), SymbolicRules(), graph));
    UOp* listed = Linearize(graph, ReduceToAcc(graph, Expand(graph, items)));
    for (const auto& [name, stage] : {std::pair{"work items", items}, std::pair{"listed", listed}}) {
      KernelMemory made = memory;
      const absl::Status status = EvalKernel(stage, made, 4 * kMaxSteps);
      ASSERT_TRUE(status.ok()) << status << " " << name;
      ASSERT_TRUE(made == want) << name << "\n" << ToText(stage);
    }
  }

  client::Graph maker_;
  uint32_t slots_ = 0;
};

TEST_F(GpuSchedules, Elementwise) {
  EXPECT_EQ(SchedulesOf(Param({64, 96}) * Param({64, 96}) + Param({96})),
            "SPLIT(1, 4, UPCAST); SPLIT(1, 24, LOCAL); SPLIT(0, 8, LOCAL)");
}

TEST_F(GpuSchedules, NarrowElements) {
  EXPECT_EQ(SchedulesOf(client::Cast(Param({4096}, v1::INT8), v1::INT32)), "SPLIT(0, 4, UPCAST); SPLIT(0, 256, LOCAL)");
}

TEST_F(GpuSchedules, AnOddNumberOfElements) {
  EXPECT_EQ(SchedulesOf(Param({7919}) + Param({7919})), "PADTO(0, 256, clamp); SPLIT(0, 256, LOCAL)");
}

TEST_F(GpuSchedules, AShortInnermostAxis) {
  EXPECT_EQ(SchedulesOf(Param({500, 3}) + Param({3})), "SPLIT(1, 3, LOCAL); SPLIT(0, 50, LOCAL)");
}

TEST_F(GpuSchedules, Transposed) {
  EXPECT_EQ(SchedulesOf(client::Contiguous(client::Transpose(Param({48, 80})))),
            "SPLIT(0, 4, UPCAST); SPLIT(1, 4, UPCAST, dim 1); SPLIT(0, 5, LOCAL); SPLIT(2, 12, LOCAL)");
}

TEST_F(GpuSchedules, Joined) {
  EXPECT_EQ(SchedulesOf(client::Concat({Param({10, 24}), Param({6, 24})}, 0)),
            "SPLIT(0, 4, UPCAST); SPLIT(0, 96, LOCAL)");
}

TEST_F(GpuSchedules, SumsOfRows) {
  EXPECT_EQ(SchedulesOf(client::Sum(Param({40, 256}), {1})),
            "SPLIT(1, 4, UNROLL); SPLIT(1, 32, GROUP_REDUCE); SPLIT(0, 4, LOCAL)");
}

TEST_F(GpuSchedules, SumsOfShortRows) {
  EXPECT_EQ(SchedulesOf(client::Sum(Param({100, 64}), {1})),
            "SPLIT(1, 4, UNROLL); SPLIT(1, 16, GROUP_REDUCE); SPLIT(0, 4, LOCAL)");
}

TEST_F(GpuSchedules, SumsOfOddRows) {
  EXPECT_EQ(SchedulesOf(client::Max(Param({40, 77}), {1})),
            "PADTO(1, 32, clamp); SPLIT(1, 32, GROUP_REDUCE); SPLIT(0, 4, LOCAL)");
}

TEST_F(GpuSchedules, AWholeSum) {
  EXPECT_EQ(SchedulesOf(client::Sum(Param({1000}))),
            "SPLIT(0, 4, UNROLL); PADTO(0, 128, clamp); SPLIT(0, 128, GROUP_REDUCE)");
}

TEST_F(GpuSchedules, SumsOfColumns) {
  EXPECT_EQ(SchedulesOf(client::Sum(Param({60, 64}), {0})),
            "SPLIT(0, 2, UPCAST); SPLIT(0, 32, LOCAL); PADTO(2, 8, clamp); SPLIT(2, 8, GROUP_REDUCE)");
}

TEST_F(GpuSchedules, ManyShortColumns) {
  EXPECT_EQ(SchedulesOf(client::Sum(Param({6, 8192}), {0})), "SPLIT(0, 4, UPCAST); SPLIT(0, 256, LOCAL)");
}

TEST_F(GpuSchedules, NormalisedRows) {
  Tensor x = Param({5, 128});
  Tensor away = x - client::Max(x, {1}, true);
  EXPECT_EQ(SchedulesOf(away * client::Sum(away, {1}, true)),
            "SPLIT(2, 4, UNROLL); SPLIT(2, 32, GROUP_REDUCE); SPLIT(4, 4, UNROLL); SPLIT(4, 32, GROUP_REDUCE); "
            "SPLIT(1, 4, UPCAST); SPLIT(1, 32, LOCAL)");
}

TEST_F(GpuSchedules, NormalisedOddRows) {
  Tensor x = Param({5, 35});
  EXPECT_EQ(SchedulesOf(x - client::Max(x, {1}, true)),
            "PADTO(2, 32, clamp); SPLIT(2, 32, GROUP_REDUCE); PADTO(1, 32, clamp); SPLIT(1, 32, LOCAL)");
}

TEST_F(GpuSchedules, SumsOfPlanes) {
  EXPECT_EQ(SchedulesOf(client::Sum(Param({6, 8, 14, 14}), {0, 2, 3})),
            "SPLIT(2, 4, UNROLL); PADTO(2, 32, clamp); SPLIT(2, 32, GROUP_REDUCE); SPLIT(0, 4, LOCAL)");
}

TEST_F(GpuSchedules, Pooled) {
  client::PoolOptions options;
  options.kernel = {3, 3};
  options.stride = {2, 2};
  EXPECT_EQ(SchedulesOf(client::MaxPool2d(Param({2, 32, 21, 21}), options)),
            "SPLIT(2, 10, LOCAL); SPLIT(1, 10, LOCAL); SPLIT(0, 2, LOCAL)");
}

TEST_F(GpuSchedules, Products) {
  EXPECT_EQ(SchedulesOf(client::Matmul(Param({64, 20}), Param({20, 128}))), "TC(0, 1, FMA_64X64)");
}

TEST_F(GpuSchedules, OddProducts) {
  EXPECT_EQ(SchedulesOf(client::Matmul(Param({3, 50, 19}), Param({3, 19, 61}))), "TC(1, 2, FMA_64X64)");
}

Tensor Wide(const Tensor& x) { return client::Cast(x, v1::FLOAT32); }

TEST_F(GpuSchedules, ProductsOfHalves) {
  EXPECT_EQ(SchedulesOf(client::Matmul(Wide(Param({64, 20}, v1::FLOAT16)), Wide(Param({20, 128}, v1::FLOAT16))), 2),
            "TC(0, 1, MMA_64X64)");
}

TEST_F(GpuSchedules, OddProductsOfBfloats) {
  Tensor product = client::Matmul(Wide(Param({2, 50, 19}, v1::BFLOAT16)), Wide(Param({2, 19, 61}, v1::BFLOAT16)));
  EXPECT_EQ(SchedulesOf(product + Param({61})), "TC(1, 2, MMA_64X64)");
}

TEST_F(GpuSchedules, ConvolutionsOfHalves) {
  const Tensor image = Param({1, 8, 7, 8}, v1::FLOAT16), filters = Param({24, 8, 3, 3}, v1::FLOAT16);
  EXPECT_EQ(SchedulesOf(client::Conv2d(Wide(image), Wide(filters), Tensor(), {.padding = {1, 1}})),
            "FUSE(1); TC(0, 1, MMA_32X32)");
}

TEST_F(GpuSchedules, FewRowsOfHalves) {
  EXPECT_EQ(SchedulesOf(client::Matmul(Wide(Param({4, 32}, v1::FLOAT16)), Wide(Param({32, 256}, v1::FLOAT16)))),
            "SPLIT(1, 4, UPCAST, dim 1); SPLIT(0, 4, LOCAL); SPLIT(2, 32, LOCAL)");
}

TEST_F(GpuSchedules, AMatrixTimesAVector) {
  EXPECT_EQ(SchedulesOf(client::Matmul(Param({40, 128}), Param({128, 1}))),
            "SPLIT(1, 4, UNROLL); SPLIT(1, 32, GROUP_REDUCE); SPLIT(0, 4, LOCAL)");
}

TEST_F(GpuSchedules, Convolutions) {
  client::ConvOptions options;
  options.padding = {1, 1};
  EXPECT_EQ(SchedulesOf(client::Conv2d(Param({1, 4, 12, 12}), Param({16, 4, 3, 3}), Tensor(), options)),
            "PADTO(2, 8, clamp); SPLIT(0, 8, LOCAL); SPLIT(3, 8, LOCAL)");
}

}  // namespace
}  // namespace kiln::testing
