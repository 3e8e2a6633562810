#include "runtime/drivers/host/host_allocator.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/drivers/host/map_pages.h"

namespace kiln::runtime::host {
namespace {

using hal::MemoryUse;

// From this size on, memory is mapped: the kernel's fresh pages are zero
// already, so nobody has to clear them.
constexpr uint64_t kMapBytes = 256 << 10;

// More than any machine has, and far from where rounding up would wrap.
constexpr uint64_t kLargestLimit = uint64_t{1} << 56;

struct Counters {
  explicit Counters(uint64_t limit) : limit_bytes(limit) {}
  const uint64_t limit_bytes;
  std::atomic<uint64_t> in_use_bytes{0};
  std::atomic<uint64_t> peak_bytes{0};
  std::atomic<uint64_t> buffers{0};
  std::atomic<uint64_t> allocations{0};

  // Takes `bytes` from the limit; false if they do not fit.
  bool Reserve(uint64_t bytes) {
    uint64_t used = in_use_bytes.load(std::memory_order_relaxed);
    do {
      if (bytes > limit_bytes - used) return false;
    } while (!in_use_bytes.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    uint64_t peak = peak_bytes.load(std::memory_order_relaxed);
    while (peak < used + bytes && !peak_bytes.compare_exchange_weak(peak, used + bytes, std::memory_order_relaxed)) {
    }
    return true;
  }
};

class HostBuffer final : public hal::Buffer {
 public:
  HostBuffer(const hal::Device* device, Counters* counters, void* data, uint64_t bytes, uint64_t reserved)
      : device_(device), counters_(counters), data_(data), bytes_(bytes), reserved_(reserved) {
    counters_->buffers.fetch_add(1, std::memory_order_relaxed);
  }
  ~HostBuffer() override {
    if (data_ == nullptr) {
      // It stood for memory that is elsewhere.
    } else if (reserved_ >= kMapBytes) {
      UnmapPages(data_, reserved_);
    } else {
      std::free(data_);
    }
    counters_->buffers.fetch_sub(1, std::memory_order_relaxed);
    counters_->in_use_bytes.fetch_sub(reserved_, std::memory_order_relaxed);
  }
  uint64_t bytes() const override { return bytes_; }
  const hal::Device* device() const override { return device_; }
  void* device_data() const override { return data_; }
  void* host_data() const override { return data_; }

 private:
  const hal::Device* const device_;
  Counters* const counters_;
  void* const data_;
  const uint64_t bytes_;
  const uint64_t reserved_;  // what was taken from the system and from the limit
};

class HostAllocator final : public hal::Allocator {
 public:
  HostAllocator(const hal::Device* device, uint64_t limit_bytes) : device_(device), counters_(limit_bytes) {}

  absl::StatusOr<std::shared_ptr<hal::Buffer>> Allocate(uint64_t bytes, MemoryUse use, MemoryDomain) override {
    // Before it is rounded, since rounding could wrap.
    if (bytes > counters_.limit_bytes) return OutOfMemory(bytes);
    uint64_t reserved = bytes == 0 ? hal::kBufferAlignment : bytes + (-bytes & (hal::kBufferAlignment - 1));
    if (reserved >= kMapBytes) reserved += -reserved & 4095;
    if (!counters_.Reserve(reserved)) return OutOfMemory(bytes);
    void* data = nullptr;
    if (use == MemoryUse::kElsewhere) {
      // There is none.
    } else if (reserved >= kMapBytes) {
      data = MapPages(reserved);
    } else {
      data = std::aligned_alloc(hal::kBufferAlignment, reserved);
      // The process had it before, for whatever.
      if (data != nullptr) std::memset(data, 0, reserved);
    }
    if (data == nullptr && use != MemoryUse::kElsewhere) {
      counters_.in_use_bytes.fetch_sub(reserved, std::memory_order_relaxed);
      return OutOfMemory(bytes);
    }
    counters_.allocations.fetch_add(1, std::memory_order_relaxed);
    return std::make_shared<HostBuffer>(device_, &counters_, data, bytes, reserved);
  }

  void Trim() override {}

  hal::AllocatorStats stats() const override {
    hal::AllocatorStats stats;
    stats.limit_bytes = counters_.limit_bytes;
    stats.in_use_bytes = counters_.in_use_bytes.load(std::memory_order_relaxed);
    stats.peak_bytes = counters_.peak_bytes.load(std::memory_order_relaxed);
    stats.buffers = counters_.buffers.load(std::memory_order_relaxed);
    stats.allocations = counters_.allocations.load(std::memory_order_relaxed);
    return stats;
  }

 private:
  absl::Status OutOfMemory(uint64_t bytes) const {
    const uint64_t used = counters_.in_use_bytes.load(std::memory_order_relaxed);
    v1::ErrorDetail detail;
    detail.set_code(v1::OUT_OF_MEMORY);
    detail.set_limit("device memory bytes");
    detail.set_limit_value(counters_.limit_bytes);
    detail.set_used(used);
    return MakeError(std::move(detail), absl::StrCat(bytes, " bytes do not fit: ", used, " of ", counters_.limit_bytes,
                                                     " bytes of device memory are in use"));
  }

  const hal::Device* const device_;
  Counters counters_;
};

}  // namespace

std::unique_ptr<hal::Allocator> MakeHostAllocator(const hal::Device* device, uint64_t limit_bytes) {
  return std::make_unique<HostAllocator>(device, std::min(limit_bytes, kLargestLimit));
}

}  // namespace kiln::runtime::host
