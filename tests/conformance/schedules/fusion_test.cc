// What reduces along rows and then works on the same rows is one kernel, with the
// interpreter's values, whatever the sizes; and as many bits on one thread as on several.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "absl/strings/str_cat.h"
#include "client/cpp/graph.h"
#include "client/cpp/ops.h"
#include "compiler/compile.h"
#include "runtime/exec/load.h"
#include "tests/support/cpu_programs.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

using client::Shape;
using client::Tensor;

struct Case {
  std::string name;
  std::function<Tensor(Tensor x, Tensor weight)> program;  // x (rows, columns), weight (columns)
};

Tensor RmsNorm(Tensor x) { return x * client::Rsqrt(client::Mean(client::Square(x), -1, true) + 1e-5); }
Tensor LogSumExp(Tensor x) {
  const Tensor most = client::Max(x, -1, true);
  return client::Log(client::Sum(client::Exp(x - most), -1, true)) + most;
}

const Case kCases[] = {
    {"Sum", [](Tensor x, Tensor) { return client::Sum(x, 1); }},
    {"Max", [](Tensor x, Tensor) { return client::Max(x, 1); }},
    {"Columns", [](Tensor x, Tensor) { return client::Sum(x, 0); }},
    {"Softmax", [](Tensor x, Tensor) { return client::Softmax(x, -1); }},
    {"LogSoftmax", [](Tensor x, Tensor) { return client::LogSoftmax(x, -1); }},
    {"LogSumExp", [](Tensor x, Tensor) { return LogSumExp(x); }},
    {"LayerNorm", [](Tensor x, Tensor weight) { return client::LayerNorm(x, weight, weight); }},
    {"RmsNorm", [](Tensor x, Tensor weight) { return RmsNorm(x) * weight; }},
    {"Twice", [](Tensor x, Tensor) { return client::Softmax(client::Softmax(x, -1) * 3.0, -1); }},
    {"Centred", [](Tensor x, Tensor) { return x / (client::Max(x, -1, true) - client::Mean(x, -1, true) + 1.0); }},
};

