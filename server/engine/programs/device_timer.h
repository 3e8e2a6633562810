// Times kernels for a search (compiler/search/tuning.h): on a device that serves other clients
// meanwhile, run by run through its queue, on scratch memory of its own.
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

namespace kiln::server {

class DeviceTimer final : public compiler::KernelTimer {
 public:
  // `helpers` threads of `pool` compile beside the one that calls. `stopping` ends it as
  // `control` does. All outlive it.
  DeviceTimer(runtime::hal::Device& device, CompilePool& pool, uint32_t helpers, absl::Duration budget,
              const runtime::hal::LaunchControl& control, const std::atomic<bool>& stopping)
      : device_(device),
        pool_(pool),
        helpers_(helpers),
        end_(SteadyNow() + budget),
        control_(control),
        stopping_(stopping) {}

  void InParallel(std::vector<absl::AnyInvocable<void()>> jobs) override;
  compiler::Timing Time(const v1::Executable& executable, double limit_micros) override;
  double LeftMicros() override { return absl::ToDoubleMicroseconds(end_ - SteadyNow()); }
  absl::Status Wanted() override {
    return stopping_.load(std::memory_order_relaxed) ? MakeError(v1::CALL_CANCELLED, "the server is stopping")
                                                     : control_.Check();
  }

 private:
  // Buffers for the kernel's parameters, those of the last kernel if they fit.
  absl::Status MakeScratch(const v1::Signature& signature);
  // Puts numbers into parameter `i` with which every operation is harmless and as fast as with others.
  absl::Status Fill(const v1::Signature& signature, size_t i);
  // Seconds of the steps of one run.
  absl::StatusOr<double> Run(const std::shared_ptr<runtime::LoadedExecutable>& program);

  runtime::hal::Device& device_;
  CompilePool& pool_;
  const uint32_t helpers_;
  const absl::Time end_;
  const runtime::hal::LaunchControl control_;
  const std::atomic<bool>& stopping_;
  runtime::Executor executor_;  // without an observer: what is timed is no client's work
  std::string scratch_of_;      // the signature that `scratch_` is for
  std::vector<runtime::hal::BufferSlice> scratch_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_PROGRAMS_DEVICE_TIMER_H_
