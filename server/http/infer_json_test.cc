#include "server/http/infer_json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "inference/grpc_service.pb.h"

namespace kiln::server {
namespace {

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

struct Read {
  absl::Status status;
  inference::ModelInferRequest request;
  BinaryOutputs binary;
};

Read ReadBody(const std::string& body, const std::string& json_bytes = "") {
  Read read;
  read.request.set_model_name("m");
  read.status = ReadInferRequest(body, json_bytes, read.request, read.binary);
  return read;
}

// One input "x" with this datatype, shape and data.
std::string Body(absl::string_view datatype, absl::string_view shape, absl::string_view data) {
  return absl::StrCat(R"({"inputs":[{"name":"x","datatype":")", datatype, R"(","shape":)", shape, R"(,"data":)", data,
                      "}]}");
}

TEST(ReadInferRequest, ElementsBecomeBytesOfTheirDatatype) {
  const struct {
    const char* datatype;
    const char* data;
    std::string bytes;
  } rows[] = {
      {"BOOL", "[true, false]", std::string("\1\0", 2)},
      {"UINT8", "[0, 255]", Bytes<uint8_t>({0, 255})},
      {"INT8", "[-128, 127]", Bytes<int8_t>({-128, 127})},
      {"UINT16", "[0, 65535]", Bytes<uint16_t>({0, 65535})},
      {"INT16", "[-32768, 32767]", Bytes<int16_t>({-32768, 32767})},
      {"UINT32", "[0, 4294967295]", Bytes<uint32_t>({0, 4294967295u})},
      {"INT32", "[-2147483648, 2147483647]", Bytes<int32_t>({INT32_MIN, INT32_MAX})},
      {"UINT64", "[0, 18446744073709551615]", Bytes<uint64_t>({0, UINT64_MAX})},
      {"INT64", "[-9223372036854775808, 9223372036854775807]", Bytes<int64_t>({INT64_MIN, INT64_MAX})},
      {"FP32", "[0.1, -3]", Bytes<float>({0.1f, -3})},
      {"FP32", "[Infinity, -Infinity]", Bytes<float>({INFINITY, -INFINITY})},
      {"FP64", "[1e300, 7]", Bytes<double>({1e300, 7})},
  };
  for (const auto& row : rows) {
    const Read read = ReadBody(Body(row.datatype, "[2]", row.data));
    ASSERT_TRUE(read.status.ok()) << read.status;
    EXPECT_EQ(read.request.raw_input_contents(0), row.bytes) << row.datatype << row.data;
    EXPECT_FALSE(read.request.inputs(0).has_contents());
  }
  const Read nan = ReadBody(Body("FP32", "[1]", "[NaN]"));
  float value = 0;
  std::memcpy(&value, nan.request.raw_input_contents(0).data(), sizeof(value));
  EXPECT_TRUE(std::isnan(value));
}

TEST(ReadInferRequest, WhatIsNoElementIsRefusedByItsPlace) {
  const struct {
    const char* datatype;
    const char* data;
  } rows[] = {{"BOOL", "[true, 1]"},
              {"UINT8", "[0, 256]"},
              {"UINT8", "[0, -1]"},
              {"INT8", "[0, 128]"},
              {"INT8", "[0, -129]"},
              {"INT32", "[0, 1.0]"},
              {"INT32", "[0, \"1\"]"},
              {"INT32", "[0, null]"},
              {"INT64", "[0, 9223372036854775808]"},
              {"UINT64", "[0, 18446744073709551616]"},
              {"UINT64", "[0, -1]"},
              {"FP32", "[0, 1e39]"},
              {"FP32", "[0, \"nan\"]"},
              {"FP32", "[0, true]"},
              {"INT32", "[0, NaN]"},
              {"INT32", "[0, [1]]"},
              {"INT32", "[0, {}]"}};
  for (const auto& row : rows) {
    const Read read = ReadBody(Body(row.datatype, "[2]", row.data));
    EXPECT_EQ(read.status.code(), absl::StatusCode::kInvalidArgument) << row.datatype << row.data;
    EXPECT_EQ(DetailOf(read.status)->field(), "inputs[0].data");
    EXPECT_NE(read.status.message().find("element 1 is"), std::string::npos) << read.status;
    EXPECT_NE(read.status.message().find(row.datatype), std::string::npos) << read.status;
  }
}

TEST(ReadInferRequest, DataIsFlatOrNestedAsTheShape) {
  const std::string wanted = Bytes<int32_t>({1, 2, 3, 4, 5, 6});
  for (const char* data : {"[1,2,3,4,5,6]", "[[1,2,3],[4,5,6]]"})
    EXPECT_EQ(ReadBody(Body("INT32", "[2,3]", data)).request.raw_input_contents(0), wanted) << data;
  EXPECT_EQ(ReadBody(Body("INT32", "[1,2,3]", "[[[1,2,3],[4,5,6]]]")).request.raw_input_contents(0), wanted);
  EXPECT_EQ(ReadBody(Body("INT32", "[]", "[1]")).request.raw_input_contents(0), Bytes<int32_t>({1}));
  EXPECT_TRUE(ReadBody(Body("INT32", "[0,3]", "[]")).status.ok());
  for (const char* data : {"[1,2,3,4,5]", "[1,2,3,4,5,6,7]", "[[1,2],[3,4],[5,6]]", "[[1,2,3],[4,5]]", "[[1,2,3],4]",
                           "[[[1,2,3],[4,5,6]]]", "[[1,2,3],[4,5,[6]]]", "[]", "[[],[]]", "7", "{}"}) {
    const Read read = ReadBody(Body("INT32", "[2,3]", data));
    EXPECT_EQ(read.status.code(), absl::StatusCode::kInvalidArgument) << data;
    EXPECT_EQ(DetailOf(read.status)->field(), "inputs[0].data") << data;
  }
  EXPECT_NE(
      ReadBody(Body("INT32", "[9223372036854775807,9223372036854775807]", "[1]")).status.message().find("more than"),
      std::string::npos);
}

TEST(ReadInferRequest, FaultsNameTheirPlace) {
  const struct {
    const char* body;
    const char* field;
  } rows[] = {
      {"{}", "inputs"},
      {R"({"inputs":{}})", "inputs"},
      {R"({"inputs":[7]})", "inputs[0]"},
      {R"({"inputs":[],"input":[]})", "body"},
      {R"({"inputs":[],"id":7})", "id"},
      {R"({"inputs":[],"model_name":7})", "model_name"},
      {R"({"inputs":[],"model_name":"other"})", "model_name"},
      {R"({"inputs":[],"model_name":""})", "model_name"},
      {R"({"inputs":[],"outputs":7})", "outputs"},
      {R"({"inputs":[],"outputs":[{}]})", "outputs[0].name"},
      {R"({"inputs":[],"outputs":[{"name":"y","parameters":{"binary_data":1}}]})", "outputs[0].parameters.binary_data"},
      {R"({"inputs":[],"parameters":[]})", "parameters"},
      {R"({"inputs":[],"parameters":{"a":[]}})", "parameters"},
      {R"({"inputs":[],"parameters":{"binary_data_output":"yes"}})", "parameters.binary_data_output"},
      {R"({"inputs":[{"datatype":"FP32","shape":[1],"data":[1]}]})", "inputs[0].name"},
      {R"({"inputs":[{"name":"x","shape":[1],"data":[1]}]})", "inputs[0].datatype"},
      {R"({"inputs":[{"name":"x","datatype":"FP31","shape":[1],"data":[1]}]})", "inputs[0].datatype"},
      {R"({"inputs":[{"name":"x","datatype":"BYTES","shape":[1],"data":["a"]}]})", "inputs[0].datatype"},
      {R"({"inputs":[{"name":"x","datatype":"FP16","shape":[1],"data":[1]}]})", "inputs[0].datatype"},
      {R"({"inputs":[{"name":"x","datatype":"FP32","data":[1]}]})", "inputs[0].shape"},
      {R"({"inputs":[{"name":"x","datatype":"FP32","shape":[-1],"data":[1]}]})", "inputs[0].shape"},
      {R"({"inputs":[{"name":"x","datatype":"FP32","shape":[9223372036854775808],"data":[1]}]})", "inputs[0].shape"},
      {R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1]}]})", "inputs[0].data"},
      {R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1],"dat":[1]}]})", "inputs[0]"},
  };
  for (const auto& row : rows) {
    const absl::Status status = ReadBody(row.body).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << row.body;
    EXPECT_EQ(DetailOf(status).value_or(v1::ErrorDetail()).field(), row.field) << status;
  }
}

