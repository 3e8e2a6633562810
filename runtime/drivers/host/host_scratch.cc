#include "runtime/drivers/host/host_scratch.h"

#include "base/error.h"

namespace kiln::runtime::host {

absl::StatusOr<void*> HostScratch::Get(uint64_t bytes, const Account* account, MemoryDomain domain) {
  const bool own = buffer_ != nullptr && domain == domain_ && domain != MemoryDomain::kNobody;
  if (!own || buffer_->bytes() < bytes) {
    // The old piece goes first: it may be what the new one lacks.
    buffer_ = nullptr;
    domain_ = domain;
    KILN_ASSIGN_OR_RETURN(
        buffer_, allocator_->guarantees().Allocate(account, *allocator_, bytes, hal::MemoryUse::kScratch, domain));
  }
  return buffer_->device_data();
}

}  // namespace kiln::runtime::host
