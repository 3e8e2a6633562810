// What a server does that is asked for more than it can serve: how much of it is still answered in time, and what a
// refusal costs.
//
// First what it can serve: as many runs as it answers while there are always some waiting. Then loads of so many times
// that, open, each request with a deadline; what is answered within it is the goodput. A server without admission
// works off its queue in order, answers everything late, and its goodput falls to nothing.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/clock.h"
#include "client/load/plot.h"
#include "client/load/report.h"
#include "server/config.h"
#include "server/engine/engine.h"
#include "server/metrics/metrics.h"
#include "server/rpc_server.h"
#include "tests/bench/bench_server.h"
#include "tests/bench/load/loads.h"
#include "tests/bench/load/refusals.h"

namespace kiln::bench {
namespace {

struct Settings {
  double seconds = 10;  // of each row
  int64_t elements = 100'000;
  int deadline_ms = 100;
  uint32_t cpu_threads = 0;
  std::vector<double> times = {0.5, 1, 2, 4, 10};
  std::string plot;
};

load::StepResult Run(load::Generator& generator, double rate, double scale, double seconds, double warm_up) {
  load::StepResult result;
  result.rate = rate;
  result.step.scale = scale;
  result.step.warm_up = absl::Seconds(warm_up);
  result.step.length = absl::Seconds(seconds);
  result.step.drain = absl::Seconds(60);
  result.classes = generator.Run(result.step);
  const load::ClassResult& run = result.classes.at(0);
  KILN_CHECK(run.due == run.answered.count() + run.failed.count());
  return result;
}

// Refused by the server: at once, or as soon as it could not be in time any more.
uint64_t Refused(const load::ClassResult& result) {
  uint64_t count = 0;
  for (const auto& [kind, of] : result.failures) {
    if (absl::StrContains(kind, "DEADLINE_PASSED") || absl::StartsWith(kind, "RESOURCE_EXHAUSTED")) count += of.count;
  }
  return count;
}

// Runs that their deadline stopped: what they took of the device was in vain.
uint64_t Stopped(const server::Metrics& metrics) {
  return metrics.deadline_missed.Sum(NumberOf(server::Place::kDevice));
}

// One at a time, by itself, while always some wait that have all the time they like.
void PrintOneRefusal(BenchServer& server, load::Generator& saturating, const std::string& graph, double seconds) {
  // Its first second is for the others to fill the queue.
  std::thread others([&] { Run(saturating, 100'000, 1, seconds + 1, /*warm_up=*/0); });
  const auto refused = MakeLoad(server.address(), absl::StrCat("class run rate=100 deadline=10ms graph=", graph));
  absl::SleepFor(absl::Seconds(std::min(1.0, seconds)));
  const absl::Time begin = SteadyNow();
  const load::ClassResult run = Run(*refused, 100, 1, seconds, /*warm_up=*/0).classes.at(0);
  const TooLateRuns runs = TooLateSince(server.server().engine().traces(), begin);
  others.join();
  std::printf("\none call at a time that cannot be in time, beside a full queue: of %llu",
              static_cast<unsigned long long>(run.due));
  if (!runs.at_once.empty()) {
    std::printf(", %zu were refused at once, %.0f µs after they came at p50, %.0f at p90", runs.at_once.size(),
                Percentile(runs.at_once, 0.5), Percentile(runs.at_once, 0.9));
  }
  if (!runs.later.empty()) {
    std::printf(", %zu were let wait or try, and told %.1f ms after they came at p50", runs.later.size(),
                Percentile(runs.later, 0.5) / 1e3);
  }
  std::printf("; clients wait %.0f µs at p50\n", static_cast<double>(run.failed.Quantile(0.5)) / 1e3);
}

double ProcessSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

int Main(int argc, char** argv) {
  CLI::App app("Goodput at loads beyond what a server can serve");
  Settings settings;
  bool smoke = false;
  app.add_option("--seconds", settings.seconds, "of each row")->capture_default_str();
  app.add_option("--elements", settings.elements, "of a run, some 50 ns each")->capture_default_str();
  app.add_option("--deadline_ms", settings.deadline_ms, "of a request")->capture_default_str();
  app.add_option("--cpu_threads", settings.cpu_threads,
                 "that compute; 0 is one a core. With fewer, calls and their clients have cores of their own");
  app.add_option("--times", settings.times, "what it can serve")->delimiter(',');
  app.add_option("--plot", settings.plot, "file for a picture, SVG");
  app.add_flag("--smoke", smoke, "a moment of two rows: whether it works");
  CLI11_PARSE(app, argc, argv);
  if (smoke) {
    settings.seconds = 0.5;
    settings.times = {0.5, 2};
    settings.deadline_ms = 60'000;  // a slow machine has no other figures to fail by
  }
  const Folder folder;
  const std::string graph = folder.Write("run.uop", SumOfSinesText(absl::StrCat(settings.elements)));
  v1::ServerConfig config = server::DefaultConfig();
  config.set_cpu_threads(settings.cpu_threads);
  config.set_trace_buffer_bytes(64 << 20);  // for all calls of a row
  BenchServer server(config);

  const auto saturating =
      MakeLoad(server.address(), absl::StrCat("class run rate=100000 outstanding=32 graph=", graph));
  // From the first on: those that are due later are held back until the end.
  const load::ClassResult most = Run(*saturating, 100'000, 1, settings.seconds, /*warm_up=*/0).classes.at(0);
  const double can = std::max(1.0, static_cast<double>(most.ok) / most.seconds);
  std::printf("it serves %.0f runs/s, of %.1f ms each; the deadline is %d ms\n\n", can, 1e3 / can,
              settings.deadline_ms);
  std::printf(
      "| load | offered/s | goodput/s | of the best | p50 ms | p99 ms | refused/s | of these at once | refusal p50 µs "
      "| p99 µs | late, lost or held back/s | begun in vain/s | CPU µs a request "
      "|\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  // So many may be under way that only the server, or its deadline, ends a request.
  const auto generator =
      MakeLoad(server.address(), absl::StrCat("tenant many connections=8\nclass run rate=", can,
                                              " outstanding=4096 deadline=", settings.deadline_ms, "ms graph=", graph));
  const server::Metrics& metrics = server.server().engine().metrics();
  std::vector<load::StepResult> results;
  double best = 0;
  for (const double times : settings.times) {
    const double cpu = ProcessSeconds();
    const uint64_t stopped = Stopped(metrics);
    const auto begin = std::chrono::steady_clock::now();
    const absl::Time since = SteadyNow();
    results.push_back(Run(*generator, times * can, times, settings.seconds, std::min(1.0, settings.seconds)));
    const load::StepResult& result = results.back();
    const load::ClassResult& run = result.classes.at(0);
    best = std::max(best, run.goodput());
    const TooLateRuns too_late = TooLateSince(server.server().engine().traces(), since);
    const auto at_once = static_cast<double>(too_late.at_once.size());
    const double late = std::max(1.0, at_once + static_cast<double>(too_late.later.size()));
    const uint64_t refused = Refused(run);
    const auto rate = [&](uint64_t count) { return static_cast<double>(count) / run.seconds; };
    const auto ms = [](uint64_t ns) { return static_cast<double>(ns) / 1e6; };
    // What failed are nearly all refusals where there are any.
    std::printf(
        "| %.1f × | %.0f | %.0f | %.0f %% | %.1f | %.1f | %.0f | %.0f %% | %.0f | %.0f | %.0f | %.1f | %.0f |\n", times,
        result.rate, run.goodput(), 100 * run.goodput() / best, ms(run.answered.Quantile(0.5)),
        ms(run.answered.Quantile(0.99)), rate(refused), 100 * at_once / late, 1e3 * ms(run.failed.Quantile(0.5)),
        1e3 * ms(run.failed.Quantile(0.99)), rate(run.due - run.in_deadline - refused),
        static_cast<double>(Stopped(metrics) - stopped) / SecondsSince(begin),
        1e6 * (ProcessSeconds() - cpu) / static_cast<double>(std::max<uint64_t>(1, run.due)));
    std::fflush(stdout);
    if (smoke) KILN_CHECK(run.ok == run.due && run.in_deadline == run.ok);
  }
  if (!smoke) PrintOneRefusal(server, *saturating, graph, settings.seconds);
  PrintRefusalCost(settings.seconds, settings.elements);
  if (settings.plot.empty()) return 0;
  std::FILE* const file = std::fopen(settings.plot.c_str(), "w");
  if (file == nullptr) return 1;
  std::fputs(load::PlotSvg(results).c_str(), file);
  return std::fclose(file) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) { return kiln::bench::Main(argc, argv); }
