// A failed call as an absl::Status that still has its ErrorDetail, so that
// kiln::DetailOf works on the client as it does on the server.
#ifndef KILN_CLIENT_CPP_TRANSPORT_STATUS_H_
#define KILN_CLIENT_CPP_TRANSPORT_STATUS_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"

namespace kiln::client {

absl::Status FromGrpc(const grpc::Status& status);

// Of a serialized google.rpc.Status, as a stream's answers have it.
absl::Status FromDetails(const std::string& details);

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_TRANSPORT_STATUS_H_
