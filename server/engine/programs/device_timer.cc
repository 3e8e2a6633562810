#include "server/engine/programs/device_timer.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "base/clock.h"
#include "base/error.h"
#include "runtime/exec/load.h"

namespace kiln::server {
namespace {

// A measurement keeps others from the device, and the least of a CPU's kernel that can be timed is
// one iteration of its outermost loop. So what one does is bounded by an estimate before anything
// runs, and of a long kernel so many iterations are run as about this much work has.
constexpr double kMaxIterationWork = 4e9, kRunWork = 4e8;
constexpr double kMinIterations = 16;  // that is, a share for each of a few threads
constexpr absl::Duration kMaxRun = absl::Seconds(5);

// A card runs a kernel whole. What bounds it is how long one of its items may take, and all of them together.
constexpr double kMaxItemWork = 2e8, kMaxCardWork = 1e13;

// The best of so many runs, or of as many as this takes.
constexpr int kMinRuns = 3, kMaxRuns = 30;
constexpr double kEnoughMicros = 20'000;

// For so long a search works while others wait.
constexpr absl::Duration kSlice = absl::Milliseconds(50);
// What a run is thought to take before any has ended.
constexpr uint64_t kGuessNs = 1'000'000;

constexpr size_t kPattern = 251;  // numbers, and a prime: rows of memory differ

template <typename T, typename Make>
std::string Repeated(Make make) {
  std::string bytes;
  for (size_t i = 0; i < kPattern; ++i) {
    const T value = make(i);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return bytes;
}

// Floats from 1 to 2; whole numbers below 100, which mostly are indices in range. Beyond
// it, an access is gated.
std::string PatternOf(v1::DType dtype) {
  const auto small = [](size_t i) { return i * 37 % 100; };
  const auto one_or_so = [](size_t i) { return 1 + static_cast<double>(i % 8) / 8; };
  switch (dtype) {
    case v1::FLOAT32: return Repeated<float>(one_or_so);
    case v1::FLOAT64: return Repeated<double>(one_or_so);
    case v1::FLOAT16: return Repeated<uint16_t>([](size_t i) { return static_cast<uint16_t>(0x3c00 + i % 8 * 0x80); });
    case v1::BFLOAT16: return Repeated<uint16_t>([](size_t i) { return static_cast<uint16_t>(0x3f80 + i % 8 * 0x10); });
    case v1::INT16:
    case v1::UINT16: return Repeated<uint16_t>(small);
    case v1::INT32:
    case v1::UINT32: return Repeated<uint32_t>(small);
    case v1::INT64:
    case v1::UINT64: return Repeated<uint64_t>(small);
    case v1::INT8:
    case v1::UINT8: return Repeated<uint8_t>(small);
    case v1::BOOL: return Repeated<uint8_t>([](size_t i) { return static_cast<uint8_t>(i % 3 == 0); });
    default: return std::string(1, 0x38);  // of float8, about 1
  }
}

// What is wrong with a kernel that may run for seconds, or nothing.
std::string FaultOf(const v1::Kernel& kernel) {
  const auto all = static_cast<double>(kernel.cost().flops());
  if (kernel.launch().groups_size() == 0) {
    const double iteration_work = all / static_cast<double>(std::max<uint64_t>(1, kernel.iterations()));
    if (iteration_work <= kMaxIterationWork) return "";
    return absl::StrCat("one iteration of its outermost loop has ", iteration_work,
                        " operations, which is too long to be timed");
  }
  double items = 1;
  for (const auto* sizes : {&kernel.launch().groups(), &kernel.launch().items()}) {
    for (const uint32_t size : *sizes) items *= size;
  }
  if (all / items <= kMaxItemWork && all <= kMaxCardWork) return "";
  return absl::StrCat("an item has ", all / items, " operations, all have ", all, ", and it could not be stopped");
}

}  // namespace

absl::Status DeviceTimer::Begin() {
  absl::Status status = searching_.Lock();
  began_ = SteadyNow() - searching_.waited();
  return status;
}

absl::Status DeviceTimer::LetOthersPass() {
  if (absl::Status wanted = Wanted(); !wanted.ok()) return wanted;
  return searching_.Yield(kSlice);
}

void DeviceTimer::InParallel(std::vector<absl::AnyInvocable<void()>> jobs) {
  struct Batch {
    explicit Batch(std::vector<absl::AnyInvocable<void()>> all) : jobs(std::move(all)), left(jobs.size()) {}
    void Work() {
      for (size_t i = next.fetch_add(1); i < jobs.size(); i = next.fetch_add(1)) {
        jobs[i]();
        left.DecrementCount();
      }
    }
    std::vector<absl::AnyInvocable<void()>> jobs;
    std::atomic<size_t> next{0};
    absl::BlockingCounter left;
  };
  if (jobs.empty()) return;
  LetOthersPass().IgnoreError();  // every job is called; then the search asks whether it is wanted
  // A helper that comes when all is done finds nothing to do; one that is called since nothing is wanted any more,
  // none.
  const auto batch = std::make_shared<Batch>(std::move(jobs));
  for (uint32_t i = 0; i < shared_.helpers; ++i) {
    shared_.pool->Schedule(control_, [batch, wanted = control_] {
      if (wanted.Check().ok()) batch->Work();
    });
  }
  batch->Work();
  batch->left.Wait();
}

absl::Status DeviceTimer::MakeScratch(const v1::Signature& signature) {
  std::string wanted = signature.SerializeAsString();
  if (wanted == scratch_of_) return absl::OkStatus();
  scratch_of_.clear();
  scratch_.clear();
  for (const v1::Signature::Parameter& parameter : signature.parameters()) {
    KILN_ASSIGN_OR_RETURN(
        auto buffer, device_.allocator().guarantees().Allocate(control_.account, device_.allocator(), parameter.bytes(),
                                                               runtime::hal::MemoryUse::kProgram, control_.domain));
    scratch_.push_back(runtime::hal::BufferSlice::Whole(std::move(buffer)));
  }
  for (size_t i = 0; i < scratch_.size(); ++i) KILN_RETURN_IF_ERROR(Fill(signature, i));
  scratch_of_ = std::move(wanted);
  return absl::OkStatus();
}

absl::Status DeviceTimer::Fill(const v1::Signature& signature, size_t i) {
  absl::Status outcome;
  absl::Notification done;
  device_.queue().Fill(scratch_[i], PatternOf(signature.parameters(static_cast<int>(i)).dtype()),
                       [&](absl::Status status) {
                         outcome = std::move(status);
                         done.Notify();
                       });
  done.WaitForNotification();
  return outcome;
}

absl::StatusOr<double> DeviceTimer::Run(const std::shared_ptr<runtime::LoadedExecutable>& program) {
  runtime::RunOptions options;
  options.control = control_;
  absl::StatusOr<double> seconds = absl::UnknownError("not run");
  Turn turn;  // until the run has ended
  absl::Notification done;
  // With the device alone: nobody's else times it, and nobody waits behind both.
  const TurnRequest request = {
      .control = control_, .devices = {&device_}, .estimate_ns = kGuessNs, .guessed = true, .may_be_long = true};
  shared_.turns->Take(request, [&](absl::StatusOr<Turn> given) {
    if (!given.ok()) {
      seconds = std::move(given).status();
      return done.Notify();
    }
    turn = *std::move(given);
    options.control.interruption = turn.interruption();
    options.control.deadline = std::min(control_.deadline, SteadyNow() + kMaxRun);
    executor_.Run(program, scratch_, options, [&](absl::StatusOr<runtime::RunResult> outcome) {
      seconds = outcome.ok() ? absl::StatusOr<double>(outcome->device_seconds) : std::move(outcome).status();
      turn.End();
      done.Notify();
    });
  });
  done.WaitForNotification();
  return seconds;
}

compiler::Timing DeviceTimer::Time(const v1::Executable& executable, double limit_micros) {
  if (absl::Status first = LetOthersPass(); !first.ok()) return {0, std::string(first.message())};
  if (executable.signature().variables_size() > 0) return {0, "it has variables, whose values are not known"};
  const v1::Kernel& kernel = executable.kernels(0);
  if (std::string fault = FaultOf(kernel); !fault.empty()) return {0, std::move(fault)};
  const auto iterations = static_cast<double>(std::max<uint64_t>(1, kernel.iterations()));  // of a card's kernel, one
  const double work = std::max(1.0, static_cast<double>(kernel.cost().flops()) / iterations);
  const double part = std::min(iterations, std::max(kMinIterations, kRunWork / work));
  v1::Executable shortened;
  const v1::Executable* run = &executable;
  if (part < iterations) {
    shortened = executable;
    shortened.mutable_kernels(0)->set_iterations(static_cast<uint64_t>(part));
    run = &shortened;
  }
  const auto program = runtime::Load(*run, device_);
  if (!program.ok()) return {0, std::string(program.status().message())};
  if (absl::Status made = MakeScratch(executable.signature()); !made.ok()) return {0, std::string(made.message())};
  // What it updates must not grow from run to run, nor from candidate to candidate.
  for (int i = 0; i < executable.signature().parameters_size(); ++i) {
    if (!executable.signature().parameters(i).written()) continue;
    if (absl::Status filled = Fill(executable.signature(), static_cast<size_t>(i)); !filled.ok())
      return {0, std::string(filled.message())};
  }
  const double scale = 1e6 * iterations / std::floor(part);
  double best = std::numeric_limits<double>::infinity(), spent = 0;
  for (int i = 0; i <= kMaxRuns && (i <= kMinRuns || spent < kEnoughMicros); ++i) {
    const absl::StatusOr<double> seconds = Run(*program);
    if (!seconds.ok()) return {0, std::string(seconds.status().message())};
    best = std::min(best, *seconds * scale);
    if (LeftMicros() <= 0) break;
    if (i == 0 && best < 2 * limit_micros) {
      best = std::numeric_limits<double>::infinity();  // it only warmed the caches up
      continue;
    }
    if (best > limit_micros) break;
    spent += *seconds * 1e6;
  }
  return {best, ""};
}

}  // namespace kiln::server