TEST(ReadInferRequest, BinaryTensorsStandBehindTheJsonInOrder) {
  const std::string json = R"({"id":"7","parameters":{"binary_data_output":true},"inputs":[
      {"name":"a","datatype":"FP16","shape":[2],"parameters":{"binary_data_size":4}},
      {"name":"b","datatype":"INT8","shape":[1],"data":[5]},
      {"name":"c","datatype":"INT8","shape":[3],"parameters":{"binary_data_size":3}}],
      "outputs":[{"name":"y","parameters":{"binary_data":false}},{"name":"z"}]})";
  const Read read = ReadBody(json + "AABBccc", absl::StrCat(json.size()));
  ASSERT_TRUE(read.status.ok()) << read.status;
  EXPECT_EQ(read.request.id(), "7");
  EXPECT_EQ(read.request.raw_input_contents(0), "AABB");
  EXPECT_EQ(read.request.raw_input_contents(1), "\5");
  EXPECT_EQ(read.request.raw_input_contents(2), "ccc");
  EXPECT_TRUE(read.request.parameters().empty());
  EXPECT_TRUE(read.request.inputs(0).parameters().empty());
  EXPECT_TRUE(read.binary.others);
  EXPECT_EQ(read.binary.named, (std::map<std::string, bool>{{"y", false}}));
}

