// How the port is encrypted, as the settings say.
//
// gRPC can watch files by itself, but waits by the system's clock, which may be set, and takes a certificate and a key
// that do not belong together, as they do for a moment whenever both are replaced, and then lets nobody in. So the
// files are read here. As a connection begins, gRPC asks for what was last found good.
//
// Tested by tests/e2e/tenants/identity_test.cc and tests/python/server/identity_test.py; with files that have faults
// and a clock that is set, by tests/chaos/tls_files_test.py.
#ifndef KILN_SERVER_TLS_H_
#define KILN_SERVER_TLS_H_

#include <grpcpp/security/server_credentials.h>
#include <spdlog/fwd.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "kiln/v1/config.pb.h"

namespace kiln::server {

// The files are looked at every second, and connections that begin afterwards are made with what they hold; where that
// is nothing that TLS can use, with what they held before, and the log says why. A client that shows a certificate
// which client_ca has not signed gets no connection. Its thread ends with it; it outlives the server that has its
// credentials.
class PortTls {
 public:
  // BAD_ARGUMENT, naming the field, for files that hold nothing that TLS can use.
  static absl::StatusOr<std::unique_ptr<PortTls>> Open(const v1::ServerConfig& config,
                                                       std::shared_ptr<spdlog::logger> log);
  ~PortTls();
  PortTls(const PortTls&) = delete;
  PortTls& operator=(const PortTls&) = delete;

  // Of one port; none without a certificate.
  const std::shared_ptr<grpc::ServerCredentials>& credentials() const { return credentials_; }

 private:
  class InForce;

  PortTls(const v1::ServerConfig::Tls& files, std::shared_ptr<spdlog::logger> log);
  absl::Status Take();
  void LookUntilStopped();

  const v1::ServerConfig::Tls files_;
  const std::shared_ptr<spdlog::logger> log_;
  std::string seen_;  // what the files had when they were last read
  const std::unique_ptr<InForce> in_force_;
  std::shared_ptr<grpc::ServerCredentials> credentials_;
  Bell bell_;  // rings for the end
  std::thread thread_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_TLS_H_
