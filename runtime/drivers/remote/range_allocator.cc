#include "runtime/drivers/remote/range_allocator.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/error.h"

namespace kiln::runtime::remote {
namespace {

constexpr uint64_t kPage = 4096;
// From this size on, memory begins and ends with a page, and goes back to its process.
constexpr uint64_t kPagesFrom = 256 << 10;

uint64_t RoundUp(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

class RangeAllocator final : public hal::Allocator {
 public:
  RangeAllocator(const hal::Device* device, const Range& range, ClearFunction clear,
                 std::function<absl::Status()> health)
      : device_(device),
        clear_(std::move(clear)),
        health_(std::move(health)),
        host_sees_(range.host_sees),
        fresh_(range.base) {
    stats_.limit_bytes = range.limit_bytes;
    free_[range.base] = range.bytes;
  }

  absl::StatusOr<std::shared_ptr<hal::Buffer>> Allocate(uint64_t bytes, hal::MemoryUse, MemoryDomain) override;
  void Trim() override {}
  hal::AllocatorStats stats() const override {
    absl::MutexLock lock(&mutex_);
    return stats_;
  }

 private:
  class RangeBuffer;

  absl::Status OutOfMemory(uint64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The lowest free place; 0 if there is none.
  uint64_t Take(uint64_t bytes, uint64_t alignment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Free(uint64_t address, uint64_t bytes);
  void GiveBack(uint64_t address, uint64_t bytes);

  const hal::Device* const device_;
  const ClearFunction clear_;
  const std::function<absl::Status()> health_;
  const bool host_sees_;
  mutable absl::Mutex mutex_;
  hal::AllocatorStats stats_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, uint64_t> free_ ABSL_GUARDED_BY(mutex_);  // bytes by address; no two touch
  uint64_t fresh_ ABSL_GUARDED_BY(mutex_);                     // nothing from here on was ever used
};

class RangeAllocator::RangeBuffer final : public hal::Buffer {
 public:
  RangeBuffer(RangeAllocator* allocator, uint64_t address, uint64_t bytes, uint64_t reserved)
      : allocator_(allocator), address_(address), bytes_(bytes), reserved_(reserved) {}
  ~RangeBuffer() override { allocator_->Free(address_, reserved_); }
  uint64_t bytes() const override { return bytes_; }
  const hal::Device* device() const override { return allocator_->device_; }
  void* device_data() const override { return reinterpret_cast<void*>(address_); }
  void* host_data() const override { return allocator_->host_sees_ ? device_data() : nullptr; }

 private:
  RangeAllocator* const allocator_;
  const uint64_t address_;
  const uint64_t bytes_;
  const uint64_t reserved_;
};

absl::StatusOr<std::shared_ptr<hal::Buffer>> RangeAllocator::Allocate(uint64_t bytes, hal::MemoryUse, MemoryDomain) {
  KILN_RETURN_IF_ERROR(health_());
  uint64_t address, reserved;
  bool used_before;
  {
    absl::MutexLock lock(&mutex_);
    // Before it is rounded, since rounding could wrap.
    if (bytes > stats_.limit_bytes) return OutOfMemory(bytes);
    const uint64_t alignment = bytes >= kPagesFrom ? kPage : hal::kBufferAlignment;
    reserved = RoundUp(std::max<uint64_t>(bytes, 1), alignment);
    if (reserved > stats_.limit_bytes - stats_.in_use_bytes) return OutOfMemory(bytes);
    address = Take(reserved, alignment);
    if (address == 0) return OutOfMemory(bytes);
    used_before = address < fresh_;
    fresh_ = std::max(fresh_, address + reserved);
    stats_.in_use_bytes += reserved;
    stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.in_use_bytes);
    ++stats_.buffers;
    ++stats_.allocations;
  }
  // Large memory is cleared as it is freed; but of small pieces beside each other comes large memory, too.
  if (used_before) clear_(address, reserved, nullptr);
  return std::make_shared<RangeBuffer>(this, address, bytes, reserved);
}

uint64_t RangeAllocator::Take(uint64_t bytes, uint64_t alignment) {
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [begin, size] = *it;
    const uint64_t address = RoundUp(begin, alignment), end = begin + size;
    if (address > end || bytes > end - address) continue;
    free_.erase(it);
    if (address > begin) free_[begin] = address - begin;
    if (address + bytes < end) free_[address + bytes] = end - address - bytes;
    return address;
  }
  return 0;
}

void RangeAllocator::Free(uint64_t address, uint64_t bytes) {
  {
    absl::MutexLock lock(&mutex_);
    stats_.in_use_bytes -= bytes;
    --stats_.buffers;
  }
  if (bytes < kPagesFrom) return GiveBack(address, bytes);
  clear_(address, bytes, [this, address, bytes] { GiveBack(address, bytes); });
}

void RangeAllocator::GiveBack(uint64_t address, uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  auto next = free_.lower_bound(address);
  if (next != free_.end() && next->first == address + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == address) {
      before->second += bytes;
      return;
    }
  }
  free_[address] = bytes;
}

absl::Status RangeAllocator::OutOfMemory(uint64_t bytes) const {
  v1::ErrorDetail detail;
  detail.set_code(v1::OUT_OF_MEMORY);
  detail.set_limit("device memory bytes");
  detail.set_limit_value(stats_.limit_bytes);
  detail.set_used(stats_.in_use_bytes);
  return MakeError(detail, absl::StrCat(bytes, " bytes do not fit: ", stats_.in_use_bytes, " of ", stats_.limit_bytes,
                                        " bytes of device memory are in use"));
}

}  // namespace

std::unique_ptr<hal::Allocator> MakeRangeAllocator(const hal::Device* device, const Range& range, ClearFunction clear,
                                                   std::function<absl::Status()> health) {
  return std::make_unique<RangeAllocator>(device, range, std::move(clear), std::move(health));
}

}  // namespace kiln::runtime::remote
