// Kernels that fill and read back a buffer too large for the cache, as one that goes through it slice by
// slice (compiler/schedule/chain/chain.h): the interpreter's values, and the same bits on any number of threads.
// The machine compiled for has small caches, so that small tensors do.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/graph.h"
#include "client/cpp/ops.h"
#include "compiler/compile.h"
#include "runtime/hal/device.h"
#include "tests/support/cpu_targets.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

using client::Shape;
using client::Tensor;
using Tensors = std::vector<Tensor>;

struct Case {
  std::string name;
  std::vector<Shape> shapes;  // of the parameters
  Tensors (*program)(client::Graph& graph, const Tensors& in);
  int kernels = 1;  // that there are
  int chains = 1;   // of these
  v1::DType dtype = v1::FLOAT32;
};

Tensor Scores(const Tensors& in) { return client::Matmul(in[0], client::Transpose(in[1])) * 0.5; }
Tensor Attend(const Tensor& scores, const Tensor& values) {
  return client::Matmul(client::Softmax(scores, -1), values);
}
Tensors Attention(client::Graph&, const Tensors& in) { return {Attend(Scores(in), in[2])}; }
Tensors Masked(client::Graph&, const Tensors& in) { return {Attend(Scores(in) + in[3], in[2])}; }
Tensors Causal(client::Graph& graph, const Tensors& in) {
  const Tensor rows = client::Reshape(graph.Arange(in[0].dim(-2)), {in[0].dim(-2), 1});
  const Tensor columns = graph.Arange(in[1].dim(-2));
  return {Attend(client::Where(columns <= rows, Scores(in), -INFINITY), in[2])};
}
Tensors TwoProducts(client::Graph&, const Tensors& in) {
  return {client::Matmul(client::Matmul(in[0], client::Transpose(in[1])), in[2])};
}
Tensors WithResidual(client::Graph&, const Tensors& in) { return {Attend(Scores(in), in[2]) * 0.25 + in[0]}; }
Tensors EndsInSoftmax(client::Graph&, const Tensors& in) { return {client::Softmax(Scores(in), -1)}; }
// What others want, too, is in memory.
Tensors ScoresAreAResult(client::Graph&, const Tensors& in) {
  const Tensor scores = Scores(in);
  return {Attend(scores, in[2]), scores};
}
Tensors WeightsAreReadTwice(client::Graph&, const Tensors& in) {
  const Tensor weights = client::Softmax(Scores(in), -1);
  return {client::Matmul(weights, in[2]), client::Matmul(weights, in[1])};
}
// The columns of the scores, which no block of their rows has.
Tensors AcrossRows(client::Graph&, const Tensors& in) {
  return {client::Matmul(client::Transpose(client::Softmax(Scores(in), -1)), in[0])};
}
Tensors Heads(client::Graph&, const Tensors& in) {  // (batch, length, heads, width), as projections leave them
  const auto split = [](const Tensor& x) { return client::Permute(x, {0, 2, 1, 3}); };
  return {client::Permute(Attend(Scores({split(in[0]), split(in[1])}), split(in[2])), {0, 2, 1, 3})};
}
Tensors InPlace(client::Graph& graph, const Tensors& in) { return {graph.Assign(in[0], Attend(Scores(in), in[2]))}; }

