// Times kernels for a search (compiler/search/tuning.h): on a device that serves other clients
// meanwhile, each run a turn of its caller's, on scratch memory of its own. Other searches go first between two steps,
// if it is their turn.
#ifndef KILN_SERVER_ENGINE_PROGRAMS_DEVICE_TIMER_H_
#define KILN_SERVER_ENGINE_PROGRAMS_DEVICE_TIMER_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/error.h"
#include "compiler/search/tuning.h"
#include "runtime/exec/executor.h"
#include "runtime/hal/device.h"
#include "runtime/hal/module.h"
#include "server/engine/programs/compile_pool.h"
#include "server/fair/fair_mutex.h"
#include "server/fair/owner.h"
#include "server/fair/turns.h"

namespace kiln::server {

class DeviceTimer final : public compiler::KernelTimer {
 public:
  // What all searches share; outlives them.
  struct Shared {
    CompilePool* pool;
    uint32_t helpers;  // threads of it, that compile beside the one that calls
    Turns* turns;
    FairMutex* searching;
    const std::atomic<bool>* stopping;  // ends it as `control` does
  };
  // `budget` is of the time in which it works.
  DeviceTimer(runtime::hal::Device& device, const Shared& shared, absl::Duration budget,
              const runtime::hal::LaunchControl& control)
      : device_(device),
        shared_(shared),
        budget_(budget),
        control_(control),
        searching_(*shared.searching, OwnerOf(control), [this] { return Wanted(); }) {}

  // Waits for its turn among searches; the errors of Wanted. First of all.
  absl::Status Begin();
  // For how long it has worked.
  absl::Duration used() const { return SteadyNow() - began_ - searching_.waited(); }

  void InParallel(std::vector<absl::AnyInvocable<void()>> jobs) override;
  compiler::Timing Time(const v1::Executable& executable, double limit_micros) override;
  double LeftMicros() override { return absl::ToDoubleMicroseconds(budget_ - used()); }
  absl::Status Wanted() override {
    return shared_.stopping->load(std::memory_order_relaxed) ? MakeError(v1::CALL_CANCELLED, "the server is stopping")
                                                             : control_.Check();
  }

 private:
  // Buffers for the kernel's parameters, those of the last kernel if they fit.
  absl::Status MakeScratch(const v1::Signature& signature);
  // Puts numbers into parameter `i` with which every operation is harmless and as fast as with others.
  absl::Status Fill(const v1::Signature& signature, size_t i);
  // Seconds of the steps of one run.
  absl::StatusOr<double> Run(const std::shared_ptr<runtime::LoadedExecutable>& program);

  // Has other searches go first, if it is their turn; the errors of Wanted.
  absl::Status LetOthersPass();

  runtime::hal::Device& device_;
  const Shared shared_;
  const absl::Duration budget_;
  const runtime::hal::LaunchControl control_;
  absl::Time began_ = SteadyNow();
  FairMutex::Holder searching_;
  runtime::Executor executor_;  // without an observer: what is timed is no client's work
  std::string scratch_of_;      // the signature that `scratch_` is for
  std::vector<runtime::hal::BufferSlice> scratch_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_PROGRAMS_DEVICE_TIMER_H_
