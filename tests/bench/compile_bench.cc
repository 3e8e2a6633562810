// What a cold compile costs, pass by pass: one elementwise kernel, the demo's
// training step, and forward passes of two models. Every turn compiles from the wire message to machine
// code with nothing kept from the turn before. Beside it, the same in a compile worker: the graph goes there and the
// program comes back, over a process's border.
//
// The bench is its own compile worker.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/graph/graph_text.h"
#include "client/demo/model.h"
#include "compiler/compile.h"
#include "compiler/compile_program.h"
#include "compiler/gradient/gradient.h"
#include "runtime/drivers/cpu/probe_target.h"
#include "server/compile_worker/compile_workers.h"
#include "server/compile_worker/job.h"
#include "server/compile_worker/zygote.h"
#include "tests/bench/models.h"

namespace kiln::bench {
namespace {

// y = relu(a * b + c)
constexpr char kElementwise[] = R"(
  0 CONST [] weakint 1048576
  1 PARAM : float32 [0] slot=0
  2 PARAM : float32 [0] slot=1
  3 PARAM : float32 [0] slot=2
  4 MUL [1, 2]
  5 ADD [4, 3]
  6 CONST [] float32 0.0
  7 MAX [5, 6]
  8 TUPLE [7]
)";

// Adds up the time of each pass over a whole compilation.
class PassTimes : public compiler::CompileObserver {
 public:
  void OnPass(const compiler::PassRecord& record) override { micros_[std::string(record.name)] += record.micros; }
  const std::map<std::string, double>& micros() const { return micros_; }

 private:
  std::map<std::string, double> micros_;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

nlohmann::json Measure(const std::string& name, const v1::Graph& graph, const v1::Target& target, int turns,
                       server::CompileWorkers& workers) {
  std::vector<double> totals, apart, more;
  std::map<std::string, std::vector<double>> passes;
  v1::Executable executable;
  for (int turn = 0; turn < turns; ++turn) {
    const absl::Time start = absl::Now();
    auto compiled = compiler::Compile(graph, target, compiler::Options());
    totals.push_back(absl::ToDoubleMilliseconds(absl::Now() - start));
    KILN_CHECK(compiled.ok());
    executable = *std::move(compiled);
    const absl::Time sent = absl::Now();
    KILN_CHECK(workers.Compile(graph, target, compiler::Options(), nullptr, server::CompileFor()).ok());
    apart.push_back(absl::ToDoubleMilliseconds(absl::Now() - sent));
    more.push_back(apart.back() - totals.back());
    // A second time for the passes: to watch them costs a little itself.
    PassTimes times;
    KILN_CHECK(compiler::Compile(graph, target, compiler::Options(), &times).ok());
    for (const auto& [pass, micros] : times.micros()) passes[pass].push_back(micros / 1e3);
  }
  std::printf("%s: %d nodes -> %d kernels, %zu bytes of object\n", name.c_str(), graph.nodes_size(),
              executable.kernels_size(), executable.object().size());
  const double best = *std::min_element(totals.begin(), totals.end());
  std::printf("  %-18s %9.3f ms best %9.3f ms median\n", "whole compile", best, Median(totals));
  std::printf("  %-18s %9.3f ms best %9.3f ms median, %+.3f ms\n", "in a worker",
              *std::min_element(apart.begin(), apart.end()), Median(apart), Median(more));
  nlohmann::json json = {{"name", name},
                         {"kernels", executable.kernels_size()},
                         {"best_ms", best},
                         {"median_ms", Median(totals)},
                         {"in_a_worker_ms", Median(apart)},
                         {"more_in_a_worker_ms", Median(more)}};
  for (const auto& [pass, millis] : passes) {
    std::printf("  %-18s %9.3f ms median\n", pass.c_str(), Median(millis));
    json["passes_ms"][pass] = Median(millis);
  }
  return json;
}

// The demo's step, with the gradient that a server would answer.
v1::Graph TrainingStep(demo::Architecture architecture) {
  v1::GradientRequest request;
  *request.mutable_graph() = demo::Loss(architecture, {}).value();
  for (const uint32_t slot : demo::WeightSlots(architecture)) request.add_wrt_slot(slot);
  request.set_include_results(true);
  return demo::TrainingStep(architecture, {}, compiler::Gradient(request, compiler::Limits()).value()).value();
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
  uint64_t memory_bytes = 0;
  if (argc == 3 && std::string(argv[1]) == kiln::server::kZygoteFlag && absl::SimpleAtoi(argv[2], &memory_bytes)) {
    return kiln::server::RunZygote({kiln::compiler::CompileProgram, nullptr}, memory_bytes);
  }
  CLI::App app{"Measures cold compiles, pass by pass."};
  bool smoke = false;
  int turns = 30;
  std::string json_path;
  app.add_flag("--smoke", smoke, "Two turns, as a test");
  app.add_option("--turns", turns, "Compilations of each graph; a tenth of a whole model")->check(CLI::PositiveNumber);
  app.add_option("--json", json_path, "Also write the figures here");
  CLI11_PARSE(app, argc, argv);
  if (smoke) turns = 2;

  const kiln::v1::Target target = kiln::runtime::cpu::ProbeTarget(2);
  std::printf("target: %s, vectors of %u bytes; %d turns each\n", target.arch().c_str(), target.tuning().vector_bytes(),
              turns);
  const kiln::v1::Graph elementwise = *kiln::ParseGraph(kiln::bench::kElementwise);
  auto workers = kiln::server::CompileWorkers::Start({}, kiln::server::ToJob(elementwise, target, {}, nullptr));
  KILN_CHECK(workers.ok());
  nlohmann::json json;
  json.push_back(kiln::bench::Measure("elementwise", elementwise, target, turns, **workers));
  json.push_back(kiln::bench::Measure("training step (mlp)", kiln::bench::TrainingStep(kiln::demo::Architecture::kMlp),
                                      target, turns, **workers));
  json.push_back(kiln::bench::Measure(
      "training step (conv)", kiln::bench::TrainingStep(kiln::demo::Architecture::kConv), target, turns, **workers));
  if (!smoke) {
    const int few = (turns + 9) / 10;
    json.push_back(kiln::bench::Measure("ResNet-50 forward", kiln::bench::ResNet50(), target, few, **workers));
    json.push_back(
        kiln::bench::Measure("GPT-2 small forward, 64 tokens", kiln::bench::Gpt2(64), target, few, **workers));
  }
  if (!json_path.empty()) std::ofstream(json_path) << json.dump(2) << "\n";
  return 0;
}
