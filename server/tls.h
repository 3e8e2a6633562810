// How the port is encrypted, as the settings say.
#ifndef KILN_SERVER_TLS_H_
#define KILN_SERVER_TLS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "absl/status/statusor.h"
#include "kiln/v1/config.pb.h"

namespace kiln::server {

// None without a certificate. The files are looked at every second, and connections begin with
// what they hold then; a client that shows a certificate which client_ca has not signed gets
// no connection. BAD_ARGUMENT, naming the field, for files that hold nothing that TLS can use.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> PortCredentials(const v1::ServerConfig& config);

}  // namespace kiln::server

#endif  // KILN_SERVER_TLS_H_
