// Kernels and whole models on the GPUs of this machine: seconds of their steps on the device, warm, the best of
// several runs. A large copy within the card's memory is the measure of what moves memory.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "client/cpp/ops.h"
#include "compiler/interp/scalar.h"
#include "runtime/exec/program.h"
#include "runtime/hal/device.h"
#include "tests/bench/models.h"
#include "tests/gpu/cards.h"

namespace kiln::testing {
namespace {

using client::Shape;
using client::Tensor;
using Inputs = std::vector<Tensor>;

struct Row {
  std::string name;
  double flops = 0, bytes = 0;  // whichever there is: TFLOP/s or GB/s; with neither, ms
  std::function<v1::Graph()> graph;
  bool fast_math = false;
};

v1::Graph GraphOf(const std::vector<Shape>& shapes, v1::DType dtype, const std::function<Tensor(const Inputs&)>& made) {
  client::Graph graph;
  Inputs inputs;
  for (const Shape& shape : shapes) inputs.push_back(graph.Param(static_cast<uint32_t>(inputs.size()), dtype, shape));
  graph.Output(made(inputs));
  auto message = graph.Build();
  KILN_CHECK(message.ok());
  return *std::move(message);
}

Tensor Attention(const Inputs& in) {
  const Tensor scores = client::Matmul(in[0], client::Transpose(in[1]));
  const double scale = 1 / std::sqrt(static_cast<double>(in[0].dim(-1)));
  return client::Matmul(client::Softmax(scores * scale, -1), in[2]);
}

Row Product(v1::DType dtype, const char* type, int64_t n) {
  const auto product = [](const Inputs& in) { return client::Matmul(in[0], in[1]); };
  return {.name = std::string(type) + " product " + std::to_string(n),
          .flops = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n),
          .graph = [=] { return GraphOf({{n, n}, {n, n}}, dtype, product); }};
}

// Of memory: `moved` times the elements of the first shape, in float32.
Row Moving(const std::string& name, double moved, std::vector<Shape> shapes,
           std::function<Tensor(const Inputs&)> made) {
  double elements = 1;
  for (const int64_t size : shapes[0]) elements *= static_cast<double>(size);
  return {.name = name, .bytes = 4 * moved * elements, .graph = [=] { return GraphOf(shapes, v1::FLOAT32, made); }};
}

std::vector<Row> Rows() {
  const Shape square = {4096, 4096}, large = {256 << 20};
  return {
      Moving("a*b+c, 256M", 4, {large, large, large}, [](const Inputs& in) { return in[0] * in[1] + in[2]; }),
      Moving("sum of all, 256M", 1, {large}, [](const Inputs& in) { return client::Sum(in[0]); }),
      Moving("sum of rows, 4096 x 4096", 1, {square}, [](const Inputs& in) { return client::Sum(in[0], 1); }),
      Moving("sum of columns, 4096 x 4096", 1, {square}, [](const Inputs& in) { return client::Sum(in[0], 0); }),
      Moving("softmax, 4096 x 4096", 2, {square}, [](const Inputs& in) { return client::Softmax(in[0], -1); }),
      Moving("layer norm, 4096 x 4096", 2, {square, {4096}, {4096}},
             [](const Inputs& in) { return client::LayerNorm(in[0], in[1], in[2]); }),
      Moving("transpose, 4096 x 4096", 2, {square}, [](const Inputs& in) { return client::Transpose(in[0]); }),
      Product(v1::FLOAT32, "float32", 1024),
      Product(v1::FLOAT32, "float32", 4096),
      Product(v1::FLOAT16, "float16", 4096),
      Product(v1::BFLOAT16, "bfloat16", 4096),
      Product(v1::BFLOAT16, "bfloat16", 8192),
      {.name = "attention, 12 x 2048 x 64",
       .flops = 4.0 * 12 * 2048 * 2048 * 64,
       .graph =
           [] {
             const Shape heads = {12, 2048, 64};
             return GraphOf({heads, heads, heads}, v1::FLOAT32, Attention);
           }},
      {.name = "ResNet-50, forward, batch 1", .graph = [] { return bench::ResNet50(); }},
      {.name = "GPT-2 small, forward, 64 tokens", .graph = [] { return bench::Gpt2(64); }},
  };
}

// A million numbers of a normal distribution, again and again; of integers, zeros.
compiler::HostTensors ArgumentsOf(const v1::Signature& signature) {
  constexpr size_t kPeriod = 1 << 20;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.05f);
  std::vector<float> numbers(kPeriod);
  std::generate(numbers.begin(), numbers.end(), [&] { return normal(random); });
  compiler::HostTensors arguments;
  for (const auto& parameter : signature.parameters()) {
    compiler::HostTensor& tensor = arguments[parameter.slot()];
    tensor.dtype = compiler::FromWire(parameter.dtype());
    tensor.shape.assign(parameter.shape().begin(), parameter.shape().end());
    tensor.bytes.assign(parameter.bytes(), '\0');
    if (!compiler::IsFloat(tensor.dtype)) continue;
    const auto size = static_cast<size_t>(compiler::ItemSize(tensor.dtype));
    std::string period(kPeriod * size, '\0');
    for (size_t i = 0; i < kPeriod; ++i) {
      const auto bits = std::bit_cast<uint32_t>(numbers[i]);
      compiler::StoreElement(tensor.dtype,
                             compiler::EvalScalar(compiler::Op::CAST, compiler::DType::kFloat32, tensor.dtype, {bits}),
                             &period[i * size]);
    }
    for (size_t done = 0; done < tensor.bytes.size(); done += period.size())
      period.copy(&tensor.bytes[done], std::min(period.size(), tensor.bytes.size() - done));
  }
  return arguments;
}

