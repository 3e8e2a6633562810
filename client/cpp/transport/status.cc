#include "client/cpp/transport/status.h"

#include "absl/strings/cord.h"
#include "google/rpc/status.pb.h"

namespace kiln::client {
namespace {

// What gRPC says, as UNIMPLEMENTED, where the answer to a unary call came and could not be parsed.
constexpr char kUnreadable[] = "No message returned for unary request";

void AddDetails(const google::rpc::Status& details, absl::Status& status) {
  for (const google::protobuf::Any& detail : details.details()) {
    status.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  }
}

}  // namespace

// The numbers of grpc::StatusCode and absl::StatusCode are the same.
absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED && status.error_message() == kUnreadable) {
    return absl::InternalError("the server's answer cannot be read");
  }
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  google::rpc::Status details;
  if (details.ParseFromString(status.error_details())) AddDetails(details, result);
  return result;
}

absl::Status FromDetails(const std::string& details) {
  google::rpc::Status status;
  if (!status.ParseFromString(details)) return absl::InternalError("a failure that does not say what failed");
  if (status.code() == 0) return absl::InternalError("a failure that says that nothing failed");
  absl::Status result(static_cast<absl::StatusCode>(status.code()), status.message());
  AddDetails(status, result);
  return result;
}

}  // namespace kiln::client
