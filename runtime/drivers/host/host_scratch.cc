#include "runtime/drivers/host/host_scratch.h"

#include "base/error.h"

namespace kiln::runtime::host {

absl::StatusOr<void*> HostScratch::Get(uint64_t bytes, const Account* account) {
  if (buffer_ == nullptr || buffer_->bytes() < bytes) {
    // The old piece goes first: it may be what the new one lacks.
    buffer_ = nullptr;
    KILN_ASSIGN_OR_RETURN(buffer_,
                          allocator_->guarantees().Allocate(account, *allocator_, bytes, hal::MemoryUse::kScratch));
  }
  return buffer_->device_data();
}

}  // namespace kiln::runtime::host
