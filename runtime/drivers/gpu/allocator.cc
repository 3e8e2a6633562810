#include "runtime/drivers/gpu/allocator.h"

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/error.h"
#include "runtime/drivers/gpu/owned.h"

namespace kiln::runtime::gpu {
namespace {

class CardBuffer;

class CardAllocator final : public hal::Allocator {
 public:
  CardAllocator(const hal::Device* device, Card* card, uint64_t limit_bytes,
                std::function<absl::Status(Address, uint64_t)> clear)
      : device_(device), card_(card), clear_(std::move(clear)) {
    stats_.limit_bytes = limit_bytes;
  }

  absl::StatusOr<std::shared_ptr<hal::Buffer>> Allocate(uint64_t bytes, hal::MemoryUse, MemoryDomain) override;
  void Trim() override {}
  hal::AllocatorStats stats() const override {
    absl::MutexLock lock(&mutex_);
    return stats_;
  }

  void GiveBack(uint64_t reserved) {
    absl::MutexLock lock(&mutex_);
    stats_.in_use_bytes -= reserved;
    --stats_.buffers;
  }

 private:
  absl::Status Reserve(uint64_t bytes, uint64_t reserved);

  const hal::Device* const device_;
  Card* const card_;
  const std::function<absl::Status(Address, uint64_t)> clear_;
  mutable absl::Mutex mutex_;
  hal::AllocatorStats stats_ ABSL_GUARDED_BY(mutex_);
};

class CardBuffer final : public hal::Buffer {
 public:
  CardBuffer(CardAllocator* allocator, const hal::Device* device, OwnedMemory memory, uint64_t bytes, uint64_t reserved)
      : allocator_(allocator), device_(device), memory_(std::move(memory)), bytes_(bytes), reserved_(reserved) {}
  ~CardBuffer() override {
    {
      const OwnedMemory freed = std::move(memory_);
    }
    allocator_->GiveBack(reserved_);
  }
  uint64_t bytes() const override { return bytes_; }
  const hal::Device* device() const override { return device_; }
  void* device_data() const override { return reinterpret_cast<void*>(memory_.get()); }
  void* host_data() const override { return nullptr; }

 private:
  CardAllocator* const allocator_;
  const hal::Device* const device_;
  OwnedMemory memory_;
  const uint64_t bytes_;
  const uint64_t reserved_;
};

absl::Status CardAllocator::Reserve(uint64_t bytes, uint64_t reserved) {
  absl::MutexLock lock(&mutex_);
  // `reserved` has wrapped if `bytes` is near the end of all numbers.
  if (reserved < bytes || reserved > stats_.limit_bytes - stats_.in_use_bytes) {
    v1::ErrorDetail detail;
    detail.set_code(v1::OUT_OF_MEMORY);
    detail.set_limit("device memory bytes");
    detail.set_limit_value(stats_.limit_bytes);
    detail.set_used(stats_.in_use_bytes);
    return MakeError(std::move(detail),
                     absl::StrCat(bytes, " bytes do not fit: ", stats_.in_use_bytes, " of ", stats_.limit_bytes,
                                  " bytes of ", device_->name(), "'s memory are in use; see --gpu_memory_percent"));
  }
  stats_.in_use_bytes += reserved;
  ++stats_.buffers;
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<hal::Buffer>> CardAllocator::Allocate(uint64_t bytes, hal::MemoryUse, MemoryDomain) {
  const uint64_t reserved =
      std::max<uint64_t>((bytes + hal::kBufferAlignment - 1) / hal::kBufferAlignment, 1) * hal::kBufferAlignment;
  KILN_RETURN_IF_ERROR(Reserve(bytes, reserved));
  absl::StatusOr<Address> address = card_->Allocate(reserved);
  absl::Status status = address.status();
  OwnedMemory memory;
  if (status.ok()) {
    memory = OwnedMemory(card_, *address);
    // The driver does not say what is in it, and this process may have had it before.
    status = clear_(*address, reserved);
  }
  if (!status.ok()) {
    memory = OwnedMemory();
    GiveBack(reserved);
    return status;
  }
  {
    absl::MutexLock lock(&mutex_);
    ++stats_.allocations;
    stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.in_use_bytes);
  }
  return std::make_shared<CardBuffer>(this, device_, std::move(memory), bytes, reserved);
}

}  // namespace

std::unique_ptr<hal::Allocator> MakeCardAllocator(const hal::Device* device, Card* card, uint64_t limit_bytes,
                                                  std::function<absl::Status(Address to, uint64_t bytes)> clear) {
  return std::make_unique<CardAllocator>(device, card, limit_bytes, std::move(clear));
}

}  // namespace kiln::runtime::gpu
