#include "client/cpp/transport/status.h"

#include "absl/strings/cord.h"
#include "google/rpc/status.pb.h"

namespace kiln::client {
namespace {

void AddDetails(const google::rpc::Status& details, absl::Status& status) {
  for (const google::protobuf::Any& detail : details.details()) {
    status.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  }
}

}  // namespace

// The numbers of grpc::StatusCode and absl::StatusCode are the same.
absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  google::rpc::Status details;
  if (details.ParseFromString(status.error_details())) AddDetails(details, result);
  return result;
}

absl::Status FromDetails(const std::string& details) {
  google::rpc::Status status;
  if (!status.ParseFromString(details)) return absl::InternalError("a failure that does not say what failed");
  absl::Status result(static_cast<absl::StatusCode>(status.code()), status.message());
  AddDetails(status, result);
  return result;
}

}  // namespace kiln::client
