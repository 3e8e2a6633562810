#include "runtime/drivers/cpu/module.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"

namespace kiln::runtime::cpu {
namespace {

// Both bytes are another thread's to set; see executable.proto, Kernel.
using Stop = std::array<const std::atomic<bool>*, 2>;
static_assert(sizeof(std::atomic<bool>) == 1 && std::atomic<bool>::is_always_lock_free);

using KernelFn = void (*)(void* const* buffers, int64_t begin, int64_t end, const Stop& stop);

// A run that may be interrupted is so after a chunk that takes about so long.
constexpr double kChunkNs = 250'000;
// Where others wait, a slice is cut into so many chunks. None is shorter than kMinChunkNs.
constexpr double kChunksInSlice = 4;
constexpr double kMinChunkNs = 50'000;

double MostNs(const hal::Interruption& interruption) {
  if (!interruption.asked()) return kChunkNs;
  return std::clamp(absl::ToDoubleNanoseconds(interruption.slice()) / kChunksInSlice, kMinChunkNs, kChunkNs);
}

constexpr std::atomic<bool> kNever{false};
constexpr Stop kNoStop = {&kNever, &kNever};

struct Kernel {
  KernelFn fn;
  int64_t iterations;
  int64_t grain;
  bool stops;  // it looks at `stop`; else it is over before anybody would miss that
};

bool IsSet(const Stop& stop) {
  return stop[0]->load(std::memory_order_relaxed) || stop[1]->load(std::memory_order_relaxed);
}

class CpuModule final : public hal::Module {
 public:
  CpuModule(std::unique_ptr<LinkedObject> object, std::vector<Kernel> kernels, WorkerPool& pool, DeadlineWatch& watch,
            ModuleCounters& counters)
      : object_(std::move(object)),
        kernels_(std::move(kernels)),
        paces_(new std::atomic<float>[kernels_.size()]()),
        pool_(pool),
        watch_(watch),
        counters_(counters) {
    counters_.modules.fetch_add(1, std::memory_order_relaxed);
  }
  ~CpuModule() override { counters_.modules.fetch_sub(1, std::memory_order_relaxed); }

  absl::Status Launch(uint32_t index, void* const* buffers, const hal::LaunchControl& control) override {
    const Kernel& kernel = kernels_[index];
    counters_.launches.fetch_add(1, std::memory_order_relaxed);
    if (!kernel.stops) {
      int64_t helped_ns = 0;
      const bool counts = control.interruption != nullptr && control.interruption->cores().counts();
      pool_.ParallelFor(
          kernel.iterations, kernel.grain, [&](int64_t begin, int64_t end) { kernel.fn(buffers, begin, end, kNoStop); },
          counts ? &helped_ns : nullptr);
      if (counts) control.interruption->cores().Helped(helped_ns);
      return absl::OkStatus();
    }
    KILN_RETURN_IF_ERROR(control.Check());
    const DeadlineWatch::Deadline deadline(watch_, control.deadline);
    const Stop stop = {control.cancelled == nullptr ? &kNever : control.cancelled, &deadline.passed()};
    // Of what is stopped, the chunks that have not begun are left out.
    const auto run = [&](int64_t begin, int64_t end) {
      if (!IsSet(stop)) kernel.fn(buffers, begin, end, stop);
      return !IsSet(stop);
    };
    if (control.interruption == nullptr) {
      pool_.ParallelFor(kernel.iterations, kernel.grain, run);
    } else {
      RunInSlices(kernel, paces_[index], run, *control.interruption);
    }
    if (!IsSet(stop)) return absl::OkStatus();
    // The clock may have been set back since; a stopped kernel is never OK.
    absl::Status status = control.Check();
    return status.ok() ? MakeError(v1::DEADLINE_PASSED, "the deadline passed inside a kernel") : status;
  }

 private:
  // `run`, over all iterations of the kernel; between chunks others may have the device. It says whether it did all
  // that it was called for. `pace` is how many ns an iteration took when that was seen last, or 0: chunks are small
  // enough for it, so far as the kernel has any.
  template <typename Run>
  void RunInSlices(const Kernel& kernel, std::atomic<float>& pace, const Run& run, hal::Interruption& interruption) {
    std::atomic<bool> stopped{false};
    const auto timed = [&](int64_t begin, int64_t end) {
      const auto began = std::chrono::steady_clock::now();
      if (!run(begin, end)) return stopped.store(true, std::memory_order_relaxed);
      const std::chrono::duration<float, std::nano> took = std::chrono::steady_clock::now() - began;
      pace.store(took.count() / static_cast<float>(end - begin), std::memory_order_relaxed);
    };
    for (int64_t begin = 0; begin < kernel.iterations;) {
      int64_t chunk = 0, end = kernel.iterations;
      if (const double ns = pace.load(std::memory_order_relaxed); ns == 0) {
        chunk = std::min(kernel.grain, end - begin);  // to see how long that takes
        end = begin + chunk;
      } else {
        const double most = std::min(MostNs(interruption) / ns, static_cast<double>(end));
        chunk = pool_.EvenChunk(end - begin, kernel.grain, std::max<int64_t>(1, static_cast<int64_t>(most)));
      }
      int64_t helped_ns = 0;
      begin = pool_.ParallelForUntil(
          {begin, end, chunk}, timed, [&] { return interruption.due(); },
          interruption.cores().counts() ? &helped_ns : nullptr);
      interruption.cores().Helped(helped_ns);
      if (stopped.load(std::memory_order_relaxed)) return;
      if (begin < kernel.iterations && interruption.due()) interruption.GiveWay();
    }
  }

  const std::unique_ptr<LinkedObject> object_;
  const std::vector<Kernel> kernels_;
  const std::unique_ptr<std::atomic<float>[]> paces_;
  WorkerPool& pool_;
  DeadlineWatch& watch_;
  ModuleCounters& counters_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<hal::Module>> LoadModule(const v1::Executable& executable, Linker& linker,
                                                        WorkerPool& pool, DeadlineWatch& watch,
                                                        ModuleCounters& counters) {
  std::vector<std::string> symbols;
  for (const v1::Kernel& kernel : executable.kernels()) symbols.push_back(kernel.symbol());
  std::unique_ptr<LinkedObject> object;
  // A program that only hands its parameters back has no code at all.
  if (!symbols.empty()) {
    KILN_ASSIGN_OR_RETURN(object, linker.Link(executable.object(), symbols));
  }
  std::vector<Kernel> kernels;
  for (int i = 0; i < executable.kernels_size(); ++i) {
    kernels.push_back(
        {reinterpret_cast<KernelFn>(object->addresses()[i]), static_cast<int64_t>(executable.kernels(i).iterations()),
         std::max<int64_t>(1, static_cast<int64_t>(executable.kernels(i).grain())), executable.kernels(i).stops()});
  }
  return std::make_unique<CpuModule>(std::move(object), std::move(kernels), pool, watch, counters);
}

}  // namespace kiln::runtime::cpu
