#include "server/http/http_status.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kiln::server {
namespace {

TEST(AnswerOf, CodesHaveTheirNumbers) {
  const struct {
    absl::Status status;
    int number;
  } rows[] = {
      {absl::InvalidArgumentError("x"), 400},   {absl::UnauthenticatedError("x"), 401},
      {absl::PermissionDeniedError("x"), 403},  {absl::NotFoundError("x"), 404},
      {absl::ResourceExhaustedError("x"), 429}, {absl::InternalError("x"), 500},
      {absl::DataLossError("x"), 500},          {absl::UnimplementedError("x"), 501},
      {absl::UnavailableError("x"), 503},       {absl::DeadlineExceededError("x"), 504},
  };
  for (const auto& row : rows) {
    const HttpAnswer answer = AnswerOf(row.status);
    EXPECT_EQ(answer.status, row.number) << row.status;
    EXPECT_EQ(answer.body, R"({"error":"x"})");
    EXPECT_FALSE(answer.retry_after_seconds.has_value());
  }
}

TEST(AnswerOf, WhenToComeAgainIsInWholeSecondsAndNotTooEarly) {
  v1::ErrorDetail detail;
  detail.set_code(v1::QUOTA_EXCEEDED);
  detail.set_retry_after_ms(1001);
  const HttpAnswer answer = AnswerOf(MakeError(detail, "later"));
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.retry_after_seconds, 2u);
}

TEST(ErrorAnswer, AnyBytesBecomeJson) {
  EXPECT_EQ(ErrorAnswer(400, "a\"\n\xff").body, "{\"error\":\"a\\\"\\n\xEF\xBF\xBD\"}");
}

}  // namespace
}  // namespace kiln::server
