#include "server/services/own_share.h"

#include <algorithm>

namespace kiln::server {

void ShowOwnShare(const TenantPtr& tenant, const Account* account, v1::Device& device) {
  if (tenant == nullptr || account == nullptr || tenant->Has(Right::kAdmin)) return;
  if (const uint64_t most = account->limit(Quota::kDeviceBytes); most != 0)
    device.set_memory_total_bytes(std::min(most, device.memory_total_bytes()));
  device.set_memory_in_use_bytes(account->used(Quota::kDeviceBytes));
  device.set_buffers(account->used(Quota::kHandles));
  device.set_queue_depth(account->used(Quota::kInFlight));
  device.clear_memory_cached_bytes();
  device.clear_launches();
}

}  // namespace kiln::server
