#include "client/cpp/arrays/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

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

}  // namespace
}  // namespace kiln::client
