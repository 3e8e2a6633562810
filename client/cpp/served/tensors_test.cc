#include "client/cpp/served/tensors.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "base/error.h"
#include "inference/grpc_service.pb.h"

namespace kiln::client {
namespace {

inference::ModelInferResponse Answer(const std::string& datatype, const Shape& shape, std::string bytes) {
  inference::ModelInferResponse answer;
  auto& output = *answer.add_outputs();
  output.set_name("y");
  output.set_datatype(datatype);
  output.mutable_shape()->Add(shape.begin(), shape.end());
  answer.add_raw_output_contents(std::move(bytes));
  return answer;
}

absl::Status Refused(inference::ModelInferResponse answer, const std::vector<std::string>& outputs = {}) {
  return FromInferResponse(answer, outputs, "").status();
}

v1::ErrorCode CodeOf(const absl::Status& status) { return DetailOf(status).value_or(v1::ErrorDetail()).code(); }

TEST(InferRequest, TensorsTravelRawInTheOrderOfTheirNames) {
  NamedTensors inputs;
  inputs["x"] = HostTensor::Of<float>({1, 2}, {1, 2});
  inputs["by"] = HostTensor::Scalar<int64_t>(3);
  const auto request = ToInferRequest("m", "7", std::move(inputs), {.outputs = {"y", "z"}, .id = "me"});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->model_name(), "m");
  EXPECT_EQ(request->model_version(), "7");
  EXPECT_EQ(request->id(), "me");
  ASSERT_EQ(request->inputs_size(), 2);
  EXPECT_EQ(request->inputs(0).name(), "by");
  EXPECT_EQ(request->inputs(0).datatype(), "INT64");
  EXPECT_EQ(request->inputs(0).shape_size(), 0);
  EXPECT_EQ(request->inputs(1).datatype(), "FP32");
  EXPECT_EQ(request->inputs(1).shape(1), 2);
  ASSERT_EQ(request->raw_input_contents_size(), 2);
  EXPECT_EQ(request->raw_input_contents(0), std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(request->raw_input_contents(1), std::string("\0\0\x80\x3f\0\0\0\x40", 8));
  ASSERT_EQ(request->outputs_size(), 2);
  EXPECT_EQ(request->outputs(1).name(), "z");
  EXPECT_TRUE(request->parameters().empty());
}

TEST(InferRequest, ASequenceIsInItsParameters) {
  const auto first = ToInferRequest("m", "", {}, {.sequence = SequenceStep{5, true, false}});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->parameters().size(), 2);
  EXPECT_EQ(first->parameters().at("sequence_id").int64_param(), 5);
  EXPECT_TRUE(first->parameters().at("sequence_start").bool_param());
  const auto last = ToInferRequest("m", "", {}, {.sequence = SequenceStep{UINT64_MAX, false, true}});
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->parameters().size(), 2);
  EXPECT_EQ(last->parameters().at("sequence_id").uint64_param(), UINT64_MAX);
  EXPECT_TRUE(last->parameters().at("sequence_end").bool_param());
}

TEST(InferRequest, ADtypeThatTheProtocolHasNotIsRefusedWithTheInputsName) {
  NamedTensors inputs;
  inputs["x"] = {v1::FLOAT8_E4M3, {1}, "a"};
  const absl::Status status = ToInferRequest("m", "", std::move(inputs), {}).status();
  EXPECT_EQ(CodeOf(status), v1::BAD_ARGUMENT);
  EXPECT_EQ(DetailOf(status)->field(), "x");
}

TEST(InferRequest, MoreThanAMessageHoldsIsRefusedWithTheLargestInput) {
  EXPECT_TRUE(CheckRequestBytes(kMaxRequestBytes, "x", kMaxRequestBytes).ok());
  const absl::Status status = CheckRequestBytes(uint64_t{5} << 30, "x", uint64_t{3} << 30);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(CodeOf(status), v1::GRAPH_TOO_LARGE);
  EXPECT_EQ(DetailOf(status)->field(), "x");
  EXPECT_EQ(DetailOf(status)->limit(), "request bytes");
  EXPECT_EQ(DetailOf(status)->limit_value(), 2146435071u);
  EXPECT_EQ(DetailOf(status)->used(), 5368709120u);
  EXPECT_TRUE(absl::StrContains(status.message(), "3221225472 of input \"x\"")) << status;
}

TEST(InferResponse, OutputsComeByName) {
  auto answer = Answer("BF16", {2, 1}, "abcd");
  const auto outputs = FromInferResponse(answer, {"y"}, "");
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ASSERT_EQ(outputs->size(), 1u);
  EXPECT_EQ(outputs->at("y").dtype, v1::BFLOAT16);
  EXPECT_EQ(outputs->at("y").shape, Shape({2, 1}));
  EXPECT_EQ(outputs->at("y").bytes, "abcd");
  auto empty = Answer("FP32", {0, 4}, "");
  EXPECT_TRUE(FromInferResponse(empty, {}, "").ok());
}

TEST(InferResponse, WhatCannotBeRightIsRefused) {
  auto without = Answer("FP32", {1}, "abcd");
  without.clear_raw_output_contents();
  auto more = Answer("FP32", {1}, "abcd");
  more.add_raw_output_contents("abcd");
  auto twice = Answer("FP32", {1}, "abcd");
  *twice.add_outputs() = twice.outputs(0);
  twice.add_raw_output_contents("abcd");
  auto another = Answer("FP32", {1}, "abcd");
  another.set_id("somebody's");
  const std::pair<absl::Status, const char*> cases[] = {
      {Refused(inference::ModelInferResponse()), "0 outputs"},
      {Refused(without), "contents of 0"},
      {Refused(more), "contents of 2"},
      {Refused(twice), "twice"},
      {Refused(another), "somebody's"},
      {Refused(Answer("FP32", {1}, "abc")), "3 bytes"},
      {Refused(Answer("FP32", {2}, "abcd")), "4 bytes"},
      {Refused(Answer("FP32", {-1}, "")), "0 bytes"},
      {Refused(Answer("FP32", {int64_t{1} << 62, int64_t{1} << 62}, "")), "0 bytes"},
      {Refused(Answer("FP4", {2}, "a")), "FP4"},
      {Refused(Answer("BYTES", {1}, "abcde")), "BYTES"},
      {Refused(Answer("FP32", {1}, "abcd"), {"z"}), "\"z\""},
  };
  for (const auto& [status, words] : cases) {
    EXPECT_EQ(CodeOf(status), v1::INTERNAL_FAULT) << words;
    EXPECT_TRUE(absl::StrContains(status.message(), words)) << status;
  }
}

TEST(StreamResponse, ARequestThatFailedHasTheServersText) {
  inference::ModelStreamInferResponse answer;
  answer.set_error_message("input \"x\" is missing");
  const absl::Status status = FromStreamResponse(answer, {}, "1").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnknown);
  EXPECT_EQ(status.message(), "input \"x\" is missing");
  inference::ModelStreamInferResponse good;
  *good.mutable_infer_response() = Answer("UINT8", {3}, "abc");
  good.mutable_infer_response()->set_id("1");
  const auto outputs = FromStreamResponse(good, {}, "1");
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(outputs->at("y").Values<char>(), std::vector<char>({'a', 'b', 'c'}));
}

}  // namespace
}  // namespace kiln::client
