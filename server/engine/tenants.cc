// Engine: what the file of tenants says, put in force; and the devices that there are for each tenant.
// Tested by tenancy_test and tenant_devices_test.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "server/engine/engine.h"

namespace kiln::server {
namespace {

// BAD_ARGUMENT or NOT_IMPLEMENTED: no tenant's devices change.
absl::Status SetApart(absl::Span<const std::shared_ptr<const Tenant>> tenants, TenantDevices* devices) {
  std::map<std::string, bool> apart;
  for (const auto& tenant : tenants) apart[tenant->name] = tenant->apart;
  if (devices != nullptr) return devices->SetTenants(apart);
  const auto wants = [](const auto& row) { return row.second; };
  if (std::none_of(apart.begin(), apart.end(), wants)) return absl::OkStatus();
  return MakeError(v1::NOT_IMPLEMENTED, "tenants: isolation: PROCESS is not to be had from this program");
}

// No tenant has a name with a ':', so that none of these is a domain of one.
std::string SharersOf(const Tenant& tenant) {
  switch (tenant.cache_sharing) {
    case CacheSharing::kNone: return "";
    case CacheSharing::kGroup: return tenant.sharing_group.empty() ? "" : "group:" + tenant.sharing_group;
    case CacheSharing::kHidden:
    case CacheSharing::kAll: return "all:";
  }
  return "";
}

TenantRules RulesOf(const Tenant& tenant, absl::string_view secret, TenantDevices* devices) {
  // What is loaded for one tenant's own devices is nothing for others'.
  if (tenant.apart) return {.devices = tenant.devices, .own = devices->Of(tenant.name)};
  return {.devices = tenant.devices, .shared = DomainOf(secret, SharersOf(tenant)), .sharing = tenant.cache_sharing};
}

using Guaranteed = std::vector<std::pair<const Account*, uint64_t>>;

uint64_t SumOf(const Guaranteed& guaranteed) {
  uint64_t sum = 0;
  for (const auto& [account, bytes] : guaranteed) sum += std::min(bytes, ~uint64_t{0} - sum);
  return sum;
}

}  // namespace

absl::Status Engine::SetTenants(absl::Span<const std::shared_ptr<const Tenant>> tenants) {
  std::vector<Guaranteed> of_devices;
  for (const auto& device : devices_) {
    Guaranteed& guaranteed = of_devices.emplace_back();
    for (const auto& tenant : tenants) {
      if (tenant->guaranteed_device_bytes == 0 || !TenantRules{tenant->devices}.MayUse(device->name())) continue;
      guaranteed.emplace_back(accounts_.Of(tenant->name), tenant->guaranteed_device_bytes);
    }
    const uint64_t sum = SumOf(guaranteed), has = device->stats().memory.limit_bytes;
    if (sum <= has) continue;
    v1::ErrorDetail detail;
    detail.set_code(v1::BAD_ARGUMENT);
    detail.set_field("tenants");
    return MakeError(detail, absl::StrCat("tenants: guaranteed_device_bytes of all are ", sum, " on ", device->name(),
                                          ", which has ", has));
  }
  KILN_RETURN_IF_ERROR(SetApart(tenants, tenant_devices_.get()));
  for (size_t i = 0; i < devices_.size(); ++i) devices_[i]->allocator().guarantees().Set(of_devices[i]);
  for (const auto& tenant : tenants) {
    Account& account = *accounts_.Of(tenant->name);
    account.SetLimits(tenant->quota);
    account.SetShare(tenant->weight, tenant->interactive);
    rules_.Of(tenant->name)->Set(RulesOf(*tenant, options_.sessions.domain_secret, tenant_devices_.get()));
  }
  return absl::OkStatus();
}

void Engine::Forget(const std::set<std::string, std::less<>>& tenants) {
  std::vector<TrustDomain> domains;
  for (const std::string& name : tenants) domains.push_back(sessions_.DomainOf(name));
  // Nothing more is made in these domains by who has no session there.
  sessions_.Forget(tenants);
  for (const TrustDomain& domain : domains) {
    recordings_.Forget(domain);
    store_.Forget(domain);
  }
}

bool Engine::MayUse(const TenantRules* rules, absl::string_view device) {
  return rules == nullptr || rules->MayUse(device);
}

absl::StatusOr<runtime::hal::Device*> Engine::FindDevice(absl::string_view name, const TenantRules* rules) const {
  std::string first;
  for (const auto& device : devices(rules)) {
    if (!MayUse(rules, device->name())) continue;
    if (name.empty() || device->name() == name) return device.get();
    if (first.empty()) first = std::string(device->name());
  }
  const auto named = [&](const auto& device) { return device->name() == name && MayUse(rules, name); };
  const bool of_the_server = std::any_of(devices_.begin(), devices_.end(), named);
  v1::ErrorDetail detail;
  detail.set_code(of_the_server ? v1::NOT_IMPLEMENTED : v1::UNKNOWN_DEVICE);
  detail.set_field("device");
  if (of_the_server) {
    return MakeError(detail, absl::StrCat(name, " runs no programs in a process of their own, as this tenant's do"));
  }
  if (first.empty()) return MakeError(detail, "this server has no device for this tenant");
  return MakeError(detail, absl::StrCat("there is no device \"", name, "\"; the first is ", first));
}

}  // namespace kiln::server
