#include "runtime/hal/guarantees.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/hal/allocator.h"

namespace kiln::runtime::hal {
namespace {

// A buffer and what is counted for it. The count ends first: who sees that memory is free must not take it for
// part of what its last owner has.
struct Counted {
  std::shared_ptr<Buffer> buffer;
  Charge charge;
};

// Of a device, what is not in use.
uint64_t LeftOf(const Allocator& allocator) {
  const AllocatorStats stats = allocator.stats();
  return stats.limit_bytes - std::min(stats.limit_bytes, stats.in_use_bytes);
}

absl::Status GuaranteedToOthers(uint64_t free, uint64_t bytes) {
  v1::ErrorDetail detail;
  detail.set_code(v1::OUT_OF_MEMORY);
  detail.set_limit("guaranteed_device_bytes");
  detail.set_limit_value(free);
  detail.set_used(bytes);
  return MakeError(detail, absl::StrCat(bytes, " bytes do not fit: this device has ", free,
                                        " free for this tenant, and what else is not in use is guaranteed to others; "
                                        "free some buffers"));
}

}  // namespace

void Guarantees::Set(const std::vector<std::pair<const Account*, uint64_t>>& guaranteed) {
  absl::MutexLock lock(&mutex_);
  for (auto& [account, owner] : owners_) owner->guaranteed = 0;
  bool any = false;
  for (const auto& [account, bytes] : guaranteed) {
    OwnerOf(account).guaranteed = bytes;
    any |= bytes > 0;
  }
  any_.store(any, std::memory_order_relaxed);
}

Guarantees::Part Guarantees::Of(const Account* account) const {
  absl::MutexLock lock(&mutex_);
  const auto found = owners_.find(account);
  if (found == owners_.end()) return {};
  const Owner& owner = *found->second;
  return {owner.guaranteed, owner.on_device.used(Quota::kDeviceBytes), owner.scratch.used(Quota::kDeviceBytes)};
}

Guarantees::Owner& Guarantees::OwnerOf(const Account* account) {
  std::unique_ptr<Owner>& owner = owners_[account];
  if (owner == nullptr) owner = std::make_unique<Owner>();
  return *owner;
}

uint64_t Guarantees::KeptFrom(const Account* account) const {
  uint64_t kept = 0;
  for (const auto& [other, owner] : owners_) {
    if (other == account || owner->guaranteed == 0) continue;
    const uint64_t used = owner->on_device.used(Quota::kDeviceBytes) + owner->scratch.used(Quota::kDeviceBytes);
    kept += owner->guaranteed - std::min(owner->guaranteed, used);
  }
  return kept;
}

void Guarantees::SetRelief(std::function<void()> relief) {
  absl::MutexLock lock(&relief_mutex_);
  relief_ = std::move(relief);
}

absl::StatusOr<std::shared_ptr<Buffer>> Guarantees::Allocate(const Account* account, Allocator& allocator,
                                                             uint64_t bytes, MemoryUse use, MemoryDomain domain) {
  absl::StatusOr<std::shared_ptr<Buffer>> buffer = Try(account, allocator, bytes, use, domain);
  if (!absl::IsResourceExhausted(buffer.status()) || bytes > allocator.stats().limit_bytes) return buffer;
  {
    absl::MutexLock lock(&relief_mutex_);
    if (relief_ == nullptr) return buffer;
    relief_();
  }
  return Try(account, allocator, bytes, use, domain);
}

absl::StatusOr<std::shared_ptr<Buffer>> Guarantees::Try(const Account* account, Allocator& allocator, uint64_t bytes,
                                                        MemoryUse use, MemoryDomain domain) {
  const bool any = any_.load(std::memory_order_relaxed);
  if (account == nullptr && !any) return allocator.Allocate(bytes, use, domain);
  absl::ReleasableMutexLock lock(&mutex_);
  uint64_t kept = 0;
  if (any) {
    // Before the question who has what: whatever is freed in between then counts for nobody.
    const uint64_t left = LeftOf(allocator);
    kept = KeptFrom(account);
    const uint64_t free = left - std::min(left, kept);
    if (kept > 0 && bytes > free) return GuaranteedToOthers(free, bytes);
  }
  Charge charge;
  if (account != nullptr) {
    Owner& owner = OwnerOf(account);
    // It has no limit.
    charge = *Hold(use == MemoryUse::kScratch ? &owner.scratch : &owner.on_device, Quota::kDeviceBytes, bytes);
  }
  // Else held on: two must not find the same bytes free.
  if (!any) lock.Release();
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer, allocator.Allocate(bytes, use, domain));
  if (kept > 0 && LeftOf(allocator) < kept) {
    // What it was rounded up by is others'.
    buffer = nullptr;
    KILN_ASSIGN_OR_RETURN(buffer, allocator.AllocateExactly(bytes, use, domain));
  }
  if (account == nullptr) return buffer;
  const auto counted = std::make_shared<Counted>(Counted{std::move(buffer), std::move(charge)});
  return std::shared_ptr<Buffer>(counted, counted->buffer.get());
}

}  // namespace kiln::runtime::hal
