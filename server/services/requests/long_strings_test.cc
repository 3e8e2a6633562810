// Messages with long values, which are to be what protobuf makes of them.
#include "server/services/requests/long_strings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "base/error.h"
#include "inference/grpc_service.pb.h"
#include "kiln/v1/kernel_service.pb.h"
#include "server/services/requests/codec.h"

namespace kiln::server {
namespace {

constexpr RequestLimits kLimits = {.nodes = 100'000, .arguments = 50'000};
constexpr size_t kLong = LongStrings::kLong + 1;

// No two of its pieces are alike.
std::string Value(size_t bytes, uint32_t seed) {
  std::string value(bytes, '\0');
  for (char& byte : value) {
    seed = seed * 1664525 + 1013904223;
    byte = static_cast<char>(seed >> 24);
  }
  return value;
}

// In slices that end anywhere.
grpc::ByteBuffer Bytes(const std::string& text) {
  constexpr size_t kSlice = 1'000'003;
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < text.size(); at += kSlice)
    slices.emplace_back(text.data() + at, std::min(kSlice, text.size() - at));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string Varint(size_t value, size_t width) {
  std::string wire;
  for (size_t i = 0; i + 1 < width; ++i, value >>= 7) wire += static_cast<char>((value & 127) | 128);
  return wire + static_cast<char>(value & 127);
}

// `content` as field `number`, its length in five bytes, as nobody writes it but a stranger may.
std::string Field(int number, const std::string& content) {
  return Varint(static_cast<size_t>(number << 3 | 2), number < 16 ? 1 : 2) + Varint(content.size(), 5) + content;
}

// A graph's node of which the data are sent once and again.
std::string Node(const std::vector<std::string>& data) {
  std::string node;
  for (const std::string& one : data) node += Field(24, one);
  return Field(1, node);
}

v1::ErrorCode CodeOf(const absl::Status& status) { return DetailOf(status).value_or(v1::ErrorDetail()).code(); }

template <typename Message>
void ExpectDecoded(const std::string& wire) {
  Message ours, theirs;
  const absl::Status decoded = Decode(Bytes(wire), kLimits, ours);
  ASSERT_TRUE(decoded.ok()) << decoded;
  ASSERT_TRUE(theirs.ParseFromString(wire));
  EXPECT_TRUE(ours.SerializeAsString() == theirs.SerializeAsString());
}

TEST(LongStrings, AreWhereTheyBelong) {
  v1::ExecuteRequest request;
  for (int i = 0; i < 5; ++i) {
    v1::UOp& node = *request.mutable_graph()->add_nodes();
    node.set_op(v1::BINARY);
    node.add_src(7);
    if (i == 4) node.set_text("text");
    if (i < 4) node.set_data(Value(i % 2 == 1 ? kLong : 10, i));
  }
  request.add_arguments()->mutable_tensor()->set_data("short");
  request.add_arguments()->mutable_buffer()->set_handle(5);
  v1::Tensor& last = *request.add_arguments()->mutable_tensor();
  last.set_data(Value(kLong + 5, 9));
  last.add_shape(3);
  ExpectDecoded<v1::ExecuteRequest>(request.SerializeAsString());
}

TEST(LongStrings, OfSeveralValuesOfOneField) {
  inference::ModelInferRequest request;
  request.set_model_name("model");
  for (const size_t bytes : {size_t{3}, kLong, size_t{0}, kLong + 1, size_t{4}})
    request.add_raw_input_contents(Value(bytes, static_cast<uint32_t>(bytes)));
  ExpectDecoded<inference::ModelInferRequest>(request.SerializeAsString());
}

TEST(LongStrings, LengthsMayBeWrittenLong) {
  ExpectDecoded<v1::ExecuteRequest>(Field(2, Node({"first"}) + Node({Value(kLong, 1)}) + Node({"last"})));
}

TEST(LongStrings, OfAFieldThatNobodyKnowsNothingIsKept) {
  v1::ExecuteRequest request;
  ASSERT_TRUE(Decode(Bytes(Field(2, Node({"data"}) + Field(15, Value(kLong, 1)))), kLimits, request).ok());
  EXPECT_EQ(request.graph().nodes(0).data(), "data");
  EXPECT_LT(request.SpaceUsedLong(), 10'000u);
}

TEST(LongStrings, OfAFieldThatIsSentAgainTheRequestIsRefused) {
  for (const auto& data : {std::vector<std::string>{Value(kLong, 1), "short"},
                           std::vector<std::string>{Value(kLong, 1), Value(kLong, 2)}}) {
    v1::ExecuteRequest request;
    const absl::Status decoded = Decode(Bytes(Field(2, Node(data))), kLimits, request);
    EXPECT_EQ(CodeOf(decoded), v1::MALFORMED_MESSAGE) << decoded;
    EXPECT_TRUE(absl::StrContains(decoded.message(), "kiln.v1.UOp.data")) << decoded;
  }
}

TEST(LongStrings, InAMessageThatIsSentInTwoPartsTheSecondHasNone) {
  const std::string with = Field(2, Node({Value(kLong, 1)})), without = Field(2, Node({""}));
  ExpectDecoded<v1::ExecuteRequest>(with + without);
  v1::ExecuteRequest request;
  const absl::Status decoded = Decode(Bytes(without + with), kLimits, request);
  EXPECT_EQ(CodeOf(decoded), v1::MALFORMED_MESSAGE) << decoded;
  EXPECT_TRUE(absl::StrContains(decoded.message(), "ExecuteRequest.graph")) << decoded;
}

TEST(LongStrings, OneThatIsCutShortIsMalformed) {
  v1::ExecuteRequest request;
  std::string wire = Field(2, Node({Value(kLong, 1)}));
  wire.resize(wire.size() - 1);
  EXPECT_EQ(CodeOf(Decode(Bytes(wire), kLimits, request)), v1::MALFORMED_MESSAGE);
}

TEST(LongStrings, ATextIsNotLong) {
  v1::ExecuteRequest request;
  const absl::Status decoded = Decode(Bytes(Field(2, Field(1, Field(23, std::string(kLong, 't'))))), kLimits, request);
  const auto detail = DetailOf(decoded);
  ASSERT_TRUE(detail.has_value()) << decoded;
  EXPECT_EQ(detail->code(), v1::GRAPH_TOO_LARGE);
  EXPECT_EQ(detail->limit(), "text bytes");
  EXPECT_EQ(detail->limit_value(), LongStrings::kLong);
}

TEST(LongStrings, NobodyWaitsForThemInVain) {
  const grpc::ByteBuffer bytes = Bytes(Field(2, Node({Value(kLong, 1)})));
  const absl::StatusOr<LongStrings> longs = CheckParts(bytes, *v1::ExecuteRequest::descriptor(), kLimits);
  ASSERT_TRUE(longs.ok()) << longs.status();
  const grpc::ByteBuffer rest = longs->LeaveOut(bytes);
  EXPECT_LT(rest.Length(), 100u);
  v1::ExecuteRequest request;
  ASSERT_TRUE(Decode(rest, kLimits, request).ok());
  const std::atomic<bool> cancelled{true};
  runtime::hal::LaunchControl control;
  control.cancelled = &cancelled;
  EXPECT_TRUE(absl::IsCancelled(longs->PutInto(request, bytes, control)));
  EXPECT_EQ(request.graph().nodes(0).data(), "");
  ASSERT_TRUE(longs->PutInto(request, bytes, {}).ok());
  EXPECT_TRUE(request.graph().nodes(0).data() == Value(kLong, 1));
}

}  // namespace
}  // namespace kiln::server
