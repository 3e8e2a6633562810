// Machine code on a device, ready to launch.
#ifndef KILN_RUNTIME_HAL_MODULE_H_
#define KILN_RUNTIME_HAL_MODULE_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/account.h"
#include "runtime/hal/interruption.h"

namespace kiln::runtime::hal {

// What may end a run early, and who pays for it.
struct LaunchControl {
  // Null means never. Must live until the run has ended.
  const std::atomic<bool>* cancelled = nullptr;
  absl::Time deadline = absl::InfiniteFuture();
  // Null: nobody. Outlives all that is made for it.
  Account* account = nullptr;
  // Whose of the payer's it is, or, without one, of all: what has the same number takes effect in
  // the order in which it came.
  uint64_t flow = 0;
  // By which an observer (runtime/observer.h) knows whose run it is told of; 0: nobody asks.
  uint64_t trace = 0;
  // Null: the run keeps its device until it has ended. Lives until then.
  Interruption* interruption = nullptr;
  // Whose memory it is that the run is given, and leaves.
  MemoryDomain domain = MemoryDomain::kNobody;

  // OK; CANCELLED; or DEADLINE_PASSED.
  absl::Status Check() const;
  // Lets others have the device, if it is time. Between launches.
  void GiveWay() const {
    if (interruption != nullptr && interruption->due()) interruption->GiveWay();
  }
  // The run's thread begins to work, and has ended.
  void BeginWork() const {
    if (interruption != nullptr) interruption->BeginWork();
  }
  void EndWork() const {
    if (interruption != nullptr) interruption->EndWork();
  }
  // For how long others have had it.
  absl::Duration away() const { return interruption == nullptr ? absl::ZeroDuration() : interruption->away(); }
};

// One of many launches: `kernel` over the `operand_count` operands from
// `first_operand` on.
struct LaunchStep {
  uint32_t kernel = 0;
  uint32_t first_operand = 0;
  uint32_t operand_count = 0;
};

// The kernels of one Executable. Unloaded when destroyed, which must be after
// its last launch has ended; its device outlives it.
class Module {
 public:
  virtual ~Module() = default;

  // Runs every iteration of kernel `kernel` (an index into
  // Executable.kernels) over `operands`, the kernel's array:
  // a buffer's address or, in the place of one, a variable's int64. To be called
  // from within work of the device's queue only, and returns when the kernel has
  // ended or, on a device with streams, is ordered behind all earlier launches
  // (Device::FinishLaunches).
  // Allocates nothing. A stop asked for by `control` takes effect within milliseconds on a CPU, and
  // between launches elsewhere; what the kernel writes is then partly written.
  virtual absl::Status Launch(uint32_t kernel, void* const* operands, const LaunchControl& control) = 0;

  // Launches one after the other until one fails, and looks at `control` in between.
  // Adds to `launched` those that ended well. A device to which every launch is a
  // journey makes one of them all.
  virtual absl::Status LaunchAll(absl::Span<const LaunchStep> steps, void* const* operands,
                                 const LaunchControl& control, uint32_t& launched);
};

}  // namespace kiln::runtime::hal

#endif  // KILN_RUNTIME_HAL_MODULE_H_
