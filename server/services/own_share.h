// What a tenant sees of a device: what is so for everybody, and its own share of what changes.
#ifndef KILN_SERVER_SERVICES_OWN_SHARE_H_
#define KILN_SERVER_SERVICES_OWN_SHARE_H_

#include "base/account.h"
#include "kiln/v1/device_service.pb.h"
#include "runtime/hal/device.h"
#include "server/identity/tenant.h"

namespace kiln::server {

// How much memory is free, how much waits and how much has run tells what others do. So in place of that goes what the
// tenant itself has on this device, of what it may have, and what it has of handles and calls. Without a tenant, and
// for one with the right to what concerns everybody, `shown` stays as it is: FillDevice's of `device`.
void ShowOwnShare(const TenantPtr& tenant, const Account* account, runtime::hal::Device& device, v1::Device& shown);

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_OWN_SHARE_H_
