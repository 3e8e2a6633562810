// Elementwise functions and softmax on one thread, as programs that the CPU
// target compiled: the kernel alone, its arguments in place.
//
// Beside each stands a plain C++ loop over glibc's function on the same values.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "client/cpp/ops.h"
#include "tests/support/engines/cpu_engine.h"

namespace kiln::bench {
namespace {

using client::Shape;
using client::Tensor;

struct Work {
  std::string name;
  Shape shape;
  Tensor (*program)(Tensor);
  void (*plain)(const float* x, float* y, int64_t count);
};

template <float (*f)(float)>
void Each(const float* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = f(x[i]);
}

float Cube(float x) { return std::pow(x, 2.5f); }
float Sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

void SoftmaxRows(const float* x, float* y, int64_t count) {
  for (int64_t row = 0; row < count; row += 1024, x += 1024, y += 1024) {
    float most = x[0], sum = 0;
    for (int i = 1; i < 1024; ++i) most = std::max(most, x[i]);
    for (int i = 0; i < 1024; ++i) sum += y[i] = std::exp(x[i] - most);
    for (int i = 0; i < 1024; ++i) y[i] /= sum;
  }
}

const Shape kMillion = {1 << 20};

const std::vector<Work>& Works() {
  static const auto& works = *new std::vector<Work>{
      {"exp2", kMillion, client::Exp2, Each<std::exp2>},
      {"log2", kMillion, client::Log2, Each<std::log2>},
      {"sin", kMillion, client::Sin, Each<std::sin>},
      {"pow(x, 2.5)", kMillion, [](Tensor x) { return client::Pow(x, 2.5); }, Each<Cube>},
      {"tanh", kMillion, client::Tanh, Each<std::tanh>},
      {"sigmoid", kMillion, client::Sigmoid, Each<Sigmoid>},
      {"softmax 512x1024", {512, 1024}, [](Tensor x) { return client::Softmax(x, -1); }, SoftmaxRows},
  };
  return works;
}

// The best of several turns, the two in alternation.
nlohmann::json Measure(testing::CpuEngine& engine, const Work& work, int turns) {
  client::Graph graph;
  graph.Output(work.program(graph.Param(0, v1::FLOAT32, work.shape)));
  const auto message = graph.Build();
  KILN_CHECK(message.ok());
  const auto program = engine.Load(*message, {});
  KILN_CHECK(program.ok());

  int64_t count = 1;
  for (int64_t size : work.shape) count *= size;
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(0.001f, 20);
  std::vector<float> x(static_cast<size_t>(count)), y(x.size());
  for (float& value : x) value = uniform(random);
  compiler::HostTensors arguments;
  arguments[0].dtype = compiler::DType::kFloat32;
  arguments[0].shape.assign(work.shape.begin(), work.shape.end());
  arguments[0].bytes.assign(reinterpret_cast<const char*>(x.data()), x.size() * sizeof(float));

  double ours = 1e9, plain = 1e9;
  for (int turn = 0; turn < turns; ++turn) {
    const auto seconds = engine.BestSeconds(*program, arguments, 10);
    KILN_CHECK(seconds.ok());
    ours = std::min(ours, *seconds);
    const auto start = std::chrono::steady_clock::now();
    work.plain(x.data(), y.data(), count);
    plain = std::min(plain, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  const double rate = static_cast<double>(count) / 1e9;
  std::printf("| %s | %.2f | %.1f | %.2f | %.1f |\n", work.name.c_str(), rate / ours, 8 * rate / ours, rate / plain,
              plain / ours);
  std::fflush(stdout);
  return {{"name", work.name}, {"gelems", rate / ours}, {"plain_gelems", rate / plain}};
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
  CLI::App app{"Measures elementwise functions and softmax on one thread."};
  bool smoke = false;
  int turns = 10;
  std::string json_path;
  app.add_flag("--smoke", smoke, "One turn, as a test");
  app.add_option("--turns", turns, "Turns of each, of which the best counts")->check(CLI::PositiveNumber);
  app.add_option("--json", json_path, "Also write the figures here");
  CLI11_PARSE(app, argc, argv);
  if (smoke) turns = 1;

  kiln::testing::CpuEngine engine(/*threads=*/1);
  nlohmann::json json;
  std::printf("| float32, 1M elements | Gelem/s | GB/s | plain loop, Gelem/s | faster by |\n|---|---|---|---|---|\n");
  for (const kiln::bench::Work& work : kiln::bench::Works()) json.push_back(kiln::bench::Measure(engine, work, turns));
  if (!json_path.empty()) std::ofstream(json_path) << json.dump(2) << "\n";
  return 0;
}
