// What the bounds proof must decide without help: every access of the demo's training
// steps and of matrix products. A gate there would be a comparison in the innermost
// loop.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "client/cpp/graph.h"
#include "client/cpp/ops.h"
#include "client/demo/model.h"
#include "compiler/compile.h"
#include "compiler/gradient/gradient.h"
#include "tests/support/cpu_targets.h"
#include "tests/support/program_builder.h"

namespace kiln::testing {
namespace {

class Gates : public ::testing::TestWithParam<CpuModel> {
 protected:
  // The gates of each kernel that has some: "k3_map_8: 1".
  std::vector<std::string> Of(const v1::Graph& graph) {
    const auto executable = compiler::Compile(graph, TargetOf(GetParam()), compiler::Options());
    EXPECT_TRUE(executable.ok()) << executable.status();
    std::vector<std::string> gated;
    if (!executable.ok()) return gated;
    EXPECT_GT(executable->kernels_size(), 0);
    for (const v1::Kernel& kernel : executable->kernels()) {
      if (kernel.gates() > 0) gated.push_back(absl::StrCat(kernel.symbol(), ": ", kernel.gates()));
    }
    return gated;
  }
};

const std::vector<std::string> kNone;

TEST_P(Gates, NoneInTheDemo) {
  for (const demo::Architecture architecture : {demo::Architecture::kConv, demo::Architecture::kMlp}) {
    for (const demo::StepOptions& options :
         {demo::StepOptions{.images = 8985, .batch = 32}, demo::StepOptions{.images = 1797, .batch = 7}}) {
      v1::GradientRequest request;
      *request.mutable_graph() = demo::Loss(architecture, options).value();
      for (const uint32_t slot : demo::WeightSlots(architecture)) request.add_wrt_slot(slot);
      request.set_include_results(true);
      const auto gradient = compiler::Gradient(request, compiler::Limits());
      ASSERT_TRUE(gradient.ok()) << gradient.status();
      const auto step = demo::TrainingStep(architecture, options, *gradient);
      ASSERT_TRUE(step.ok()) << step.status();
      EXPECT_EQ(Of(*step), kNone);
      EXPECT_EQ(Of(demo::Prediction(architecture, options.images).value()), kNone);
    }
  }
}

struct Product {
  client::Shape a, b;
};

TEST_P(Gates, NoneInMatrixProducts) {
  const Product products[] = {{{256, 256}, {256, 256}}, {{64, 128}, {128, 32}},  {{1, 784}, {784, 10}},
                              {{127, 129}, {129, 131}}, {{3, 5}, {5, 7}},        {{17, 1}, {1, 1023}},
                              {{1000, 33}, {33, 9}},    {{4, 65, 31}, {31, 66}}, {{5, 37, 11}, {5, 11, 19}}};
  for (const v1::DType dtype : {v1::FLOAT32, v1::FLOAT64, v1::FLOAT16, v1::INT8}) {
    for (const Product& product : products) {
      client::Graph graph;
      const client::Tensor a = graph.Param(0, dtype, product.a), b = graph.Param(1, dtype, product.b);
      const client::Tensor c = client::Matmul(a, b);
      graph.Output(c);
      graph.Output(client::Relu(c));
      const auto built = graph.Build();
      ASSERT_TRUE(built.ok()) << built.status();
      EXPECT_EQ(Of(*built), kNone) << product.a[0];
    }
  }
}

// The count counts: an index from memory may be anything, in a program that neither
// clamps nor checks it.
TEST_P(Gates, OneForAnIndexFromMemory) {
  ProgramBuilder p;
  const Node out = p.Global(0, compiler::DType::kInt32, {8});
  const Node places = p.Global(1, compiler::DType::kInt32, {8});
  const Node i = p.Loop(8, 0);
  p.Store(p.At(out, {p.Load(p.At(places, {i}))}), i);
  p.End(i);
  EXPECT_EQ(Of(p.Finish("scatter")).size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Cpus, Gates, ::testing::ValuesIn(CpuModels()),
                         [](const auto& info) { return info.param.arch; });

}  // namespace
}  // namespace kiln::testing
