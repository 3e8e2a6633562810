#include "server/http/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "inference/grpc_service.pb.h"

namespace kiln::server {
namespace {

std::string Refusal(const std::string& text) {
  const auto parsed = ParseJson(text);
  EXPECT_FALSE(parsed.ok()) << text.substr(0, 100);
  return std::string(parsed.status().message());
}

std::string Many(const std::string& text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

TEST(ParseJson, WordsThatJsonHasNotAreTexts) {
  const auto parsed = ParseJson(R"({"a": [NaN, -Infinity, Infinity, -1], "NaN": "Infinity \" NaN"})");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->dump(), R"({"NaN":"Infinity \" NaN","a":["NaN","-Infinity","Infinity",-1]})");
}

TEST(ParseJson, OfNothingIsEmpty) { EXPECT_EQ(ParseJson("")->dump(), "{}"); }

TEST(ParseJson, WhatIsNoObjectIsRefused) {
  for (const char* text :
       {"[]", "1", "{", "{]", "nonsense", "{\"a\": 1e999}", "{\"a\": \"\xff\"}", "{} {}", "{\"a\":NaNa}"})
    EXPECT_EQ(Refusal(text).substr(0, 6), "body: ") << text;
}

TEST(ParseJson, DepthIsBounded) {
  EXPECT_TRUE(ParseJson("{\"a\":" + Many("[", kMaxJsonDepth - 1) + Many("]", kMaxJsonDepth - 1) + "}").ok());
  EXPECT_NE(Refusal(Many("[", 1 << 20)).find("deeper than 32"), std::string::npos);
  // Brackets in texts are none.
  EXPECT_TRUE(ParseJson("{\"a\":\"" + Many("[", 1000) + "\"}").ok());
}

TEST(ParseJson, ArraysAndNamesAreBoundedAndNumbersByTheText) {
  EXPECT_NE(Refusal("{\"a\":[" + Many("[],", kMaxJsonParts) + "0]}").find("flat array"), std::string::npos);
  EXPECT_NE(Refusal("{" + Many("\"a\":0,", kMaxJsonParts) + "\"b\":0}").find("names"), std::string::npos);
  EXPECT_TRUE(ParseJson("{\"a\":[" + Many("0,", 2 * kMaxJsonParts) + "0]}").ok());
  EXPECT_NE(Refusal("{\"a\":\"" + std::string(kMaxJsonBytes, ' ') + "\"}").find("binary"), std::string::npos);
}

TEST(ToJson, HasDefaultsNumbersAndNames) {
  inference::ModelConfig config;
  config.set_name("m");
  config.mutable_version_policy()->mutable_latest()->set_num_versions(1);
  auto& input = *config.add_input();
  input.set_name("x");
  input.set_data_type(inference::TYPE_FP32);
  input.add_dims(-1);
  const nlohmann::json made = ToJson(config);
  EXPECT_EQ(made["name"], "m");
  EXPECT_EQ(made["max_batch_size"], 0);
  EXPECT_EQ(made["output"], nlohmann::json::array());
  EXPECT_EQ(made["version_policy"].dump(), R"({"latest":{"num_versions":1}})");
  EXPECT_EQ(made["input"][0]["data_type"], "TYPE_FP32");
  EXPECT_EQ(made["input"][0]["dims"].dump(), "[-1]");
}

TEST(ToJson, MapsAreObjects) {
  inference::ModelStatistics statistics;
  (*statistics.mutable_response_stats())["0"].mutable_success()->set_count(7);
  EXPECT_EQ(ToJson(statistics)["response_stats"]["0"]["success"]["count"], 7);
}

}  // namespace
}  // namespace kiln::server
