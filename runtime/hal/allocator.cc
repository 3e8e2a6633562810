#include "runtime/hal/allocator.h"

#include <utility>

#include "base/error.h"

namespace kiln::runtime::hal {

absl::Status AsPayerMayKnow(const Account* account, const absl::Status& status) {
  auto detail = DetailOf(status);
  // What is guaranteed to others is told.
  const bool out = detail.has_value() && detail->code() == v1::OUT_OF_MEMORY;
  const bool of_device = out && detail->limit() == "device memory bytes";
  if (account == nullptr || !(of_device || (out && detail->limit() == "memory mappings"))) return status;
  detail->clear_used();
  return MakeError(*std::move(detail), of_device ? "it does not fit into what is free of the device's memory"
                                                 : "it needs a memory mapping more than there may be");
}

absl::StatusOr<std::shared_ptr<Buffer>> AllocateFor(Account* account, Allocator& allocator, uint64_t bytes,
                                                    MemoryUse use, MemoryDomain domain) {
  KILN_ASSIGN_OR_RETURN(Charge charge, Hold(account, Quota::kDeviceBytes, bytes));
  absl::StatusOr<std::shared_ptr<Buffer>> buffer =
      allocator.guarantees().Allocate(account, allocator, bytes, use, domain);
  if (!buffer.ok()) return AsPayerMayKnow(account, buffer.status());
  (*buffer)->Pay(std::move(charge));
  return buffer;
}

}  // namespace kiln::runtime::hal
