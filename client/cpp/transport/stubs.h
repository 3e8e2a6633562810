// A connection's stubs, and a unary call by one of them. Apart from connection.h, which all of
// the client includes: gRPC's headers take a compiler seconds.
#ifndef KILN_CLIENT_CPP_TRANSPORT_STUBS_H_
#define KILN_CLIENT_CPP_TRANSPORT_STUBS_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "client/cpp/transport/cancellation.h"
#include "client/cpp/transport/connection.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "kiln/v1/buffer_service.grpc.pb.h"
#include "kiln/v1/collective_service.grpc.pb.h"
#include "kiln/v1/device_service.grpc.pb.h"
#include "kiln/v1/kernel_service.grpc.pb.h"
#include "kiln/v1/session_service.grpc.pb.h"

namespace kiln::client {

// But DebugService's, which client_debug.cc makes as it needs it: its messages would weigh on each of the others.
struct Stubs {
  explicit Stubs(const std::shared_ptr<grpc::Channel>& channel);

  const std::unique_ptr<v1::KernelService::Stub> kernels;
  const std::unique_ptr<v1::BufferService::Stub> buffers;
  const std::unique_ptr<v1::DeviceService::Stub> devices;
  const std::unique_ptr<v1::CollectiveService::Stub> collectives;
  const std::unique_ptr<v1::SessionService::Stub> sessions;
  const std::unique_ptr<grpc::health::v1::Health::Stub> health;
  // For messages that are bytes (raw_call.h).
  const std::unique_ptr<grpc::GenericStub> raw;
};

// One unary call: `method` is of the stub that `stub` names. Made again as retries.h says, and counted each time.
// CANCELLED once `cancellation` says so. Without `again` it is made once.
template <typename Interface, typename Stub, typename Request, typename Response>
absl::Status Call(Connection& connection, const std::unique_ptr<Interface>& stub,
                  grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*), const char* name,
                  const Request& request, Response* response, std::optional<absl::Time> by = std::nullopt,
                  Cancellation* cancellation = nullptr, bool again = true) {
  constexpr bool kUnderSession = !std::is_same_v<Stub, v1::SessionService::Stub>;
  const absl::Time deadline = by.value_or(connection.Deadline());
  connection.retries().Earn();
  for (int attempt = 1;; ++attempt) {
    grpc::ClientContext context;
    connection.Prepare(context, deadline, kUnderSession);
    const Cancellation::Scope scope(cancellation, context);
    const grpc::Status status = (stub.get()->*method)(&context, request, response);
    connection.Count(name, 1, request.ByteSizeLong(), status.ok() ? response->ByteSizeLong() : 0);
    if (status.ok()) return absl::OkStatus();
    const absl::Status failure = connection.Convert(status);
    if (!again) return failure;
    const auto wait = connection.retries().WaitBeforeNext(name, failure, attempt, absl::Now(), deadline);
    if (!wait.has_value()) return failure;
    if (!Cancellation::Sleep(cancellation, *wait)) return absl::CancelledError("its caller has given the call up");
  }
}

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_TRANSPORT_STUBS_H_
