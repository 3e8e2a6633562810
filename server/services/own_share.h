// What a tenant sees of a device: what is so for everybody, and its own share of what changes.
#ifndef KILN_SERVER_SERVICES_OWN_SHARE_H_
#define KILN_SERVER_SERVICES_OWN_SHARE_H_

#include "base/account.h"
#include "kiln/v1/device_service.pb.h"
#include "server/identity/tenant.h"

namespace kiln::server {

// How much memory is free, how much waits and how much has run tells what others do. So in place of that goes what the
// tenant itself has on all devices together, of what it may have. Without a tenant, and for one with the right to what
// concerns everybody, `device` stays as it is.
void ShowOwnShare(const TenantPtr& tenant, const Account* account, v1::Device& device);

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_OWN_SHARE_H_
