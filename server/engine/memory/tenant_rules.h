// What a tenant may use of an engine, besides its quotas, as the file of tenants says now.
#ifndef KILN_SERVER_ENGINE_MEMORY_TENANT_RULES_H_
#define KILN_SERVER_ENGINE_MEMORY_TENANT_RULES_H_

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "base/error.h"
#include "runtime/hal/device.h"
#include "server/engine/memory/tenant_devices.h"
#include "server/engine/memory/trust_domain.h"
#include "server/identity/tenant.h"

namespace kiln::server {

struct TenantRules {
  // Names of devices, or how they begin before a '*'; none: all.
  std::vector<std::string> devices;
  // Devices that it has for itself, instead of the server's; null: it uses the server's.
  const DeviceList* own = nullptr;
  // Under which code is kept that others get, too; all zeros: there is no such.
  TrustDomain shared = {};
  CacheSharing sharing = CacheSharing::kNone;

  bool MayUse(absl::string_view device) const {
    return devices.empty() || std::any_of(devices.begin(), devices.end(),
                                          [&](const std::string& pattern) { return Matches(pattern, device); });
  }
  bool operator==(const TenantRules&) const = default;
};

// UNKNOWN_DEVICE if one of these, on which something was loaded before, is not the tenant's any more. `rules` may be
// null.
inline absl::Status CheckDevices(const TenantRules* rules, absl::Span<runtime::hal::Device* const> devices) {
  if (rules == nullptr || rules->devices.empty()) return absl::OkStatus();
  for (const runtime::hal::Device* const device : devices) {
    if (rules->MayUse(device->name())) continue;
    v1::ErrorDetail detail;
    detail.set_code(v1::UNKNOWN_DEVICE);
    detail.set_field("device");
    return MakeError(detail, absl::StrCat("there is no device \"", device->name(), "\" any more; load it anew"));
  }
  return absl::OkStatus();
}

// One tenant's, which change while its requests read them. Safe from any thread, and read without a lock.
class TenantRulesCell {
 public:
  // Those in force; they live as long as the cell.
  const TenantRules& get() const { return *now_.load(std::memory_order_acquire); }

  void Set(TenantRules rules) {
    absl::MutexLock lock(&mutex_);
    if (rules == get()) return;
    // A request may still read those before: all are kept, as many as the file has had.
    all_.push_back(std::make_unique<const TenantRules>(std::move(rules)));
    now_.store(all_.back().get(), std::memory_order_release);
  }

 private:
  const TenantRules none_;
  std::atomic<const TenantRules*> now_{&none_};
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<const TenantRules>> all_ ABSL_GUARDED_BY(mutex_);
};

// Those of a server's tenants, by name. Safe from any thread.
class TenantsRules {
 public:
  // Made if it is new, without a rule. Lives as long as this.
  TenantRulesCell* Of(absl::string_view tenant) {
    absl::MutexLock lock(&mutex_);
    std::unique_ptr<TenantRulesCell>& cell = cells_[tenant];
    if (cell == nullptr) cell = std::make_unique<TenantRulesCell>();
    return cell.get();
  }

 private:
  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::unique_ptr<TenantRulesCell>> cells_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_MEMORY_TENANT_RULES_H_
