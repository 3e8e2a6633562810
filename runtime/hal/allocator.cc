#include "runtime/hal/allocator.h"

#include <utility>

#include "base/error.h"

namespace kiln::runtime::hal {

absl::StatusOr<std::shared_ptr<Buffer>> AllocateFor(Account* account, Allocator& allocator, uint64_t bytes,
                                                    MemoryUse use) {
  KILN_ASSIGN_OR_RETURN(Charge charge, Hold(account, Quota::kDeviceBytes, bytes));
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer,
                        allocator.guarantees().Allocate(account, allocator, bytes, use));
  buffer->Pay(std::move(charge));
  return buffer;
}

}  // namespace kiln::runtime::hal