TEST(ReadInferRequest, TheModelsNameMayStandInTheBodyToo) {
  EXPECT_TRUE(ReadBody(R"({"model_name":"m","inputs":[]})").status.ok());
}

TEST(ReadInferRequest, WrongLengthsAreRefused) {
  const std::string json =
      R"({"inputs":[{"name":"a","datatype":"INT8","shape":[4],"parameters":{"binary_data_size":4}}]})";
  const std::string length = absl::StrCat(json.size());
  EXPECT_EQ(DetailOf(ReadBody(json + "abc", length).status)->field(), "inputs[0].parameters.binary_data_size");
  EXPECT_EQ(DetailOf(ReadBody(json + "abcde", length).status)->field(), "body");
  EXPECT_EQ(DetailOf(ReadBody(json, "").status)->field(), "inputs[0].parameters.binary_data_size");
  for (const char* wrong : {"-1", "999999", "1e3", "18446744073709551616", "x"})
    EXPECT_EQ(DetailOf(ReadBody(json + "abcd", wrong).status)->field(), "Inference-Header-Content-Length") << wrong;
  const std::string both =
      R"({"inputs":[{"name":"a","datatype":"INT8","shape":[1],"data":[1],"parameters":{"binary_data_size":1}}]})";
  EXPECT_EQ(DetailOf(ReadBody(both + "a", absl::StrCat(both.size())).status)->field(), "inputs[0].data");
}

TEST(ReadInferRequest, OtherParametersGoOn) {
  const Read read =
      ReadBody(R"({"inputs":[],"parameters":{"a":1,"b":"x","c":true,"d":-1.5,"e":18446744073709551615}})");
  ASSERT_TRUE(read.status.ok()) << read.status;
  const auto& parameters = read.request.parameters();
  EXPECT_EQ(parameters.at("a").int64_param(), 1);
  EXPECT_EQ(parameters.at("b").string_param(), "x");
  EXPECT_TRUE(parameters.at("c").bool_param());
  EXPECT_EQ(parameters.at("d").double_param(), -1.5);
  EXPECT_EQ(parameters.at("e").uint64_param(), UINT64_MAX);
}

TEST(ReadInferRequest, TensorsInRegionsHaveNoBytesHere) {
  const Read read = ReadBody(R"({"inputs":[
      {"name":"a","datatype":"INT8","shape":[1],"data":[7]},
      {"name":"b","datatype":"FP16","shape":[2],
       "parameters":{"shared_memory_region":"in","shared_memory_byte_size":4,"shared_memory_offset":8}}],
      "outputs":[{"name":"y","parameters":{"shared_memory_region":"out","shared_memory_byte_size":9}}]})");
  ASSERT_TRUE(read.status.ok()) << read.status;
  EXPECT_EQ(read.request.inputs(1).parameters().at("shared_memory_region").string_param(), "in");
  EXPECT_EQ(read.request.inputs(1).parameters().at("shared_memory_offset").int64_param(), 8);
  EXPECT_EQ(read.request.outputs(0).parameters().at("shared_memory_byte_size").int64_param(), 9);
  ASSERT_EQ(read.request.raw_input_contents_size(), 1);
  EXPECT_EQ(read.request.raw_input_contents(0), "\7");
  const Read both = ReadBody(R"({"inputs":[{"name":"a","datatype":"INT8","shape":[1],"data":[7],
      "parameters":{"shared_memory_region":"in","shared_memory_byte_size":1}}]})");
  EXPECT_EQ(DetailOf(both.status)->field(), "inputs[0].parameters.shared_memory_region");
}

