// What happens to a server when other tenants are in force than before.
#ifndef KILN_SERVER_IN_FORCE_H_
#define KILN_SERVER_IN_FORCE_H_

#include "base/account.h"
#include "kiln/v1/config.pb.h"
#include "server/identity/identity.h"

namespace kiln::server {

class Engine;
class ModelRepository;
class NamedRegions;
class OpenCalls;
class SharedMemoryListener;
struct Logs;

// How much of what the server has few of a tenant may have that has no line for it: a quarter, so that no tenant can
// take all. Of sessions, handles, watchers and regions of shared memory.
QuotaLimits SharesOf(const v1::ServerConfig& config);

// What knows tenants. All outlive the Identity; those after `open_calls` may be null.
struct InForce {
  Engine* engine;
  Logs* logs;
  OpenCalls* open_calls;
  SharedMemoryListener* shared_memory;
  NamedRegions* named_regions;
  ModelRepository* models;
  QuotaLimits shares = {};
};

// Quotas and rules change; then calls of who is not known any more end; and then all that those have who are gone.
Identity::Hooks HooksOf(const InForce& server);

}  // namespace kiln::server

#endif  // KILN_SERVER_IN_FORCE_H_
