// How long a run goes on after it was told to stop, by what it is in the middle of.
//
// Each program runs for a random time of up to 50 ms, then it is cancelled, or its deadline
// passes; the time from there until the device has ended the run is one figure.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "compiler/compile.h"
#include "runtime/drivers/cpu/device.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/load.h"
#include "tests/support/endless.h"
#include "tests/support/transfers.h"

namespace kiln::bench {
namespace {

using runtime::hal::BufferSlice;

// Says when the run has begun.
class Started final : public runtime::RunStart {
 public:
  absl::Status Begin() override {
    begun_.Notify();
    return absl::OkStatus();
  }
  void Wait() { begun_.WaitForNotification(); }

 private:
  absl::Notification begun_;
};

// Milliseconds from the stop to the end, sorted.
class Latencies {
 public:
  void Add(absl::Duration latency) { ms_.push_back(absl::ToDoubleMilliseconds(latency)); }
  double At(double part) {
    std::sort(ms_.begin(), ms_.end());
    return ms_[std::min(ms_.size() - 1, static_cast<size_t>(part * static_cast<double>(ms_.size())))];
  }

 private:
  std::vector<double> ms_;
};

class Bench {
 public:
  Bench(uint32_t threads, int runs) : runs_(runs) {
    auto device = runtime::cpu::CreateDevice({.threads = threads});
    KILN_CHECK(device.ok());
    device_ = *std::move(device);
  }

  void Run(const testing::EndlessProgram& program) {
    const auto executable = compiler::Compile(program.graph, device_->target(), compiler::Options());
    if (!executable.ok()) std::fprintf(stderr, "%s\n", executable.status().ToString().c_str());
    KILN_CHECK(executable.ok());
    auto loaded = runtime::Load(*executable, *device_);
    KILN_CHECK(loaded.ok());
    std::vector<BufferSlice> arguments, results;
    for (const std::string& bytes : program.arguments) arguments.push_back(Filled(bytes));
    // Touched beforehand: what the system needs to find memory is not the kernel's time.
    for (const auto& result : executable->signature().results())
      results.push_back(result.has_aliases() ? arguments[result.aliases()] : Filled(std::string(result.bytes(), '\0')));
    Latencies cancelled, late;
    for (int run = 0; run < runs_; ++run) {
      cancelled.Add(Stop(*loaded, arguments, results, /*by_deadline=*/false));
      late.Add(Stop(*loaded, arguments, results, /*by_deadline=*/true));
    }
    std::printf("| %s | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f |\n", program.name.c_str(), cancelled.At(0.5),
                cancelled.At(0.99), cancelled.At(1), late.At(0.5), late.At(0.99), late.At(1));
    std::fflush(stdout);
  }

 private:
  BufferSlice Filled(const std::string& bytes) {
    auto buffer = device_->allocator().Allocate(bytes.size(), runtime::hal::MemoryUse::kClient);
    KILN_CHECK(buffer.ok());
    const BufferSlice slice = BufferSlice::Whole(*std::move(buffer));
    KILN_CHECK(testing::Write(*device_, bytes, slice).ok());
    return slice;
  }

  absl::Duration Stop(const std::shared_ptr<runtime::LoadedExecutable>& program,
                      const std::vector<BufferSlice>& arguments, const std::vector<BufferSlice>& results,
                      bool by_deadline) {
    const absl::Duration after = absl::Microseconds(std::uniform_int_distribution<int>(1'000, 50'000)(random_));
    std::atomic<bool> cancelled{false};
    Started started;
    absl::Notification ended;
    absl::Time end;
    runtime::RunOptions options;
    options.start = &started;
    options.results = results;
    options.control.cancelled = &cancelled;
    absl::Time stop = absl::Now() + after;
    if (by_deadline) options.control.deadline = stop;
    // On a thread of its own: it may run inside the call.
    std::thread submits([&] {
      runtime::Executor().Run(program, arguments, options, [&](const absl::StatusOr<runtime::RunResult>& result) {
        end = absl::Now();
        KILN_CHECK(!result.ok());  // it did not run to its end
        ended.Notify();
      });
    });
    if (!by_deadline) {
      started.Wait();
      std::this_thread::sleep_for(absl::ToChronoMicroseconds(after));
      stop = absl::Now();
      cancelled.store(true, std::memory_order_relaxed);
    }
    ended.WaitForNotification();
    submits.join();
    return end - stop;
  }

  const int runs_;
  std::unique_ptr<runtime::hal::Device> device_;
  std::mt19937 random_{1};
};

int Main(int argc, char** argv) {
  CLI::App app{"How long runs go on after a stop"};
  int runs = 200;
  uint32_t threads = 0;
  bool smoke = false;
  app.add_option("--runs", runs, "stops of each kind of each program");
  app.add_option("--threads", threads, "of the device; 0: one a core");
  app.add_flag("--smoke", smoke, "two stops of each, to see that it works");
  CLI11_PARSE(app, argc, argv);
  if (smoke) runs = 2;
  std::printf("Milliseconds from a stop to the end of the run, %d stops of each kind.\n\n", runs);
  std::printf(
      "| in the middle of | cancelled: p50 | p99 | max | deadline: p50 | p99 | max |\n|---|---|---|---|---|---|---|\n");
  Bench bench(threads, runs);
  for (const testing::EndlessProgram& program : testing::EndlessPrograms()) bench.Run(program);
  return 0;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) { return kiln::bench::Main(argc, argv); }
