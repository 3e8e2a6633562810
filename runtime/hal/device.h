// One thing that computes: its memory, its queue, its code.
#ifndef KILN_RUNTIME_HAL_DEVICE_H_
#define KILN_RUNTIME_HAL_DEVICE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/target.pb.h"
#include "runtime/hal/allocator.h"
#include "runtime/hal/launch_list.h"
#include "runtime/hal/module.h"
#include "runtime/hal/queue.h"

namespace kiln::runtime::collective {
class Vendor;
}

namespace kiln::runtime::hal {

struct DeviceStats {
  AllocatorStats memory;
  uint64_t queue_depth = 0;
  // Kernel launches since the start, and modules loaded now.
  uint64_t launches = 0;
  uint64_t modules = 0;
};

class Remote;

// Bytes that go from one device's memory to another's.
struct Move {
  const void* from = nullptr;
  void* to = nullptr;
  uint64_t bytes = 0;
};

// Safe from any thread. The device owns its allocator and queue, and outlives
// every buffer and module made by it; its destructor waits for the queue.
class Device {
 public:
  virtual ~Device() = default;

  // "CPU:0"; fixed for life.
  virtual absl::string_view name() const = 0;
  // For people: "AMD EPYC 9654, 2 threads".
  virtual absl::string_view description() const = 0;
  // What the compiler needs to know; fixed for life.
  virtual const v1::Target& target() const = 0;

  virtual Allocator& allocator() = 0;
  virtual Queue& queue() = 0;

  // At least `bytes` bytes of scratch memory, aligned to kBufferAlignment and
  // never null, that belong to the work that asks until its Run() returns. To be
  // called from within work of queue() only, once a run: since the queue is in
  // order, one piece serves all programs but those that have paused; a small one stays for the next of the same
  // domain. What it holds is zero, or what work of that domain left. OUT_OF_MEMORY if it does not fit. It grows within
  // the part of the memory that is guaranteed to `account`, which may be null, and what is guaranteed to no other
  // (runtime/hal/guarantees.h).
  virtual absl::StatusOr<void*> Scratch(uint64_t bytes, const Account* account = nullptr,
                                        MemoryDomain domain = MemoryDomain::kNobody) = 0;

  // Links the object code and finds every kernel's symbol. Takes about a
  // millisecond; any number of threads may load at once. The message is read
  // during the call only. INTERNAL_FAULT if the object cannot be linked here or
  // lacks a symbol. Checks nothing else: that is exec/load's work.
  virtual absl::StatusOr<std::unique_ptr<Module>> LoadModule(const v1::Executable& executable) = 0;

  // `launches` stay where they are while the list lives. Unless a driver says otherwise, they are
  // launched one by one.
  virtual std::unique_ptr<LaunchList> MakeLaunchList(absl::Span<const Launch> launches);

  // Waits until all that its modules have launched has ended; the first error of that, if it
  // is not told yet. For work of queue() that launches, before it ends, however the launches
  // went. Nothing to wait for unless a driver says otherwise.
  virtual absl::Status FinishLaunches() { return absl::OkStatus(); }

  // Copies between the device's memory and the host's, at once and whatever is in
  // the queue; waits until that is done. For work that is ordered otherwise: no other work
  // knows the memory yet, or it happens within work of the queue. Unless a driver says
  // otherwise, the host sees the device's memory.
  virtual absl::Status Load(const void* address, uint64_t bytes, void* to);
  virtual absl::Status Store(const void* from, uint64_t bytes, void* address);

  // Other devices from whose memory this one copies to its own without the host; fixed once
  // all are there.
  virtual std::vector<std::string> peers() const { return {}; }

  // Whether it does so from `other`; a device may also do it within its own memory.
  virtual bool CopiesFrom(const Device& other) const { return false; }

  // Does it, of such a one: all of `moves`, none of which touches what another writes. Ordered
  // as Load is; waits until that is done. The error of the device at fault.
  virtual absl::Status CopyFrom(Device& other, absl::Span<const Move> moves);

  // What does collectives of this device and others that have the same; null where there is none.
  virtual collective::Vendor* vendor() { return nullptr; }

  // How long what has been launched, and waited for by FinishLaunches, since this was last asked
  // took by the device's own clock; nothing where the host's says as much.
  virtual std::optional<double> TakeLaunchSeconds() { return std::nullopt; }

  virtual DeviceStats stats() const = 0;

  // OK while the device can be used. Once it cannot, it never can again, and all that
  // it is asked to do ends with this error.
  virtual absl::Status health() const { return absl::OkStatus(); }

  // What there is to it if it belongs to another process (remote.h); else null.
  virtual Remote* remote() { return nullptr; }

  // No run may take longer, all that it launches together; then it ends with DEADLINE_PASSED.
  virtual absl::Duration longest_run() const { return absl::InfiniteDuration(); }
};

// `control` of a run that begins now, as the device limits it.
inline LaunchControl Limited(const Device& device, LaunchControl control) {
  const absl::Duration longest = device.longest_run();
  if (longest != absl::InfiniteDuration()) control.deadline = std::min(control.deadline, SteadyNow() + longest);
  return control;
}

// Waits until all that was submitted before has ended or paused, queue by queue. An entry of one device
// may hold memory of another until it has returned, so of devices that have worked together
// none is destroyed before this.
void DrainAll(absl::Span<const std::unique_ptr<Device>> devices);

}  // namespace kiln::runtime::hal

#endif  // KILN_RUNTIME_HAL_DEVICE_H_