const Case kCases[] = {
    {"plain", {{8, 64, 8}, {8, 48, 8}, {8, 48, 8}}, Attention},
    {"one head", {{96, 16}, {64, 16}, {64, 16}}, Attention},
    {"of an odd size", {{3, 37, 9}, {3, 53, 9}, {3, 53, 11}}, Attention},
    {"of few rows", {{32, 8, 8}, {32, 24, 8}, {32, 24, 8}}, Attention},
    {"of several batches", {{2, 3, 24, 8}, {2, 3, 40, 8}, {2, 3, 40, 8}}, Attention},
    {"keys of all heads", {{6, 24, 8}, {1, 40, 8}, {1, 40, 8}}, Attention},
    {"masked", {{4, 24, 8}, {4, 40, 8}, {4, 40, 8}, {24, 40}}, Masked},
    {"masked by keys", {{4, 24, 8}, {4, 40, 8}, {4, 40, 8}, {4, 1, 40}}, Masked},
    {"causal", {{4, 40, 8}, {4, 40, 8}, {4, 40, 8}}, Causal, 5, 1},
    {"causal, odd", {{3, 43, 8}, {3, 43, 8}, {3, 43, 8}}, Causal, 6, 1},
    {"two products", {{2, 48, 8}, {2, 64, 8}, {2, 64, 8}}, TwoProducts},
    {"with a residual", {{4, 24, 8}, {4, 40, 8}, {4, 40, 8}}, WithResidual},
    {"heads inside", {{2, 24, 4, 8}, {2, 40, 4, 8}, {2, 40, 4, 8}}, Heads},
    {"half precision", {{4, 64, 8}, {4, 96, 8}, {4, 96, 8}}, Attention, 1, 1, v1::FLOAT16},
    {"ends in softmax", {{8, 32, 4}, {8, 48, 4}}, EndsInSoftmax},
    {"ends in softmax, odd: rows are kept in the result", {{2, 47, 4}, {2, 64, 4}}, EndsInSoftmax, 2, 0},
    {"scores are a result", {{4, 24, 8}, {4, 40, 8}, {4, 40, 8}}, ScoresAreAResult, 2, 1},
    {"weights are read twice", {{4, 24, 8}, {4, 40, 8}, {4, 40, 8}}, WeightsAreReadTwice, 3, 1},
    {"across rows", {{1, 40, 8}, {1, 48, 8}}, AcrossRows, 3, 0},
    {"in place", {{4, 24, 8}, {4, 40, 8}, {4, 40, 8}}, InPlace, 2, 1},
    {"small enough for the cache", {{2, 16, 8}, {2, 24, 8}, {2, 24, 8}}, Attention, 3, 0},
};

compiler::HostTensor Random(const Shape& shape, v1::DType dtype) {
  compiler::HostTensor tensor;
  tensor.dtype = compiler::FromWire(dtype);
  tensor.shape.assign(shape.begin(), shape.end());
  std::mt19937 random(static_cast<uint32_t>(shape.back()));
  for (int64_t i = 0; i < compiler::NumElements(tensor.shape); ++i) {
    const float value = static_cast<float>(random() % 4096) / 1024 - 2;
    if (dtype == v1::FLOAT16) {
      const auto half = static_cast<_Float16>(value);
      tensor.bytes.append(reinterpret_cast<const char*>(&half), sizeof(half));
    } else {
      tensor.bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
  }
  return tensor;
}

std::vector<double> ValuesOf(const compiler::HostTensor& tensor) {
  std::vector<double> values;
  const bool half = tensor.dtype == compiler::DType::kFloat16;
  for (size_t at = 0; at < tensor.bytes.size(); at += half ? 2 : 4) {
    _Float16 narrow;
    float wide;
    std::memcpy(&narrow, &tensor.bytes[at], sizeof(narrow));
    if (!half) std::memcpy(&wide, &tensor.bytes[at], sizeof(wide));
    values.push_back(half ? static_cast<double>(narrow) : wide);
  }
  return values;
}

v1::Target SmallCaches(const v1::Target& target) {
  v1::Target small = target;
  small.mutable_tuning()->set_l2_bytes(8 << 10);
  small.mutable_tuning()->set_l3_bytes(8 << 10);
  return small;
}

// What is chained is said of vectors of 64 bytes. With narrower ones a product's tiles are smaller, and in some of
// the cases a slice would read again too much.
std::vector<CpuModel> WideCpus() {
  std::vector<CpuModel> wide;
  for (const CpuModel& cpu : CpuModels()) {
    if (cpu.vector_bytes == 64) wide.push_back(cpu);
  }
  return wide;
}

void ExpectNear(const compiler::HostTensor& got, const compiler::HostTensor& want) {
  const std::vector<double> a = ValuesOf(got), b = ValuesOf(want);
  ASSERT_EQ(a.size(), b.size());
  double most = 1;  // what sums of it are rounded to
  for (double value : b) most = std::max(most, std::abs(value));
  const double bound = got.dtype == compiler::DType::kFloat16 ? 8e-3 : 1e-5;
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], bound * most) << "element " << i;
}

class Chains : public ::testing::Test {
 protected:
  Chains() {
    for (CpuEngine* engine : {&one_, &several_}) engine->set_target(SmallCaches(engine->device().target()));
  }

  // The program as it is compiled for a CPU with small caches.
  static v1::Executable Compiled(const v1::Graph& graph, const CpuModel& cpu, const compiler::Options& options = {}) {
    const auto made = compiler::Compile(graph, SmallCaches(TargetOf(cpu)), options);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.value_or(v1::Executable());
  }

  static int ChainsIn(const v1::Executable& executable) {
    return static_cast<int>(std::count_if(executable.kernels().begin(), executable.kernels().end(),
                                          [](const auto& kernel) { return absl::StartsWith(kernel.name(), "chain"); }));
  }

