#include "server/http/http_status.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace kiln::server {
namespace {

constexpr struct {
  absl::StatusCode code;
  int status;
} kStatuses[] = {
    {absl::StatusCode::kInvalidArgument, 400},
    {absl::StatusCode::kOutOfRange, 400},
    {absl::StatusCode::kFailedPrecondition, 400},
    {absl::StatusCode::kUnauthenticated, 401},
    {absl::StatusCode::kPermissionDenied, 403},
    {absl::StatusCode::kNotFound, 404},
    {absl::StatusCode::kAborted, 409},
    {absl::StatusCode::kAlreadyExists, 409},
    {absl::StatusCode::kResourceExhausted, 429},
    {absl::StatusCode::kCancelled, 499},
    {absl::StatusCode::kUnimplemented, 501},
    {absl::StatusCode::kUnavailable, 503},
    {absl::StatusCode::kDeadlineExceeded, 504},
};

int NumberOf(absl::StatusCode code) {
  for (const auto& row : kStatuses) {
    if (row.code == code) return row.status;
  }
  return 500;
}

}  // namespace

HttpAnswer ErrorAnswer(int status, absl::string_view message) {
  HttpAnswer answer;
  answer.status = status;
  answer.body =
      nlohmann::json{{"error", std::string(message)}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return answer;
}

HttpAnswer AnswerOf(const absl::Status& status) {
  HttpAnswer answer = ErrorAnswer(NumberOf(status.code()), status.message());
  const auto detail = DetailOf(status);
  if (detail.has_value() && detail->retry_after_ms() != 0)
    answer.retry_after_seconds = static_cast<uint32_t>((uint64_t{detail->retry_after_ms()} + 999) / 1000);
  return answer;
}

}  // namespace kiln::server
