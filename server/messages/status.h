// absl::Status ↔ grpc::Status: the one place where the two meet.
//
// On the wire a failure is gRPC's code and text plus a google.rpc.Status in the
// "grpc-status-details-bin" trailer, whose details hold one kiln.v1.ErrorDetail.
#ifndef KILN_SERVER_MESSAGES_STATUS_H_
#define KILN_SERVER_MESSAGES_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace kiln::server {

// Every failure leaves with an ErrorDetail, so with a code of the protocol. One that has none is a
// cancellation (CANCELLED, CALL_CANCELLED), or a fault of ours (INTERNAL, INTERNAL_FAULT).
grpc::Status ToGrpc(const absl::Status& status);

// The inverse, for those who call a server.
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace kiln::server

#endif  // KILN_SERVER_MESSAGES_STATUS_H_
