// The composition root: the only file that names concrete devices and the
// compiler.
#ifndef KILN_SERVER_SERVER_H_
#define KILN_SERVER_SERVER_H_

#include <spdlog/fwd.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kiln/v1/config.pb.h"
#include "server/rpc_server.h"

namespace kiln::server {

// Devices, compiler, engine and port as `config` (checked) says. `worker` is a program that calls ServeWorker()
// below: empty, if there is none, and then compile_isolation "auto" is "off", and no tenant's isolation is PROCESS.
absl::StatusOr<std::unique_ptr<RpcServer>> StartServer(const v1::ServerConfig& config,
                                                       std::shared_ptr<spdlog::logger> log,
                                                       const std::string& worker = "");

// What main() returns if it is called as a process that compiles (server/compile_worker) or runs programs
// (server/executors).
bool IsWorker(int argc, const char* const* argv);
int ServeWorker(int argc, const char* const* argv);

// What StartServer would say of the file of tenants.
absl::Status CheckTenants(const v1::ServerConfig& config);

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVER_H_
