#include "client/cpp/arrays/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <utility>

namespace kiln::client {
namespace {

using ::testing::HasSubstr;

std::string Content(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

TEST(SafetensorsTest, TheHeaderSaysWhereEachIs) {
  const std::string path = testing::TempDir() + "/two.safetensors";
  const HostTensor half{v1::BFLOAT16, {2}, "abcd"}, empty{v1::INT8, {0, 3}, ""}, one{v1::INT64, {}, "12345678"};
  ASSERT_TRUE(WriteSafetensors(path, {{"w", &half}, {"e", &empty}, {"a \"b\"", &one}}).ok());
  const std::string file = Content(path);
  std::string header = R"({"a \"b\"":{"data_offsets":[0,8],"dtype":"I64","shape":[]},)"
                       R"("e":{"data_offsets":[8,8],"dtype":"I8","shape":[0,3]},)"
                       R"("w":{"data_offsets":[8,12],"dtype":"BF16","shape":[2]}})";
  const size_t length = static_cast<unsigned char>(file[0]);
  EXPECT_EQ(file.substr(1, 7), std::string(7, '\0'));
  EXPECT_EQ((8 + length) % 64, 0u);
  header.resize(length, ' ');
  EXPECT_EQ(file.substr(8, length), header);
  EXPECT_EQ(file.substr(8 + length), "12345678abcd");
}

TEST(SafetensorsTest, WhatCannotBeWrittenIsNamed) {
  const HostTensor weak{v1::WEAKINT, {}, ""};
  const std::string path = testing::TempDir() + "/none.safetensors";
  EXPECT_THAT(std::string(WriteSafetensors(path, {{"w", &weak}}).message()),
              HasSubstr("has no weakint, which \"w\" is of"));
  const HostTensor one{v1::INT8, {1}, "a"};
  const absl::Status away = WriteSafetensors("/nowhere/x.safetensors", {{"w", &one}});
  EXPECT_EQ(away.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(away.message()), HasSubstr("/nowhere/x.safetensors"));
}

std::string Written(const std::string& header, const std::string& data) {
  const std::string path = testing::TempDir() + "/written.safetensors";
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream << static_cast<char>(header.size()) << std::string(7, '\0') << header << data;
  return path;
}

TEST(SafetensorsTest, ConstantsComeBackByTheirSlots) {
  const std::string path = testing::TempDir() + "/constants.safetensors";
  const HostTensor half{v1::BFLOAT16, {2}, "abcd"}, empty{v1::INT8, {0, 3}, ""}, one{v1::INT64, {}, "12345678"};
  ASSERT_TRUE(WriteSafetensors(path, {{"3_weight", &half}, {"11_", &empty}, {"4", &one}}).ok());
  const auto read = ReadConstants(path);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 3u);
  for (const auto& [slot, wanted] : {std::pair(3u, &half), std::pair(11u, &empty), std::pair(4u, &one)}) {
    EXPECT_EQ(read->at(slot).dtype, wanted->dtype) << slot;
    EXPECT_EQ(read->at(slot).shape, wanted->shape) << slot;
    EXPECT_EQ(read->at(slot).bytes, wanted->bytes) << slot;
  }
  EXPECT_EQ(ReadConstants(Written(R"({"__metadata__": {"format": "pt"}})", ""))->size(), 0u);
}

TEST(SafetensorsTest, WhatHoldsNoConstantsIsRefused) {
  EXPECT_EQ(ReadConstants("/nowhere/x.safetensors").status().code(), absl::StatusCode::kNotFound);
  const struct {
    std::string header, why;
  } cases[] = {
      {"[]", "its header is no JSON object"},
      {"{", "its header is no JSON object"},
      {R"({"1": 2})", "\"1\": has no dtype"},
      {R"({"1": {"dtype": "F3", "shape": [], "data_offsets": [0, 4]}})", "is of F3"},
      {R"({"1": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}})", "has no shape"},
      {R"({"1": {"dtype": "F32", "shape": [1], "data_offsets": [0]}})", "has no shape, or no place"},
      {R"({"1": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}})", "bytes 4 to 0 of 4"},
      {R"({"1": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})", "bytes 0 to 8 of 4"},
      {R"({"1": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}})", "is 4 bytes, and not a float32 (2,)"},
      {R"({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})", "\"w\" begins with no slot"},
      {R"({"1_a": {"dtype": "U8", "shape": [], "data_offsets": [0, 1]},
           "1_b": {"dtype": "U8", "shape": [], "data_offsets": [0, 1]}})",
       "slot 1 is there twice"},
  };
  for (const auto& row : cases) {
    const absl::Status status = ReadConstants(Written(row.header, "abcd")).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << row.header;
    EXPECT_THAT(std::string(status.message()), HasSubstr(row.why)) << row.header;
    EXPECT_THAT(std::string(status.message()), HasSubstr("written.safetensors")) << row.header;
  }
  std::ofstream(testing::TempDir() + "/short.safetensors") << "short";
  EXPECT_THAT(std::string(ReadConstants(testing::TempDir() + "/short.safetensors").status().message()),
              HasSubstr("too short"));
  std::ofstream(testing::TempDir() + "/long.safetensors") << std::string(8, '\xff');
  EXPECT_THAT(std::string(ReadConstants(testing::TempDir() + "/long.safetensors").status().message()),
              HasSubstr("no header of 18446744073709551615 bytes"));
}

}  // namespace
}  // namespace kiln::client
