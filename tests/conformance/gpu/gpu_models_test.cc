// Whole models, and products whose sizes no tile divides, on GPUs of 132 cores: no item has so much to do that the
// others wait for it. That was once a kernel whose padded loops all stayed in one item.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "client/cpp/ops.h"
#include "compiler/compile.h"
#include "tests/bench/models.h"
#include "tests/conformance/gpu/products.h"

namespace kiln::testing {
namespace {

class GpuModels : public ::testing::TestWithParam<std::string> {
 protected:
  // One item does about 10^9 of them a second.
  static constexpr uint64_t kMaxOperations = 150'000;

  void ExpectSharedOut(const v1::Graph& graph) {
    const auto compiled = compiler::Compile(graph, TargetOf(GetParam(), 132), {});
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    for (const v1::Kernel& kernel : compiled->kernels()) {
      uint64_t items = 1;
      for (const uint32_t groups : kernel.launch().groups()) items *= groups;
      for (const uint32_t of_group : kernel.launch().items()) items *= of_group;
      EXPECT_LE(kernel.cost().flops() / items, kMaxOperations)
          << kernel.name() << " by " << items << " items: " << kernel.schedule();
    }
  }
};

TEST_P(GpuModels, ResNet50) { ExpectSharedOut(bench::ResNet50()); }
TEST_P(GpuModels, Gpt2) { ExpectSharedOut(bench::Gpt2(64)); }

TEST_P(GpuModels, OddProducts) {
  for (const int64_t rows : {7, 10, 31, 49, 100, 333}) {
    for (const int64_t columns : {8, 10, 49, 196, 1000}) {
      SCOPED_TRACE(absl::StrCat(rows, " x ", columns));
      client::Graph graph;
      const client::Tensor a = graph.Param(0, v1::FLOAT32, {rows, 1000}),
                           b = graph.Param(1, v1::FLOAT32, {1000, columns});
      graph.Output(client::Matmul(a, b));
      ExpectSharedOut(graph.Build().value());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cards, GpuModels, ::testing::Values("sm_90a", "gfx942"));

}  // namespace
}  // namespace kiln::testing
