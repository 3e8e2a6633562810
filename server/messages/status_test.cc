#include "server/messages/status.h"

#include <gtest/gtest.h>

#include "absl/strings/cord.h"
#include "base/error.h"

namespace kiln::server {
namespace {

TEST(StatusTest, OkStaysOk) {
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
}

TEST(StatusTest, CodeTextAndDetailTravel) {
  v1::ErrorDetail detail;
  detail.set_code(v1::WRONG_SOURCE_COUNT);
  detail.set_node(7);
  detail.set_op("ADD");
  const grpc::Status wire = ToGrpc(MakeError(detail, "ADD takes 2 sources, has 1"));
  EXPECT_EQ(wire.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(wire.error_message(), "ADD takes 2 sources, has 1");

  const absl::Status back = FromGrpc(wire);
  EXPECT_EQ(back.code(), absl::StatusCode::kInvalidArgument);
  const auto found = DetailOf(back);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->code(), v1::WRONG_SOURCE_COUNT);
  EXPECT_EQ(found->node(), 7u);
  EXPECT_EQ(found->op(), "ADD");
}

TEST(StatusTest, AFailureWithoutDetailIsOurFault) {
  const absl::Status back = FromGrpc(ToGrpc(absl::FailedPreconditionError("no disk")));
  EXPECT_EQ(back.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(DetailOf(back)->code(), v1::INTERNAL_FAULT);
  EXPECT_NE(back.message().find("no disk"), absl::string_view::npos);
}

TEST(StatusTest, CancelledHasItsCode) {
  const grpc::Status wire = ToGrpc(absl::CancelledError("gone"));
  EXPECT_EQ(wire.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(wire.error_message(), "gone");
  EXPECT_EQ(DetailOf(FromGrpc(wire)).value_or(v1::ErrorDetail()).code(), v1::CALL_CANCELLED);
}

TEST(StatusTest, LongTextIsShortened) {
  const grpc::Status wire = ToGrpc(MakeError(v1::BAD_ARGUMENT, std::string(100'000, 'x')));
  EXPECT_LT(wire.error_message().size(), 4096u);
  EXPECT_EQ(DetailOf(FromGrpc(wire))->code(), v1::BAD_ARGUMENT);
}

TEST(StatusTest, LongTagsAreShortened) {
  v1::ErrorDetail detail;
  detail.set_code(v1::DTYPE_MISMATCH);
  detail.set_node(5);
  detail.set_tag(std::string(100'000, 't'));
  const grpc::Status wire = ToGrpc(MakeError(detail, "no"));
  EXPECT_LT(wire.error_details().size(), 4096u);
  const auto found = DetailOf(FromGrpc(wire));
  EXPECT_EQ(found->code(), v1::DTYPE_MISMATCH);
  EXPECT_EQ(found->node(), 5u);
  EXPECT_EQ(found->tag().substr(0, 100), std::string(100, 't'));
}

TEST(StatusTest, WhatIsForUsAloneIsNotSent) {
  absl::Status status = MakeError(v1::DTYPE_MISMATCH, "no");
  status.SetPayload("kiln/compile_stages", absl::Cord("times"));
  const grpc::Status wire = ToGrpc(status);
  EXPECT_EQ(wire.error_details().find("times"), std::string::npos);
  EXPECT_EQ(DetailOf(FromGrpc(wire))->code(), v1::DTYPE_MISMATCH);
}

TEST(StatusTest, NoCharacterIsCut) {
  for (const std::string before : {"", "x", "xx"}) {
    v1::ErrorDetail detail;
    detail.set_code(v1::DTYPE_MISMATCH);
    std::string tag = before;
    for (int i = 0; i < 3000; ++i) tag += "\u00e9";
    detail.set_tag(tag);
    const auto found = DetailOf(FromGrpc(ToGrpc(MakeError(detail, tag))));
    ASSERT_TRUE(found.has_value()) << before;
    EXPECT_EQ(found->code(), v1::DTYPE_MISMATCH);
    EXPECT_EQ(found->tag().size() % 2, (before.size() + 3) % 2) << "characters of two bytes, and three dots";
  }
}

}  // namespace
}  // namespace kiln::server
