#include "server/messages/status.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "google/rpc/status.pb.h"

namespace kiln::server {
namespace {

// Texts travel in a header; one that is longer than most peers accept would
// lose the whole reply.
constexpr size_t kLongestMessage = 2048;

std::string Shortened(absl::string_view message) {
  if (message.size() <= kLongestMessage) return std::string(message);
  // Not inside a character: protobuf takes no text that is cut there.
  size_t end = kLongestMessage;
  while (end > 0 && (message[end] & 0xC0) == 0x80) --end;
  return absl::StrCat(message.substr(0, end), "...");
}

// A tag is a client's own text and as long as it likes.
absl::Status WithShortDetail(const absl::Status& status) {
  std::optional<v1::ErrorDetail> detail = DetailOf(status);
  if (!detail.has_value() || detail->ByteSizeLong() <= kLongestMessage) return status;
  detail->set_tag(Shortened(detail->tag()));
  detail->set_field(Shortened(detail->field()));
  return MakeError(*std::move(detail), status.message());
}

// A failure always has a code of the protocol: whoever looks for one finds it.
absl::Status WithCode(const absl::Status& status) {
  if (DetailOf(status).has_value()) return status;
  if (status.code() == absl::StatusCode::kCancelled) return MakeError(v1::CALL_CANCELLED, status.message());
  return MakeError(v1::INTERNAL_FAULT, status.ToString());
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const absl::Status full = WithShortDetail(WithCode(status));
  google::rpc::Status wire;
  wire.set_code(static_cast<int>(full.code()));
  wire.set_message(Shortened(full.message()));
  full.ForEachPayload([&wire](absl::string_view url, const absl::Cord& payload) {
    // Others are for us alone (server/engine/programs/failed_stages.h).
    if (!absl::StartsWith(url, "type.googleapis.com/")) return;
    google::protobuf::Any* any = wire.add_details();
    any->set_type_url(std::string(url));
    any->set_value(std::string(payload));
  });
  // Both kinds of status number their codes alike.
  return grpc::Status(static_cast<grpc::StatusCode>(full.code()), wire.message(), wire.SerializeAsString());
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  google::rpc::Status wire;
  if (!wire.ParseFromString(status.error_details())) return result;
  for (const google::protobuf::Any& any : wire.details()) {
    result.SetPayload(any.type_url(), absl::Cord(any.value()));
  }
  return result;
}

}  // namespace kiln::server
