// What every service works with.
#ifndef KILN_SERVER_SERVICES_ENV_H_
#define KILN_SERVER_SERVICES_ENV_H_

#include <spdlog/fwd.h>

#include "server/engine/engine.h"
#include "server/files/loader.h"
#include "server/services/requests/gate.h"
#include "server/services/requests/open_calls.h"
#include "server/services/requests/request_pool.h"
#include "server/shared_memory/listener.h"

namespace kiln::server {

class DeviceWatch;
class HttpPeers;
class Identity;
class ModelRepository;
class NamedRegions;
class ServerState;
struct Logs;

// All outlive the services.
struct ServiceEnv {
  Engine& engine;
  Gate& gate;
  RequestPool& requests;
  spdlog::logger& log;
  SharedMemoryListener* shared_memory;  // null where it is off
  Loader* loader;                       // null where there is no data folder
  DeviceWatch* watch;
  Identity* identity;  // null where whoever reaches the port may do all
  ServerState* state;
  Logs* logs;
  ModelRepository* models;      // null where there is no folder of models
  NamedRegions* named_regions;  // null where no shared memory is taken by name
  const HttpPeers* http_peers;  // null where nobody wants to know for whom the port for HTTP calls
  OpenCalls* open_calls;        // null where whoever reaches the port may do all
};

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_ENV_H_
