#include "runtime/drivers/host/host_allocator.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/drivers/host/page_pool.h"

namespace kiln::runtime::host {
namespace {

using hal::MemoryUse;

// From this size on, memory is whole pages: the kernel's fresh ones are zero
// already, so nobody has to clear them.
constexpr uint64_t kPagesBytes = 256 << 10;

// More than any machine has, and far from where rounding up would wrap.
constexpr uint64_t kLargestLimit = uint64_t{1} << 56;

// What an allocator and its buffers share.
struct Shared {
  Shared(uint64_t limit, std::shared_ptr<Mappings> mappings) : limit_bytes(limit), pages(std::move(mappings)) {}
  const uint64_t limit_bytes;
  PagePool pages;
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
  HostBuffer(const hal::Device* device, Shared* shared, void* data, uint64_t bytes, uint64_t reserved)
      : device_(device), shared_(shared), data_(data), bytes_(bytes), reserved_(reserved) {
    shared_->buffers.fetch_add(1, std::memory_order_relaxed);
  }
  ~HostBuffer() override {
    if (data_ == nullptr) {
      // It stood for memory that is elsewhere.
    } else if (reserved_ >= kPagesBytes) {
      shared_->pages.Return(data_, reserved_);
    } else {
      std::free(data_);
    }
    shared_->buffers.fetch_sub(1, std::memory_order_relaxed);
    shared_->in_use_bytes.fetch_sub(reserved_, std::memory_order_relaxed);
  }
  uint64_t bytes() const override { return bytes_; }
  const hal::Device* device() const override { return device_; }
  void* device_data() const override { return data_; }
  void* host_data() const override { return data_; }

 private:
  const hal::Device* const device_;
  Shared* const shared_;
  void* const data_;
  const uint64_t bytes_;
  const uint64_t reserved_;  // what was taken from the system and from the limit
};

class HostAllocator final : public hal::Allocator {
 public:
  HostAllocator(const hal::Device* device, uint64_t limit_bytes, std::shared_ptr<Mappings> mappings)
      : device_(device), shared_(limit_bytes, std::move(mappings)) {}

  absl::StatusOr<std::shared_ptr<hal::Buffer>> Allocate(uint64_t bytes, MemoryUse use, MemoryDomain) override {
    // Before it is rounded, since rounding could wrap.
    if (bytes > shared_.limit_bytes) return OutOfMemory(bytes);
    uint64_t reserved = bytes == 0 ? hal::kBufferAlignment : bytes + (-bytes & (hal::kBufferAlignment - 1));
    if (reserved >= kPagesBytes) reserved = PagePool::Rounded(reserved);
    if (!shared_.Reserve(reserved)) return OutOfMemory(bytes);
    absl::StatusOr<void*> data = nullptr;
    if (use != MemoryUse::kElsewhere)
      data = reserved >= kPagesBytes ? shared_.pages.Take(reserved) : FromHeap(reserved);
    if (!data.ok()) {
      shared_.in_use_bytes.fetch_sub(reserved, std::memory_order_relaxed);
      return data.status();
    }
    shared_.allocations.fetch_add(1, std::memory_order_relaxed);
    return std::make_shared<HostBuffer>(device_, &shared_, *data, bytes, reserved);
  }

  void Trim() override {}

  hal::AllocatorStats stats() const override {
    hal::AllocatorStats stats;
    stats.limit_bytes = shared_.limit_bytes;
    stats.in_use_bytes = shared_.in_use_bytes.load(std::memory_order_relaxed);
    stats.peak_bytes = shared_.peak_bytes.load(std::memory_order_relaxed);
    stats.buffers = shared_.buffers.load(std::memory_order_relaxed);
    stats.allocations = shared_.allocations.load(std::memory_order_relaxed);
    return stats;
  }

 private:
  absl::StatusOr<void*> FromHeap(uint64_t bytes) const {
    void* const data = std::aligned_alloc(hal::kBufferAlignment, bytes);
    if (data == nullptr) return OutOfMemory(bytes);
    // The process had it before, for whatever.
    std::memset(data, 0, bytes);
    return data;
  }

  absl::Status OutOfMemory(uint64_t bytes) const {
    const uint64_t used = shared_.in_use_bytes.load(std::memory_order_relaxed);
    v1::ErrorDetail detail;
    detail.set_code(v1::OUT_OF_MEMORY);
    detail.set_limit("device memory bytes");
    detail.set_limit_value(shared_.limit_bytes);
    detail.set_used(used);
    return MakeError(std::move(detail), absl::StrCat(bytes, " bytes do not fit: ", used, " of ", shared_.limit_bytes,
                                                     " bytes of device memory are in use"));
  }

  const hal::Device* const device_;
  Shared shared_;
};

}  // namespace

std::unique_ptr<hal::Allocator> MakeHostAllocator(const hal::Device* device, uint64_t limit_bytes,
                                                  std::shared_ptr<Mappings> mappings) {
  if (mappings == nullptr) mappings = std::make_shared<Mappings>();
  return std::make_unique<HostAllocator>(device, std::min(limit_bytes, kLargestLimit), std::move(mappings));
}

}  // namespace kiln::runtime::host
