// In what a compilation goes through: the line for a thread, a worker, and a search for schedules.
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/compile_program.h"
#include "compiler/search/tune.h"
#include "runtime/drivers/cpu/device.h"
#include "server/compile_worker/compile_workers.h"
#include "server/compile_worker/job.h"
#include "server/engine/programs/compile_pool.h"
#include "server/engine/programs/tuning_queue.h"
#include "server/fair/turns.h"
#include "tests/bench/stop/places.h"

namespace kiln::bench {
namespace {

using runtime::hal::LaunchControl;

// By the tag of its first node a graph says what a worker is to do.
constexpr char kEndless[] = "endless", kNothing[] = "nothing";

constexpr uint32_t kNodes = 200'000, kSmokeNodes = 50'000;

// The search begins with what is no search: the program as the rules have it is compiled, and timed. Its stops come
// later than others do.
constexpr Window kInASearch = {absl::Milliseconds(60), absl::Milliseconds(300)};

// A product of matrices, which has schedules without number.
constexpr char kProduct[] = R"(
  0 CONST [] weakint 512
  1 STACK [0, 0]
  2 PARAM : float32 [1] slot=0
  3 PARAM : float32 [1] slot=1
  4 CONST [] weakint 1
  5 STACK [0, 0, 4]
  6 RESHAPE [2, 5]
  7 STACK [4, 0, 0]
  8 RESHAPE [3, 7]
  9 STACK [0, 0, 0]
  10 EXPAND [6, 9]
  11 EXPAND [8, 9]
  12 MUL [10, 11]
  13 REDUCE [12] ADD axes=(1)
  14 TUPLE [13]
)";

std::unique_ptr<server::CompileWorkers> StartWorkers() {
  v1::Graph nothing;
  nothing.add_nodes()->set_tag(kNothing);
  auto workers = server::CompileWorkers::Start({}, server::ToJob(nothing, {}, {}, nullptr));
  if (!workers.ok()) std::fprintf(stderr, "%s\n", workers.status().ToString().c_str());
  KILN_CHECK(workers.ok());
  return *std::move(workers);
}

server::CompileFor For(const LaunchControl& control) {
  server::CompileFor whom;
  whom.control = control;
  return whom;
}

// A thread that compiles is at something else.
void WaitRow(Stops& stops, const std::string& name) {
  server::CompilePool pool(1);
  absl::Notification release;
  pool.Schedule([&] { release.WaitForNotification(); });
  stops.Row(name, [&](const LaunchControl& control) {
    return Awaited([&](auto done) { pool.Schedule(control, [done, &control] { done(control.Check()); }); });
  });
  release.Notify();
}

void EndlessRow(Stops& stops, const std::string& name) {
  const auto workers = StartWorkers();
  std::atomic<uint32_t> number{0};
  stops.Row(name, [&](const LaunchControl& control) -> End {
    v1::Graph graph;
    graph.add_nodes()->set_tag(kEndless);
    graph.mutable_nodes(0)->add_src(number++);  // another one, each time
    return workers->Compile(graph, {}, {}, nullptr, For(control)).status();
  });
}

// It is written for the worker first, and there read, checked, and taken through the passes.
void LargeRow(Stops& stops, const std::string& name) {
  const auto device = runtime::cpu::CreateDevice({});
  KILN_CHECK(device.ok());
  const auto workers = StartWorkers();
  const v1::Graph graph = LargeGraph(stops.smoke() ? kSmokeNodes : kNodes);
  stops.Row(name, [&](const LaunchControl& control) {
    return Again(
        [&]() -> End { return workers->Compile(graph, (*device)->target(), {}, nullptr, For(control)).status(); });
  });
}

void SearchRow(Stops& stops, const std::string& name) {
  const std::shared_ptr<server::CompileWorkers> workers = StartWorkers();
  std::vector<std::unique_ptr<runtime::hal::Device>> devices;
  devices.push_back(*runtime::cpu::CreateDevice({}));
  server::Turns turns(server::Turns::Options(), devices);
  server::CompilePool pool(1);
  const auto tune = [workers](const v1::Graph& graph, const v1::Target& target, const compiler::Options& options,
                              compiler::TuneOptions tuning, compiler::KernelTimer& timer,
                              const server::CompileFor& whom) {
    tuning.compile = [&](const v1::Graph& candidate, const v1::Target& device, const compiler::Options& how,
                         compiler::CompileObserver* observer) -> absl::StatusOr<v1::Executable> {
      KILN_ASSIGN_OR_RETURN(server::CompiledProgram program, workers->Compile(candidate, device, how, observer, whom));
      return std::get<v1::Executable>(std::move(program));
    };
    tuning.choose = [&](const v1::Graph& kernel, const v1::Target& device, const compiler::Limits& limits,
                        const std::string& from, uint32_t most, const std::function<bool()>&) {
      return workers->Choose(kernel, device, limits, from, most, whom);
    };
    return compiler::Tune(graph, target, options, tuning, timer);
  };
  server::TuningQueue queue(tune, &pool, /*helpers=*/1, &turns);
  const auto graph = ParseGraph(kProduct);
  KILN_CHECK(graph.ok());
  compiler::Options options;
  options.beam = 4;
  options.beam_budget_ms = 60'000;
  stops.Row(
      name,
      [&](const LaunchControl& control) {
        return Awaited([&](auto done) {
          queue.Schedule(control, [&, done] {
            absl::Status wanted = control.Check();
            if (wanted.ok()) wanted = queue.Run(*devices[0], *graph, options, For(control), nullptr).status();
            done(std::move(wanted));
          });
        });
      },
      kInASearch);
}

}  // namespace

absl::StatusOr<server::CompiledProgram> CompileInWorker(const v1::Graph& graph, const v1::Target& target,
                                                        const compiler::Options& options,
                                                        compiler::CompileObserver* observer) {
  const std::string& tag = graph.nodes(0).tag();
  if (tag == kNothing) return v1::Executable();
  for (volatile bool forever = tag == kEndless; forever;) {
  }
  return compiler::CompileProgram(graph, target, options, observer);
}

void CompileRows(Stops& stops) {
  if (const std::string name = "waiting for a thread that compiles"; stops.Wants(name)) WaitRow(stops, name);
  if (const std::string name = "a compilation that never ends, in a worker"; stops.Wants(name)) EndlessRow(stops, name);
  if (const std::string name = "a large graph, checked and compiled in a worker"; stops.Wants(name))
    LargeRow(stops, name);
  if (const std::string name = "a search for schedules"; stops.Wants(name)) SearchRow(stops, name);
}

}  // namespace kiln::bench
