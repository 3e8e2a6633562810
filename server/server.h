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

// Devices, compiler, engine and port as `config` (checked) says. `worker` is a program that calls ServeCompileWorker()
// below: empty, if there is none, and then compile_isolation "auto" is "off".
absl::StatusOr<std::unique_ptr<RpcServer>> StartServer(const v1::ServerConfig& config,
                                                       std::shared_ptr<spdlog::logger> log,
                                                       const std::string& worker = "");

// What main() returns if it is called as a compile worker: with kZygoteFlag, and the memory that one may take.
bool IsCompileWorker(int argc, const char* const* argv);
int ServeCompileWorker(int argc, const char* const* argv);

// What StartServer would say of the file of tenants.
absl::Status CheckTenants(const v1::ServerConfig& config);

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVER_H_
