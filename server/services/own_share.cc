#include "server/services/own_share.h"

#include <algorithm>

#include "runtime/hal/guarantees.h"

namespace kiln::server {

void ShowOwnShare(const TenantPtr& tenant, const Account* account, runtime::hal::Device& device, v1::Device& shown) {
  if (tenant == nullptr || account == nullptr || tenant->Has(Right::kAdmin)) return;
  if (const uint64_t most = account->limit(Quota::kDeviceBytes); most != 0)
    shown.set_memory_total_bytes(std::min(most, shown.memory_total_bytes()));
  shown.set_memory_in_use_bytes(device.allocator().guarantees().Of(account).used);
  shown.set_buffers(account->used(Quota::kHandles));
  shown.set_queue_depth(account->used(Quota::kInFlight));
  shown.clear_memory_cached_bytes();
  shown.clear_launches();
}

}  // namespace kiln::server
