#include "tests/bench/load/alone.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "base/check.h"
#include "runtime/exec/executor.h"
#include "server/fair/turns.h"
#include "tests/bench/bench_server.h"
#include "tests/bench/load/loads.h"

namespace kiln::bench {
namespace {

constexpr double kRoundSeconds = 0.05;

// Runs of one program over one buffer, one after the other, some of them under way at once.
class Runs {
 public:
  Runs(server::Engine& engine, int64_t elements, int at_once) : engine_(engine), at_once_(at_once) {
    const v1::Graph graph = SinesOf(elements);
    absl::Notification compiled;
    engine_.Compile({&graph, "", {}, nullptr}, {}, [&](const absl::StatusOr<server::CompileResult>& made) {
      KILN_CHECK(made.ok());
      program_ = made->program->program->single();
      compiled.Notify();
    });
    compiled.WaitForNotification();
    KILN_CHECK(program_ != nullptr);
    auto buffer = program_->device().allocator().Allocate(static_cast<uint64_t>(elements) * sizeof(float),
                                                          runtime::hal::MemoryUse::kClient);
    KILN_CHECK(buffer.ok());
    slices_ = {runtime::hal::BufferSlice::Whole(*std::move(buffer))};
    control_.account = engine_.accounts().Of("alone");
    control_.flow = 1;
  }

  // Microseconds a run, over a round.
  double Round(bool by_turns) {
    const auto begin = std::chrono::steady_clock::now();
    int runs = 0;
    for (double passed = 0; passed < kRoundSeconds; passed = SecondsSince(begin)) {
      Await(at_once_ - 1);
      if (absl::MutexLock lock(&mutex_); true) ++under_way_;
      by_turns ? TakeTurn() : Submit(control_, nullptr);
      ++runs;
    }
    Await(0);
    return SecondsSince(begin) * 1e6 / runs;
  }

 private:
  // Until no more than so many are under way.
  void Await(int most) {
    absl::MutexLock lock(&mutex_);
    const auto few = [this, most] {
      mutex_.AssertReaderHeld();
      return under_way_ <= most;
    };
    mutex_.Await(absl::Condition(&few));
  }
  void Ended() {
    absl::MutexLock lock(&mutex_);
    --under_way_;
  }

  // As an execution does (server/engine/executions/execution.cc).
  void TakeTurn() {
    const runtime::Estimate& estimate = program_->estimate();
    server::TurnRequest asked{control_, {&program_->device()}};
    asked.estimate_ns = estimate.expected_ns();
    asked.spread_ns = estimate.spread_ns();
    asked.guessed = estimate.guessed();
    engine_.turns().Take(std::move(asked), [this](absl::StatusOr<server::Turn> turn) {
      KILN_CHECK(turn.ok());
      runtime::hal::LaunchControl control = control_;
      control.interruption = turn->interruption();
      Submit(control, std::make_unique<server::Turn>(*std::move(turn)));
    });
  }
  void Submit(const runtime::hal::LaunchControl& control, std::unique_ptr<server::Turn> turn) {
    executor_.Run(program_, slices_, {.control = control, .results = {}, .variables = {}},
                  [this, turn = std::move(turn)](const absl::StatusOr<runtime::RunResult>& run) {
                    KILN_CHECK(run.ok());
                    if (turn != nullptr) turn->End(static_cast<uint64_t>(run->device_seconds * 1e9));
                    Ended();
                  });
  }

  server::Engine& engine_;
  const int at_once_;
  runtime::Executor executor_;
  std::shared_ptr<runtime::LoadedExecutable> program_;
  std::vector<runtime::hal::BufferSlice> slices_;
  runtime::hal::LaunchControl control_;
  absl::Mutex mutex_;
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;
};

double Median(std::vector<double> values) { return Percentile(std::move(values), 0.5); }

}  // namespace

AlonePrice PriceAlone(server::Engine& engine, int64_t elements, int at_once, double seconds) {
  Runs runs(engine, elements, at_once);
  // Memory, code and estimates are warm from then on.
  for (const bool by_turns : {false, true}) runs.Round(by_turns);
  std::vector<double> turns, device, ratios;
  for (const auto begin = std::chrono::steady_clock::now(); ratios.empty() || SecondsSince(begin) < seconds;) {
    // Each is first as often: what changes slowly is nobody's.
    const bool turns_first = ratios.size() % 2 == 0;
    const double first = runs.Round(turns_first), second = runs.Round(!turns_first);
    turns.push_back(turns_first ? first : second);
    device.push_back(turns_first ? second : first);
    ratios.push_back(turns.back() / device.back());
  }
  return {Median(turns), Median(device), Median(ratios)};
}

}  // namespace kiln::bench
