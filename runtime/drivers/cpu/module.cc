#include "runtime/drivers/cpu/module.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"

namespace kiln::runtime::cpu {
namespace {

using KernelFn = void (*)(void* const* buffers, int64_t begin, int64_t end);

// Into how many pieces a chunk is cut, at most, so that a stop takes effect
// soon also where one thread has the whole loop.
constexpr int64_t kStopPoints = 64;

struct Kernel {
  KernelFn fn;
  int64_t iterations;
  int64_t grain;
};

class CpuModule final : public hal::Module {
 public:
  CpuModule(std::unique_ptr<LinkedObject> object, std::vector<Kernel> kernels, WorkerPool& pool,
            ModuleCounters& counters)
      : object_(std::move(object)), kernels_(std::move(kernels)), pool_(pool), counters_(counters) {
    counters_.modules.fetch_add(1, std::memory_order_relaxed);
  }
  ~CpuModule() override { counters_.modules.fetch_sub(1, std::memory_order_relaxed); }

  absl::Status Launch(uint32_t index, void* const* buffers, const hal::LaunchControl& control) override {
    const Kernel& kernel = kernels_[index];
    counters_.launches.fetch_add(1, std::memory_order_relaxed);
    const bool may_stop = control.cancelled != nullptr || control.deadline != absl::InfiniteFuture();
    if (!may_stop || kernel.iterations <= kernel.grain) {
      pool_.ParallelFor(kernel.iterations, kernel.grain,
                        [&](int64_t begin, int64_t end) { kernel.fn(buffers, begin, end); });
      return absl::OkStatus();
    }
    std::atomic<bool> stopped{false};
    pool_.ParallelFor(kernel.iterations, kernel.grain, [&](int64_t begin, int64_t end) {
      const int64_t step = std::max(kernel.grain, (end - begin) / kStopPoints);
      for (int64_t at = begin; at < end && !stopped.load(std::memory_order_relaxed);) {
        if (!control.Check().ok()) {
          stopped.store(true, std::memory_order_relaxed);
          return;
        }
        const int64_t stop = end - at > step ? at + step : end;
        kernel.fn(buffers, at, stop);
        at = stop;
      }
    });
    if (!stopped.load(std::memory_order_relaxed)) return absl::OkStatus();
    // The clock may have been set back since; a stopped kernel is never OK.
    absl::Status status = control.Check();
    return status.ok() ? MakeError(v1::DEADLINE_PASSED, "the deadline passed inside a kernel") : status;
  }

 private:
  const std::unique_ptr<LinkedObject> object_;
  const std::vector<Kernel> kernels_;
  WorkerPool& pool_;
  ModuleCounters& counters_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<hal::Module>> LoadModule(const v1::Executable& executable, Linker& linker,
                                                        WorkerPool& pool, ModuleCounters& counters) {
  std::vector<std::string> symbols;
  for (const v1::Kernel& kernel : executable.kernels()) symbols.push_back(kernel.symbol());
  std::unique_ptr<LinkedObject> object;
  // A program that only hands its parameters back has no code at all.
  if (!symbols.empty()) {
    KILN_ASSIGN_OR_RETURN(object, linker.Link(executable.object(), symbols));
  }
  std::vector<Kernel> kernels;
  for (int i = 0; i < executable.kernels_size(); ++i) {
    kernels.push_back({reinterpret_cast<KernelFn>(object->addresses()[i]),
                       static_cast<int64_t>(executable.kernels(i).iterations()),
                       std::max<int64_t>(1, static_cast<int64_t>(executable.kernels(i).grain()))});
  }
  return std::make_unique<CpuModule>(std::move(object), std::move(kernels), pool, counters);
}

}  // namespace kiln::runtime::cpu
