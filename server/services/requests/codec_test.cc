#include "server/services/requests/codec.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "kiln/v1/debug_service.pb.h"
#include "kiln/v1/kernel_service.pb.h"

namespace kiln::server {
namespace {

constexpr RequestLimits kLimits = {.nodes = 100'000, .arguments = 50'000};

grpc::ByteBuffer Bytes(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

std::string Times(size_t count, const std::string& text) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

// `content` as field `number`, which is delimited by its length.
std::string Field(int number, const std::string& content) {
  std::string wire(1, static_cast<char>(number << 3 | 2));
  for (size_t left = content.size();; left >>= 7) {
    wire += static_cast<char>((left & 127) | (left > 127 ? 128 : 0));
    if (left <= 127) return wire + content;
  }
}

template <typename Message>
v1::ErrorDetail Refusal(const std::string& wire) {
  Message message;
  const absl::Status status = Decode(Bytes(wire), kLimits, message);
  EXPECT_FALSE(status.ok());
  return DetailOf(status).value_or(v1::ErrorDetail());
}

void ExpectLimit(const v1::ErrorDetail& detail, const std::string& limit, uint64_t max_value) {
  EXPECT_EQ(detail.code(), v1::GRAPH_TOO_LARGE);
  EXPECT_EQ(detail.limit(), limit);
  EXPECT_EQ(detail.limit_value(), max_value);
  EXPECT_EQ(detail.used(), max_value + 1);
}

// Every request ends in a field cut short: one that is decoded first is refused as
// malformed, not for its parts.
TEST(CodecTest, PartsAreCountedBeforeTheyAreMade) {
  const std::string nodes = Times(100'001, Field(1, ""));
  const std::string cut("\x0a\x7f", 2);
  ExpectLimit(Refusal<v1::CompileRequest>(Field(1, nodes) + cut), "nodes", 100'000);
  ExpectLimit(Refusal<v1::ExecuteRequest>(Field(2, nodes) + cut), "nodes", 100'000);
  ExpectLimit(Refusal<v1::ExecuteRequest>(Times(50'001, Field(5, Field(3, ""))) + cut), "arguments", 50'000);
  ExpectLimit(Refusal<v1::ExecuteRequest>(Field(5, Field(6, Field(1, std::string(8 * 50'001, 'h')))) + cut),
              "arguments", 50'000);
  // A graph in pieces is one graph.
  const std::string half = Field(2, Times(50'001, Field(1, "")));
  ExpectLimit(Refusal<v1::ExecuteRequest>(half + half + cut), "nodes", 100'000);
}

TEST(CodecTest, WhateverElseTakesMemoryIsCountedTogether) {
  const uint64_t max_value = kLimits.parts();
  ASSERT_EQ(max_value, 600'000u);
  const std::string cut("\x0a\x7f", 2);
  // One argument's shards; stages to explain; unknown fields of each wire type,
  // alone and in a group.
  ExpectLimit(Refusal<v1::ExecuteRequest>(Field(5, Field(5, Times(max_value, Field(1, "")))) + cut), "message parts",
              max_value);
  ExpectLimit(Refusal<v1::ExplainRequest>(Times(max_value + 1, Field(5, "")) + cut), "message parts", max_value);
  for (const char* unknown :
       {"\x78\x01", "\x7a\x01x", "\x7d\x01\x01\x01\x01", "\x79\x01\x01\x01\x01\x01\x01\x01\x01"}) {
    ExpectLimit(Refusal<v1::ExecuteRequest>(Times(max_value + 1, unknown) + cut), "message parts", max_value);
  }
}

// A number in the form of a text, or of nothing; numbers by the million.
TEST(CodecTest, WhatIsNotInItsOwnFormIsCounted) {
  const uint64_t max_value = kLimits.parts();
  ExpectLimit(Refusal<v1::ExecuteRequest>(Times(max_value + 1, Field(6, ""))), "message parts", max_value);
  ExpectLimit(Refusal<v1::ReplaySequenceRequest>(Field(3, std::string(16 * (max_value + 1), '\x01'))), "message parts",
              max_value);
}

TEST(CodecTest, AGroupHidesNothing) {
  const std::string many = Times(1'000'000, Field(5, ""));
  for (const std::string& group :
       {std::string("\x7b\x12\x01\x00\x7c", 5), std::string("\x7b\x7c"), std::string("\x7c")})
    EXPECT_EQ(Refusal<v1::ExecuteRequest>(group + many).code(), v1::MALFORMED_MESSAGE);
}

TEST(CodecTest, WhatIsWithinTheLimitsIsDecoded) {
  v1::ExecuteRequest request;
  for (uint32_t i = 0; i < kLimits.arguments; ++i) request.add_arguments()->set_slot(i);
  for (uint32_t i = 0; i < kLimits.nodes; ++i) {
    v1::UOp* node = request.mutable_graph()->add_nodes();
    node->set_op(v1::CONST);
    node->mutable_constant()->set_i(i);
  }
  request.mutable_arguments(7)->mutable_tensor()->set_data(std::string(10 << 20, '\x0a'));
  request.mutable_arguments(7)->mutable_tensor()->mutable_shape()->Resize(1'000'000, 1);
  v1::ExecuteRequest decoded;
  const absl::Status status = Decode(Bytes(request.SerializeAsString()), kLimits, decoded);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(decoded.SerializeAsString(), request.SerializeAsString());
}

// In pieces, some of which are given back, they are the bytes.
TEST(CodecTest, BytesComeInPieces) {
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += std::to_string(i);
  const grpc::Slice slices[] = {grpc::Slice(text.substr(0, 1000)), grpc::Slice(text.substr(1000))};
  grpc::ByteBuffer buffer(slices, 2);
  const runtime::hal::LaunchControl control;
  WantedBytes bytes(&buffer, &control);
  ASSERT_TRUE(bytes.readable());
  std::string read;
  const void* data = nullptr;
  for (int size = 0, turn = 0; bytes.Next(&data, &size); ++turn) {
    EXPECT_LE(size, WantedBytes::kPiece);
    const int kept = turn % 2 == 0 ? size : size / 3;
    read.append(static_cast<const char*>(data), static_cast<size_t>(kept));
    bytes.BackUp(size - kept);
    EXPECT_EQ(bytes.ByteCount(), static_cast<int64_t>(read.size()));
    if (turn != 2) continue;
    ASSERT_TRUE(bytes.Skip(70'001));
    read += text.substr(read.size(), 70'001);
  }
  EXPECT_EQ(read, text);
  EXPECT_TRUE(bytes.stopped().ok());
}

TEST(CodecTest, BytesEndOnceNobodyWantsThem) {
  grpc::ByteBuffer buffer = Bytes(std::string(1 << 20, 'x'));
  std::atomic<bool> cancelled{false};
  const runtime::hal::LaunchControl control = {.cancelled = &cancelled};
  WantedBytes bytes(&buffer, &control);
  const void* data = nullptr;
  int size = 0;
  ASSERT_TRUE(bytes.Next(&data, &size));
  cancelled = true;
  EXPECT_FALSE(bytes.Next(&data, &size));
  EXPECT_TRUE(absl::IsCancelled(bytes.stopped()));
  cancelled = false;
  EXPECT_FALSE(bytes.Next(&data, &size));
  EXPECT_EQ(bytes.ByteCount(), WantedBytes::kPiece);
}

TEST(CodecTest, WhatNobodyWantsIsNotDecodedAndNotMalformed) {
  v1::ExecuteRequest request;
  for (uint32_t i = 0; i < kLimits.nodes; ++i) request.mutable_graph()->add_nodes()->set_op(v1::CONST);
  const std::atomic<bool> cancelled{true};
  v1::ExecuteRequest decoded;
  const absl::Status status = Decode(Bytes(request.SerializeAsString()), kLimits, decoded, {.cancelled = &cancelled});
  EXPECT_EQ(DetailOf(status).value_or(v1::ErrorDetail()).code(), v1::CALL_CANCELLED) << status;
  EXPECT_EQ(decoded.graph().nodes_size(), 0);
}

TEST(CodecTest, WhatIsNoMessageIsMalformed) {
  const std::string many = Times(100'000, Field(5, ""));
  for (const std::string& tail : {std::string("\x0a\x7f"), std::string(1, '\0'), std::string("\x7c"),
                                  std::string("\x12\xff\xff\xff\xff\x0f"), std::string("\xff\xff\xff\xff\xff\xff")}) {
    EXPECT_EQ(Refusal<v1::CompileRequest>(many + tail).code(), v1::MALFORMED_MESSAGE);
    EXPECT_EQ(Refusal<v1::CompileRequest>(tail).code(), v1::MALFORMED_MESSAGE);
  }
}

TEST(CodecTest, WhatIsOfASmallKindIsSmall) {
  EXPECT_TRUE(CheckSmall(Bytes(std::string(kSmallRequest, 'x'))).ok());
  const absl::Status status = CheckSmall(Bytes(std::string(kSmallRequest + 1, 'x')));
  const v1::ErrorDetail detail = DetailOf(status).value_or(v1::ErrorDetail());
  EXPECT_EQ(detail.code(), v1::GRAPH_TOO_LARGE) << status;
  EXPECT_EQ(detail.limit(), "message bytes");
  EXPECT_EQ(detail.limit_value(), kSmallRequest);
  EXPECT_EQ(detail.used(), kSmallRequest + 1);
}

TEST(CodecTest, AnAnswerHasALimit) {
  v1::ExecuteResponse answer;
  answer.add_results()->mutable_tensor()->set_data(std::string(1000, 'x'));
  const uint64_t size = answer.ByteSizeLong();
  grpc::ByteBuffer bytes;
  const absl::Status status = Encode(answer, bytes, size - 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  const v1::ErrorDetail detail = DetailOf(status).value_or(v1::ErrorDetail());
  EXPECT_EQ(detail.code(), v1::OUT_OF_MEMORY);
  EXPECT_EQ(detail.limit(), "answer bytes");
  EXPECT_EQ(detail.limit_value(), size - 1);
  EXPECT_EQ(detail.used(), size);
  ASSERT_TRUE(Encode(answer, bytes, size).ok());
  EXPECT_EQ(bytes.Length(), size);
}

// Small and large, in one piece and in several: what comes out is what went in.
TEST(CodecTest, AnswersAndRequestsOfAnySize) {
  for (const size_t size : {0, 1, 1000, (16 << 10) - 12, 16 << 10, (16 << 10) + 1, 1 << 20}) {
    v1::ExecuteResponse answer;
    if (size > 0) answer.add_results()->mutable_tensor()->set_data(std::string(size, 'x'));
    grpc::ByteBuffer bytes;
    ASSERT_TRUE(Encode(answer, bytes).ok()) << size;
    std::vector<grpc::Slice> slices;
    ASSERT_TRUE(bytes.Dump(&slices).ok()) << size;
    std::string whole;
    for (const grpc::Slice& slice : slices) whole.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    EXPECT_EQ(whole, answer.SerializeAsString()) << size;

    const grpc::Slice halves[] = {grpc::Slice(whole.substr(0, whole.size() / 2)),
                                  grpc::Slice(whole.substr(whole.size() / 2))};
    for (const grpc::ByteBuffer& sent : {Bytes(whole), grpc::ByteBuffer(halves, 2)}) {
      v1::ExecuteResponse decoded;
      ASSERT_TRUE(Decode(sent, kLimits, decoded).ok()) << size;
      EXPECT_EQ(decoded.SerializeAsString(), whole) << size;
    }
  }
}

}  // namespace
}  // namespace kiln::server
