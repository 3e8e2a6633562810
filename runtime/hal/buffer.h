// Memory on a device.
//
// A Buffer is owned by std::shared_ptr: handles, running programs and views
// each hold one reference, and the memory goes back to its allocator with the
// last of them, from whichever thread that is. A view is a BufferSlice: there
// is no separate view object.
#ifndef KILN_RUNTIME_HAL_BUFFER_H_
#define KILN_RUNTIME_HAL_BUFFER_H_

#include <array>
#include <atomic>
#include <compare>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/account.h"

namespace kiln::runtime::hal {

class Device;
class Buffer;

// Every address that an allocator gives out is a multiple of this many bytes.
inline constexpr uint64_t kBufferAlignment = 64;

// What was made of a buffer's contents: how (Preparation.key), and from which byte on.
struct DerivedKey {
  std::array<char, 32> how = {};
  uint64_t offset = 0;

  auto operator<=>(const DerivedKey&) const = default;
};

// A fixed number of bytes on one device. All members may be called from any
// thread; what the bytes hold is ordered by the device's queue.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  virtual ~Buffer() = default;

  // As asked for; zero is legal.
  virtual uint64_t bytes() const = 0;

  // Never null. The device outlives the buffer.
  virtual const Device* device() const = 0;

  // The address as kernels of this device see it; never null, also for zero
  // bytes.
  virtual void* device_data() const = 0;

  // The same memory as the host sees it; null where the host cannot.
  virtual void* host_data() const = 0;

  // For the allocator's caller, before anybody else has the buffer: what its tenant pays for the
  // memory, for as long as it is there.
  void Pay(Charge charge) { charge_ = std::move(charge); }

  // What is kept beside the buffer because it depends on the contents alone: weights in
  // another order. To be asked and given from within work of the device's queue. Of more
  // than kMaxDerived, the one goes that was given first.
  static constexpr size_t kMaxDerived = 4;
  std::shared_ptr<Buffer> FindDerived(const DerivedKey& key) const;
  void KeepDerived(const DerivedKey& key, std::shared_ptr<Buffer> made);

  // Forgets it. Code that writes to a buffer in which a client may have put something calls
  // this, from within the work of the queue that writes, before it does.
  void Changed() {
    if (has_derived_.load(std::memory_order_acquire)) ForgetDerived();
  }

 private:
  struct Derived {
    DerivedKey key;
    std::shared_ptr<Buffer> made;
  };
  void ForgetDerived();

  std::atomic<bool> has_derived_ = false;
  mutable absl::Mutex derived_mutex_;
  std::vector<Derived> derived_ ABSL_GUARDED_BY(derived_mutex_);  // the oldest first
  Charge charge_;
};

// Bytes [offset, offset + bytes) of a buffer.
struct BufferSlice {
  std::shared_ptr<Buffer> buffer;
  uint64_t offset = 0;
  uint64_t bytes = 0;

  // The whole of `buffer`, which must not be null.
  static BufferSlice Whole(std::shared_ptr<Buffer> buffer);

  void* device_data() const { return static_cast<char*>(buffer->device_data()) + offset; }
  // Null where the host cannot see the buffer.
  void* host_data() const {
    char* base = static_cast<char*>(buffer->host_data());
    return base == nullptr ? nullptr : base + offset;
  }
};

// OK if the slice has a buffer and lies inside it; else OUT_OF_BOUNDS with the
// numbers.
absl::Status CheckSlice(const BufferSlice& slice);

// Whether two slices share a byte.
bool Overlap(const BufferSlice& a, const BufferSlice& b);

}  // namespace kiln::runtime::hal

#endif  // KILN_RUNTIME_HAL_BUFFER_H_