std::vector<float> Floats(const compiler::HostTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

compiler::HostTensor Random(const Shape& shape) {
  compiler::HostTensor tensor;
  tensor.dtype = compiler::DType::kFloat32;
  tensor.shape.assign(shape.begin(), shape.end());
  std::mt19937 random(1);
  for (int64_t i = 0; i < compiler::NumElements(tensor.shape); ++i) {
    const float value = static_cast<float>(random() % 4096) / 512 - 4;
    tensor.bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return tensor;
}

v1::Graph GraphOf(const Case& test, const Shape& shape) {
  client::Graph graph;
  const Tensor x = graph.Param(0, v1::FLOAT32, shape);
  graph.Output(test.program(x, graph.Param(1, v1::FLOAT32, {shape[1]})));
  const auto built = graph.Build();
  EXPECT_TRUE(built.ok()) << built.status();
  return *built;
}

// On each CPU that tests name.
void ExpectSteps(const v1::Graph& graph, int steps) {
  for (const auto& [cpu, executable] : CompiledForEachCpu(graph)) EXPECT_EQ(executable.steps_size(), steps) << cpu;
}

TEST(Fusion, OneKernelWithTheInterpretersValues) {
  CpuEngine one(/*threads=*/1), several(/*threads=*/3);
  for (const Case& test : kCases) {
    for (const Shape& shape : {Shape{64, 128}, Shape{33, 100}, Shape{9, 257}, Shape{128, 3}, Shape{16, 2048}}) {
      SCOPED_TRACE(absl::StrCat(test.name, " of ", shape[0], "x", shape[1]));
      const v1::Graph graph = GraphOf(test, shape);
      const compiler::HostTensors arguments = {{0, Random(shape)}, {1, Random({shape[1]})}};
      if (test.name != "Twice") ExpectSteps(graph, 1);
      const auto got = one.Run(graph, arguments, {});
      const auto same = several.Run(graph, arguments, {});
      const auto want = RunInterpreted(graph, arguments);
      ASSERT_TRUE(got.ok() && same.ok() && want.ok()) << want.status();
      EXPECT_EQ(got->results[0].bytes, same->results[0].bytes);
      const std::vector<float> ours = Floats(got->results[0]), theirs = Floats(want->results[0]);
      ASSERT_EQ(ours.size(), theirs.size());
      for (size_t i = 0; i < ours.size(); ++i)
        ASSERT_NEAR(ours[i], theirs[i], 1e-5 * std::max(1.0f, std::abs(theirs[i]))) << i;
    }
  }
}

// Not a NaN is lost, wherever in a row it stands.
TEST(Fusion, AMaximumPassesNaNOn) {
  CpuEngine engine(/*threads=*/1);
  const Shape shape = {70, 70};
  compiler::HostTensor x = Random(shape);
  const float nan = std::nanf("");
  for (int64_t row = 1; row < 70; ++row) std::memcpy(x.bytes.data() + 4 * (row * 70 + row), &nan, 4);
  const auto got = engine.Run(GraphOf(kCases[1], shape), {{0, x}, {1, Random({70})}}, {});
  ASSERT_TRUE(got.ok()) << got.status();
  const std::vector<float> most = Floats(got->results[0]);
  EXPECT_FALSE(std::isnan(most[0]));
  for (size_t row = 1; row < 70; ++row) EXPECT_TRUE(std::isnan(most[row])) << row;
}

// A product is no reduction of rows: what its kernel would compute in its outer loops
// gets a kernel of its own.
TEST(Fusion, NormsDoNotGoIntoProducts) {
  client::Graph graph;
  const Tensor x = graph.Param(0, v1::FLOAT32, {64, 96});
  graph.Output(client::Matmul(x, graph.Param(1, v1::FLOAT32, {96, 32})) *
               client::Rsqrt(client::Mean(client::Square(x), -1, true) + 1e-5));
  ExpectSteps(*graph.Build(), 2);
}

// That `graph` takes so many steps, and its values are the interpreter's.
void ExpectStepsAndValues(const v1::Graph& graph, const compiler::HostTensors& arguments, int steps) {
  ExpectSteps(graph, steps);
  const auto want = RunInterpreted(graph, arguments);
  const auto got = CpuEngine(/*threads=*/1).Run(graph, arguments, {});
  ASSERT_TRUE(want.ok() && got.ok()) << want.status() << got.status();
  for (size_t result = 0; result < want->results.size(); ++result) {
    const std::vector<float> ours = Floats(got->results[result]), theirs = Floats(want->results[result]);
    EXPECT_EQ(ours.size(), theirs.size());
    for (size_t i = 0; i < ours.size(); ++i)
      EXPECT_NEAR(ours[i], theirs[i], 1e-4 * std::max(1.0f, std::abs(theirs[i]))) << i;
  }
}

// A row's loss is a kernel, however it is spelled; their mean is one more.
TEST(Fusion, CrossEntropyIsOneKernelOfRows) {
  const auto labels_of = [](int64_t rows, int64_t classes) {
    compiler::HostTensor labels;
    labels.dtype = compiler::DType::kInt32;
    labels.shape = {rows};
    for (int64_t row = 0; row < rows; ++row) {
      const auto label = static_cast<int32_t>(row * 31 % classes);
      labels.bytes.append(reinterpret_cast<const char*>(&label), sizeof(label));
    }
    return labels;
  };
  using Program = Tensor (*)(Tensor x, Tensor labels);
  struct Loss {
    const char* name;
    Program program;
    int steps;
  };
  const Program row = [](Tensor x, Tensor labels) {
    return -client::Sum(client::LogSoftmax(x, 1) * client::OneHot(labels, x.dim(1), v1::FLOAT32), 1);
  };
  const Program picked = [](Tensor x, Tensor labels) {
    const Tensor most = client::Max(x, 1, true);
    const Tensor sum = client::Log(client::Sum(client::Exp(x - most), 1, true)) + most;
    return client::Sum(sum - client::Gather(x, 1, client::Reshape(labels, {labels.dim(0), 1})), 1);
  };
  // With smoothing by a share of the mean, which may be 0.
  const Program smoothed = [](Tensor x, Tensor labels) {
    const Tensor logs = client::LogSoftmax(x, 1);
    const Tensor truth = client::OneHot(labels, x.dim(1), v1::FLOAT32);
    return -client::Sum(client::Sum(logs * truth, 1) * 0.9 + client::Mean(logs, 1) * 0.1, 0);
  };
  for (const Loss& loss : {
           Loss{"of each row", row, 1},
           Loss{"picked", picked, 1},
           Loss{"the mean", client::CrossEntropy, 2},
           Loss{"smoothed", smoothed, 2},
       }) {
    for (const Shape& shape : {Shape{64, 128}, Shape{33, 1000}, Shape{200, 10}}) {
      SCOPED_TRACE(absl::StrCat(loss.name, " ", shape[0], " x ", shape[1]));
      client::Graph graph;
      const Tensor x = graph.Param(0, v1::FLOAT32, shape);
      graph.Output(loss.program(x, graph.Param(1, v1::INT32, {shape[0]})));
      ExpectStepsAndValues(*graph.Build(), {{0, Random(shape)}, {1, labels_of(shape[0], shape[1])}}, loss.steps);
    }
  }
}

// A product reads its image often enough to copy it, with zeros around it; what reads it seldom has them in memory.
TEST(Fusion, APaddedImageHasNoKernelOfItsOwn) {
  for (const int64_t groups : {1, 16}) {
    client::Graph graph;
    const Tensor x = graph.Param(0, v1::FLOAT32, {1, 16, 9, 9});
    const Tensor weight = graph.Param(1, v1::FLOAT32, {32, 16 / groups, 3, 3});
    graph.Output(client::Conv2d(x, weight, Tensor(), {.padding = {1, 1}, .groups = groups}));
    const compiler::HostTensors arguments = {{0, Random({1, 16, 9, 9})}, {1, Random({32, 16 / groups, 3, 3})}};
    ExpectStepsAndValues(*graph.Build(), arguments, groups == 1 ? 1 : 2);
  }
}

// Each product has its registers to itself; what is added to the one is done where the other is finished.
TEST(Fusion, TwoProductsAddedAreTwoKernels) {
  client::Graph graph;
  const Tensor x = graph.Param(0, v1::FLOAT32, {33, 40}), y = graph.Param(1, v1::FLOAT32, {33, 48});
  const Tensor sum = client::Matmul(x, graph.Param(2, v1::FLOAT32, {40, 24})) +
                     client::Matmul(y, graph.Param(3, v1::FLOAT32, {48, 24}));
  graph.Output(client::Relu(sum + graph.Param(4, v1::FLOAT32, {24})));
  ExpectStepsAndValues(
      *graph.Build(),
      {{0, Random({33, 40})}, {1, Random({33, 48})}, {2, Random({40, 24})}, {3, Random({48, 24})}, {4, Random({24})}},
      2);
}

// What follows a product is stored with it where the next kernel cannot compute it: here, bias and residual, of
// which the norm makes sums and which the second result needs again.
TEST(Fusion, AProductIsFinishedWhereItIsStored) {
  client::Graph graph;
  const Tensor x = graph.Param(0, v1::FLOAT32, {40, 64}), weight = graph.Param(1, v1::FLOAT32, {64, 64});
  const Tensor bias = graph.Param(2, v1::FLOAT32, {64});
  const Tensor stream = client::Matmul(x, weight) + bias + x;
  graph.Output(client::LayerNorm(stream, bias, bias));
  graph.Output(stream * 2.0);
  const v1::Graph built = *graph.Build();
  ExpectStepsAndValues(built, {{0, Random({40, 64})}, {1, Random({64, 64})}, {2, Random({64})}}, 3);
  // Of the arena, only `stream` is in use: 40 x 64 floats.
  for (const auto& [cpu, executable] : CompiledForEachCpu(built))
    EXPECT_EQ(executable.arena_bytes(), 40u * 64 * 4) << cpu;
}

}  // namespace
}  // namespace kiln::testing