  v1::Graph GraphOf(const Case& test) {
    client::Graph graph;
    Tensors in;
    arguments_.clear();
    for (const Shape& shape : test.shapes) {
      const auto slot = static_cast<uint32_t>(in.size());
      in.push_back(graph.Param(slot, test.dtype, shape));
      arguments_[slot] = Random(shape, test.dtype);
    }
    for (const Tensor& result : test.program(graph, in)) graph.Output(result);
    const auto built = graph.Build();
    EXPECT_TRUE(built.ok()) << built.status();
    return built.value_or(v1::Graph());
  }

  // That values are the interpreter's, chained or not, and of the same bits on any number of threads.
  void CheckValues(const v1::Graph& graph) {
    const auto want = RunInterpreted(graph, arguments_);
    ASSERT_TRUE(want.ok()) << want.status();
    std::vector<std::string> bytes;
    for (CpuEngine* engine : {&one_, &several_}) {
      for (bool chained : {true, false}) {
        SCOPED_TRACE(chained ? "chained" : "one after the other");
        compiler::Options options;
        if (!chained) options.disabled_passes = {"chain kernels"};
        const auto got = engine->Run(graph, arguments_, options);
        ASSERT_TRUE(got.ok()) << got.status();
        for (size_t i = 0; i < want->results.size(); ++i) ExpectNear(got->results[i], want->results[i]);
        for (const auto& [slot, tensor] : want->written) ExpectNear(got->written.at(slot), tensor);
        if (chained && !got->results.empty()) bytes.push_back(got->results[0].bytes);
      }
    }
    if (!bytes.empty()) {
      EXPECT_EQ(bytes.front(), bytes.back()) << "on one thread, and on several";
    }
  }

  CpuEngine one_{1}, several_{3};
  compiler::HostTensors arguments_;
};

TEST_F(Chains, HaveTheInterpretersValues) {
  for (const Case& test : kCases) {
    SCOPED_TRACE(test.name);
    const v1::Graph graph = GraphOf(test);
    for (const CpuModel& cpu : WideCpus()) {
      const v1::Executable made = Compiled(graph, cpu);
      EXPECT_EQ(ChainsIn(made), test.chains) << cpu.arch;
      EXPECT_EQ(made.steps_size(), test.kernels) << cpu.arch;
      if (test.chains == test.kernels) {
        EXPECT_EQ(made.arena_bytes(), 0) << cpu.arch << ": nothing is left between kernels";
      }
    }
    CheckValues(graph);
  }
}

TEST_F(Chains, OfAnySize) {
  std::mt19937 random(7);
  const auto size = [&](int most) { return static_cast<int64_t>(1 + random() % static_cast<uint32_t>(most)); };
  const std::vector<CpuModel> wide = WideCpus();
  int chains = 0;
  for (size_t i = 0; i < 24; ++i) {
    const int64_t heads = size(5), rows = 16 + size(48), keys = 16 + size(48), width = size(8);
    SCOPED_TRACE(absl::StrCat(heads, " x ", rows, " x ", keys, " x ", width, ", case ", i % 4));
    const Case test = {"",
                       {{heads, rows, width}, {heads, keys, width}, {heads, keys, width}},
                       std::array{Attention, Causal, TwoProducts, EndsInSoftmax}[i % 4]};
    const v1::Graph graph = GraphOf(test);
    chains += ChainsIn(Compiled(graph, wide[i / 4 % wide.size()]));
    CheckValues(graph);
  }
  EXPECT_GE(chains, 8);
}

// A copy of a constant is made beforehand, inside of a chain as elsewhere.
TEST_F(Chains, OfConstants) {
  const v1::Graph graph = GraphOf({"", {{6, 24, 8}, {1, 40, 8}, {1, 40, 8}}, Attention});
  compiler::Options options;
  options.constants = {1, 2};
  for (const CpuModel& cpu : WideCpus()) EXPECT_EQ(ChainsIn(Compiled(graph, cpu, options)), 1) << cpu.arch;
  const auto want = RunInterpreted(graph, arguments_);
  ASSERT_TRUE(want.ok()) << want.status();
  const auto program = several_.Load(graph, options);
  ASSERT_TRUE(program.ok()) << program.status();
  for (int run = 0; run < 2; ++run) {
    const auto got = several_.RunLoaded(*program, arguments_);
    ASSERT_TRUE(got.ok()) << got.status();
    ExpectNear(got->results[0], want->results[0]);
  }
}

}  // namespace
}  // namespace kiln::testing