void Measure(DeviceEngine& engine, const Row& row, int turns) {
  compiler::Options options;
  options.fast_math = row.fast_math;
  auto program = engine.Load(row.graph(), options);
  if (!program.ok()) {
    std::printf("| %s | %s |\n", row.name.c_str(), std::string(program.status().message()).c_str());
    return;
  }
  const compiler::HostTensors arguments = ArgumentsOf((*program)->signature());
  const auto seconds = engine.BestSeconds(*program, arguments, turns);
  if (!seconds.ok()) {
    std::printf("| %s | %s |\n", row.name.c_str(), std::string(seconds.status().message()).c_str());
  } else if (row.flops > 0) {
    std::printf("| %s | %.3f ms | %.1f TFLOP/s |\n", row.name.c_str(), *seconds * 1e3, row.flops / *seconds * 1e-12);
  } else if (row.bytes > 0) {
    std::printf("| %s | %.3f ms | %.0f GB/s |\n", row.name.c_str(), *seconds * 1e3, row.bytes / *seconds * 1e-9);
  } else {
    std::printf("| %s | %.3f ms | |\n", row.name.c_str(), *seconds * 1e3);
  }
  std::fflush(stdout);
}

int Run(int argc, char** argv) {
  CLI::App app{"Kernels and models on each GPU of this machine, as a table in Markdown."};
  std::string only;
  int turns = 20;
  app.add_option("--only", only, "Only rows whose names contain this");
  app.add_option("--turns", turns, "Runs of each row; the best counts")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  const Cards cards = FindCards();
  if (cards.engines.empty()) {
    std::printf("there is no GPU:\n%s", cards.absent.c_str());
    return 0;
  }
  for (const auto& engine : cards.engines) {
    std::printf("\n%s: %s\n\n| work | best | |\n|---|---|---|\n", std::string(engine->device().name()).c_str(),
                std::string(engine->device().description()).c_str());
    for (const Row& row : Rows()) {
      if (row.name.find(only) != std::string::npos) Measure(*engine, row, turns);
    }
  }
  return 0;
}

}  // namespace
}  // namespace kiln::testing

int main(int argc, char** argv) { return kiln::testing::Run(argc, argv); }
