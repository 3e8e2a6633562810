// Where the time of a whole model goes, launch by launch: the program as the CPU target
// compiled it, its weights in place, each launch timed where it stands among the others.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "compiler/compile.h"
#include "compiler/ir/dtype.h"
#include "compiler/tools/dump_observer.h"
#include "runtime/exec/load.h"
#include "runtime/observer.h"
#include "tests/bench/models.h"
#include "tests/support/engines/cpu_engine.h"

namespace kiln::bench {
namespace {

const std::map<std::string, std::function<v1::Graph()>>& Models() {
  static const auto& models = *new std::map<std::string, std::function<v1::Graph()>>{
      {"resnet50", [] { return ResNet50(); }},
      {"gpt2", [] { return Gpt2(64); }},
  };
  return models;
}

v1::Graph GraphIn(const std::string& file) {
  v1::Graph graph;
  std::ifstream stream(file, std::ios::binary);
  KILN_CHECK(graph.ParseFromIstream(&stream));
  return graph;
}

// The shortest time of each launch over all runs.
class LaunchTimes : public runtime::RuntimeObserver {
 public:
  void OnRun(const runtime::RunRecord&) override { launch_ = 0; }
  bool WantsLaunches(uint64_t) const override { return true; }
  void OnLaunch(const runtime::LaunchRecord& record) override {
    if (launch_ == best_.size()) best_.push_back(record.seconds);
    best_[launch_] = std::min(best_[launch_], record.seconds);
    ++launch_;
  }
  const std::vector<double>& best() const { return best_; }

 private:
  size_t launch_ = 0;
  std::vector<double> best_;
};

compiler::HostTensors Arguments(const v1::Signature& signature) {
  compiler::HostTensors arguments;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02f);
  for (const auto& parameter : signature.parameters()) {
    compiler::HostTensor& tensor = arguments[parameter.slot()];
    tensor.dtype = compiler::FromWire(parameter.dtype());
    tensor.shape.assign(parameter.shape().begin(), parameter.shape().end());
    tensor.bytes.assign(parameter.bytes(), '\0');  // of integers: an index that every table has
    if (tensor.dtype != compiler::DType::kFloat32) continue;
    auto* values = reinterpret_cast<float*>(tensor.bytes.data());
    std::generate(values, values + tensor.bytes.size() / sizeof(float), [&] { return normal(random); });
  }
  return arguments;
}

// `plain`: weights are arguments like others.
void Profile(const v1::Graph& graph, uint32_t threads, int turns, size_t rows, bool plain, bool fast_math) {
  testing::CpuEngine engine(threads, testing::MeasuredCore());
  compiler::Options options;
  options.fast_math = fast_math;
  if (!plain) options.constants = WeightSlots(graph);
  const char* folder = std::getenv("KILN_DUMP");
  compiler::DumpObserver dump(folder == nullptr ? "" : folder);
  const auto executable =
      compiler::Compile(graph, engine.device().target(), options, folder == nullptr ? nullptr : &dump);
  KILN_CHECK(executable.ok());
  const auto program = engine.Load(*executable);
  KILN_CHECK(program.ok());
  const auto placed = engine.Place(*program, Arguments(executable->signature()));
  KILN_CHECK(placed.ok());
  const auto whole = engine.RunPlaced(*placed, turns);
  KILN_CHECK(whole.ok());
  LaunchTimes times;
  engine.set_observer(&times);
  KILN_CHECK(engine.RunPlaced(*placed, turns).ok());

  const double sum = std::accumulate(times.best().begin(), times.best().end(), 0.0);
  std::printf("%u threads, %d turns: %.2f ms a run; %zu launches, their best times together %.2f ms, arena %.1f MB\n",
              threads, turns, 1e3 * *std::min_element(whole->begin(), whole->end()), times.best().size(), 1e3 * sum,
              static_cast<double>(executable->arena_bytes()) / 1e6);
  std::printf("| launch | kernel | µs | share | GF/s | GB/s | schedule |\n|---|---|---|---|---|---|---|\n");
  std::vector<size_t> order(times.best().size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return times.best()[a] > times.best()[b]; });
  for (size_t launch : order) {
    if (rows-- == 0) break;
    const v1::Kernel& kernel =
        executable->kernels(static_cast<int>(executable->steps(static_cast<int>(launch)).kernel()));
    const double seconds = times.best()[launch];
    const auto bytes = static_cast<double>(kernel.cost().bytes_read() + kernel.cost().bytes_written());
    std::printf("| %zu | %s | %.0f | %.1f %% | %.0f | %.1f | %s |\n", launch, kernel.name().c_str(), 1e6 * seconds,
                100 * seconds / sum, static_cast<double>(kernel.cost().flops()) / seconds / 1e9, bytes / seconds / 1e9,
                kernel.schedule().c_str());
  }
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
  CLI::App app{"Shows where the time of a model's forward pass goes, launch by launch."};
  std::string model = "resnet50";
  uint32_t threads = 1;
  int turns = 30;
  size_t rows = 40;
  std::string file;
  bool smoke = false, plain = false, fast_math = false;
  app.add_option("model", model, "resnet50 or gpt2")->check(CLI::IsMember(kiln::bench::Models()));
  app.add_option("--graph", file, "In its place a graph (kiln.v1.Graph); all parameters but slot 0 are weights")
      ->check(CLI::ExistingFile);
  app.add_flag("--fast_math", fast_math, "Allows what docs/ir.md says of fast_math");
  app.add_option("--threads", threads, "Threads of the device")->check(CLI::PositiveNumber);
  app.add_option("--turns", turns, "Runs, of which each launch's best counts")->check(CLI::PositiveNumber);
  app.add_option("--rows", rows, "Launches to show, the longest first");
  app.add_flag("--smoke", smoke, "One turn, as a test");
  app.add_flag("--plain", plain, "Weights are not said to be constant: nothing is packed beforehand");
  CLI11_PARSE(app, argc, argv);
  const kiln::v1::Graph graph = file.empty() ? kiln::bench::Models().at(model)() : kiln::bench::GraphIn(file);
  kiln::bench::Profile(graph, threads, smoke ? 1 : turns, rows, plain, fast_math);
  return 0;
}
