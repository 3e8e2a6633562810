// Every rule of the gradient, in float64, against central differences: of the
// program, and for smooth ones of the gradient's own program.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "compiler/gradient/gradient.h"
#include "tests/gradient/gradient_cases.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"
#include "tests/support/random.h"

namespace kiln::testing {
namespace {

using compiler::DType;
using compiler::HostTensor;
using compiler::HostTensors;

constexpr uint32_t kCotangent = 100;
constexpr uint32_t kSecond = 101;

double At(const HostTensor& tensor, size_t i) {
  double value;
  std::memcpy(&value, tensor.bytes.data() + 8 * i, 8);
  return value;
}

void Put(HostTensor& tensor, size_t i, double value) { std::memcpy(tensor.bytes.data() + 8 * i, &value, 8); }

size_t Count(const HostTensor& tensor) { return tensor.bytes.size() / 8; }

// Numbers that differ by more than the step of the differences, in no order.
HostTensor Numbers(const client::Shape& shape, double low, double high, Random& random) {
  HostTensor tensor{DType::kFloat64, compiler::Shape(shape.begin(), shape.end()), ""};
  const auto count = static_cast<size_t>(compiler::NumElements(tensor.shape));
  tensor.bytes.resize(8 * count);
  for (size_t i = 0; i < count; ++i) {
    Put(tensor, i, low + (high - low) * (0.01 + 0.98 * static_cast<double>(random.Below(9973)) / 9973));
  }
  return tensor;
}

// A program with numbers for its slots.
struct Program {
  v1::Graph graph;
  HostTensors arguments;
  std::vector<uint32_t> slots;  // inputs; kCotangent comes besides
};

Program MakeProgram(const GradientCase& c) {
  Random random(7);
  Program program;
  client::Graph builder;
  std::vector<client::Tensor> inputs;
  for (uint32_t slot = 0; slot < c.inputs.size(); ++slot) {
    inputs.push_back(builder.Param(slot, v1::FLOAT64, c.inputs[slot]));
    program.arguments[slot] = Numbers(c.inputs[slot], c.low, c.high, random);
    program.slots.push_back(slot);
  }
  const client::Tensor result = c.make(inputs);
  builder.Output(result);
  // So that every slot is in the program, used or not.
  for (const client::Tensor& input : inputs) builder.Output(input);
  const auto graph = builder.Build();
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (graph.ok()) program.graph = *graph;
  program.arguments[kCotangent] = Numbers(result.shape(), 0.5, 1.5, random);
  program.arguments[kSecond] = Numbers(c.inputs[0], 0.5, 1.5, random);
  return program;
}

absl::StatusOr<v1::Graph> GradientOf(const v1::Graph& graph, const std::vector<uint32_t>& slots, uint32_t cotangent,
                                     bool include_results) {
  v1::GradientRequest request;
  *request.mutable_graph() = graph;
  request.mutable_wrt_slot()->Add(slots.begin(), slots.end());
  request.set_cotangent_slot(cotangent);
  request.set_include_results(include_results);
  KILN_ASSIGN_OR_RETURN(v1::GradientResponse response, compiler::Gradient(request, compiler::Limits()));
  return response.graph();
}

// Result 0 of `graph`, weighted with what is in slot `weights`, and summed.
double Weighted(const v1::Graph& graph, const HostTensors& arguments, uint32_t weights) {
  const auto run = RunInterpreted(graph, arguments);
  EXPECT_TRUE(run.ok()) << run.status();
  if (!run.ok()) return 0;
  const HostTensor& result = run->results[0];
  double sum = 0;
  for (size_t i = 0; i < Count(result); ++i) sum += At(result, i) * At(arguments.at(weights), i);
  return sum;
}

// How that sum changes with element i of a slot, by differences of fourth order:
// steps -2h, -h, h, 2h.
double Slope(const v1::Graph& graph, HostTensors arguments, uint32_t weights, uint32_t slot, size_t i) {
  const double x = At(arguments.at(slot), i), h = 1e-4;
  double sums[4];
  for (int k = 0; k < 4; ++k) {
    Put(arguments.at(slot), i, x + (k < 2 ? k - 2 : k - 1) * h);
    sums[k] = Weighted(graph, arguments, weights);
  }
  return (sums[0] - 8 * sums[1] + 8 * sums[2] - sums[3]) / (12 * h);
}

// `gradient` gives the derivatives by all slots, as differences of `graph` do; and
// compiled, if asked for, the same as interpreted.
void ExpectGradient(const v1::Graph& graph, const v1::Graph& gradient, const Program& program, uint32_t weights,
                    bool compile) {
  const auto run = RunInterpreted(gradient, program.arguments);
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ(run->results.size(), program.slots.size());
  const auto compiled = compile ? CpuEngine().Run(gradient, program.arguments, ExactOptions()) : run;
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  for (uint32_t slot : program.slots) {
    const HostTensor& exact = run->results[slot];
    ASSERT_EQ(exact.shape, program.arguments.at(slot).shape);
    for (size_t i = 0; i < Count(exact); ++i) {
      const double slope = Slope(graph, program.arguments, weights, slot, i);
      const double scale = std::max(1.0, std::abs(slope));
      EXPECT_NEAR(At(exact, i), slope, 1e-7 * scale) << "slot " << slot << " [" << i << "]";
      EXPECT_NEAR(At(compiled->results[slot], i), At(exact, i), 1e-11 * scale) << "slot " << slot << " [" << i << "]";
    }
  }
}

class FiniteDifferences : public ::testing::TestWithParam<GradientCase> {};

TEST_P(FiniteDifferences, AgreeWithTheGradient) {
  const Program program = MakeProgram(GetParam());
  const auto gradient = GradientOf(program.graph, program.slots, kCotangent, false);
  ASSERT_TRUE(gradient.ok()) << gradient.status();
  ExpectGradient(program.graph, *gradient, program, kCotangent, /*compile=*/true);
}

TEST_P(FiniteDifferences, AgreeWithTheGradientsGradient) {
  const Program program = MakeProgram(GetParam());
  auto first = GradientOf(program.graph, {0}, kCotangent, /*include_results=*/true);
  ASSERT_TRUE(first.ok()) << first.status();
  // The gradient becomes result 0; the program's results keep every slot in use.
  v1::UOp& root = *first->mutable_nodes(first->nodes_size() - 1);
  root.mutable_src()->SwapElements(0, root.src_size() - 1);
  const auto second = GradientOf(*first, program.slots, kSecond, false);
  ASSERT_TRUE(second.ok()) << second.status();
  ExpectGradient(*first, *second, program, kSecond, /*compile=*/false);
}

INSTANTIATE_TEST_SUITE_P(All, FiniteDifferences, ::testing::ValuesIn(GradientCases()), [](const auto& info) {
  std::string name = info.param.name;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

}  // namespace
}  // namespace kiln::testing