inference::ModelInferResponse Response() {
  inference::ModelInferResponse response;
  response.set_model_name("m");
  response.set_model_version("3");
  const auto add = [&response](const char* name, const char* datatype, std::vector<int64_t> shape, std::string bytes) {
    auto& output = *response.add_outputs();
    output.set_name(name);
    output.set_datatype(datatype);
    output.mutable_shape()->Add(shape.begin(), shape.end());
    response.add_raw_output_contents(std::move(bytes));
  };
  add("y", "FP32", {2, 2}, Bytes<float>({0.1f, NAN, -INFINITY, 3}));
  add("z", "BOOL", {2}, std::string("\0\1", 2));
  return response;
}

TEST(WriteInferResponse, NumbersAreTheShortestThatReadBack) {
  const auto answer = WriteInferResponse(Response(), {});
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->body, R"({"model_name":"m","model_version":"3","outputs":[)"
                          R"({"name":"y","datatype":"FP32","shape":[2,2],"data":[0.1,NaN,-Infinity,3]},)"
                          R"({"name":"z","datatype":"BOOL","shape":[2],"data":[false,true]}]})");
  EXPECT_FALSE(answer->json_bytes.has_value());
  EXPECT_EQ(answer->type, "application/json");
}

TEST(WriteInferResponse, BinaryOutputsStandBehind) {
  BinaryOutputs binary;
  binary.others = true;
  binary.named["z"] = false;
  const auto answer = WriteInferResponse(Response(), binary);
  ASSERT_TRUE(answer.ok() && answer->json_bytes.has_value());
  EXPECT_EQ(answer->body.substr(0, *answer->json_bytes),
            R"({"model_name":"m","model_version":"3","outputs":[)"
            R"({"name":"y","datatype":"FP32","shape":[2,2],"parameters":{"binary_data_size":16}},)"
            R"({"name":"z","datatype":"BOOL","shape":[2],"data":[false,true]}]})");
  EXPECT_EQ(answer->body.substr(*answer->json_bytes), Response().raw_output_contents(0));
  EXPECT_EQ(answer->type, "application/octet-stream");
}

TEST(WriteInferResponse, WhatIsInARegionIsSaidAndNotSent) {
  inference::ModelInferResponse response = Response();
  auto& parameters = *response.mutable_outputs(0)->mutable_parameters();
  parameters["shared_memory_region"].set_string_param("o\"ut");
  parameters["shared_memory_byte_size"].set_int64_param(16);
  response.set_raw_output_contents(0, "");
  BinaryOutputs binary;
  binary.others = true;
  const auto answer = WriteInferResponse(response, binary);
  ASSERT_TRUE(answer.ok() && answer->json_bytes.has_value());
  EXPECT_EQ(answer->body.substr(0, *answer->json_bytes),
            R"({"model_name":"m","model_version":"3","outputs":[{"name":"y","datatype":"FP32","shape":[2,2],)"
            R"("parameters":{"shared_memory_byte_size":16,"shared_memory_region":"o\"ut"}},)"
            R"({"name":"z","datatype":"BOOL","shape":[2],"parameters":{"binary_data_size":2}}]})");
  EXPECT_EQ(answer->body.substr(*answer->json_bytes), response.raw_output_contents(1));
}

TEST(WriteInferResponse, StringsAreStrings) {
  inference::ModelInferResponse response = Response();
  response.mutable_outputs()->RemoveLast();
  response.mutable_outputs(0)->set_datatype("BYTES");
  response.set_raw_output_contents(0, std::string("\3\0\0\0a\"b\0\0\0\0\2\0\0\0:1", 17));
  const auto answer = WriteInferResponse(response, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_NE(answer->body.find(R"("datatype":"BYTES","shape":[2,2],"data":["a\"b","",":1"]})"), std::string::npos)
      << answer->body;
}

TEST(WriteInferResponse, WhatJsonDoesNotCarryIsRefused) {
  inference::ModelInferResponse response = Response();
  response.mutable_outputs(1)->set_datatype("BF16");
  const absl::Status half = WriteInferResponse(response, {}).status();
  EXPECT_EQ(half.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(half.message().find("binary_data"), std::string::npos) << half;
  response = Response();
  response.set_raw_output_contents(1, std::string(kMaxJsonTensors, '\0'));
  EXPECT_EQ(WriteInferResponse(response, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kiln::server
