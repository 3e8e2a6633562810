// What happens to a server when other tenants are in force than before.
#ifndef KILN_SERVER_IN_FORCE_H_
#define KILN_SERVER_IN_FORCE_H_

#include "server/identity/identity.h"

namespace kiln::server {

class Engine;
class ModelRepository;
class NamedRegions;
class OpenCalls;
class SharedMemoryListener;
struct Logs;

// What knows tenants. All outlive the Identity; those after `open_calls` may be null.
struct InForce {
  Engine* engine;
  Logs* logs;
  OpenCalls* open_calls;
  SharedMemoryListener* shared_memory;
  NamedRegions* named_regions;
  ModelRepository* models;
};

// Quotas and rules change; then calls of who is not known any more end; and then all that those have who are gone.
Identity::Hooks HooksOf(const InForce& server);

}  // namespace kiln::server

#endif  // KILN_SERVER_IN_FORCE_H_
