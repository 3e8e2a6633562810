// Devices that one tenant has for itself.
//
// A device is where programs run. Most tenants' run on the server's devices, beside each other;
// a tenant whose programs run apart has devices of the same names that nobody else reaches.
#ifndef KILN_SERVER_ENGINE_MEMORY_TENANT_DEVICES_H_
#define KILN_SERVER_ENGINE_MEMORY_TENANT_DEVICES_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/hal/device.h"

namespace kiln::server {

using DeviceList = std::vector<std::unique_ptr<runtime::hal::Device>>;

// Safe from any thread.
class TenantDevices {
 public:
  // No buffer or module of any of the devices may be left.
  virtual ~TenantDevices() = default;

  // All tenants that there are now, and whether each runs apart. BAD_ARGUMENT, and nothing
  // changes, for one that was otherwise before: what it holds is on the devices that it had.
  // NOT_IMPLEMENTED if one shall run apart and cannot here.
  virtual absl::Status SetTenants(const std::map<std::string, bool>& apart) = 0;

  // At least one, each of the name and target of one of the server's; they live as long as this.
  // Null: the tenant uses the server's.
  virtual const DeviceList* Of(absl::string_view tenant) = 0;

  // Waits until all that was submitted to any of them has ended.
  virtual void Drain() = 0;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_MEMORY_TENANT_DEVICES_H_
