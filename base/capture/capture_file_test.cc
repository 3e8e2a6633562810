#include "base/capture/capture_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <vector>

namespace kiln::capture {
namespace {

class CaptureFileTest : public ::testing::Test {
 protected:
  CaptureFileTest() : path_(::testing::TempDir() + "/" + NameOfTest() + ".kilncap") { std::filesystem::remove(path_); }
  ~CaptureFileTest() override { std::filesystem::remove(path_); }

  static std::string NameOfTest() { return ::testing::UnitTest::GetInstance()->current_test_info()->name(); }

  std::unique_ptr<Writer> Create(uint64_t max_bytes = std::numeric_limits<uint64_t>::max()) {
    v1::CaptureHeader header;
    header.set_server("test");
    return Writer::Create(path_, header, max_bytes).value();
  }
  static v1::CaptureEntry Message(uint64_t call, const std::string& bytes) {
    v1::CaptureEntry entry;
    entry.mutable_received()->set_call(call);
    entry.mutable_received()->set_message(bytes);
    return entry;
  }
  // The calls of the entries that are there, and how the file ends.
  std::pair<std::vector<uint64_t>, Reader::Ending> ReadAll() {
    const auto reader = Reader::Open(path_).value();
    EXPECT_EQ(reader->header().server(), "test");
    std::vector<uint64_t> calls;
    v1::CaptureEntry entry;
    while (reader->Next(entry)) calls.push_back(entry.received().call());
    return {calls, reader->ending()};
  }

  const std::string path_;
};

TEST_F(CaptureFileTest, WhatWasAddedIsRead) {
  auto writer = Create();
  EXPECT_TRUE(writer->Add(Message(1, std::string(300, 'a'))));
  EXPECT_TRUE(writer->Add(Message(2, std::string(3 << 20, 'b'))));
  EXPECT_EQ(ReadAll(), std::make_pair(std::vector<uint64_t>({1, 2}), Reader::Ending::kCut));
  writer.reset();
  EXPECT_EQ(ReadAll(), std::make_pair(std::vector<uint64_t>({1, 2}), Reader::Ending::kFinished));
  EXPECT_FALSE(Writer::Create(path_, v1::CaptureHeader(), 1000).ok());  // it is there already
}

TEST_F(CaptureFileTest, ItsSizeIsBounded) {
  auto writer = Create(1000);
  EXPECT_TRUE(writer->Add(Message(1, std::string(800, 'a'))));
  EXPECT_FALSE(writer->Add(Message(2, std::string(800, 'b'))));
  EXPECT_FALSE(writer->Add(Message(3, "")));  // none is missing in the middle
  EXPECT_TRUE(writer->error().ok());
  EXPECT_EQ(ReadAll(), std::make_pair(std::vector<uint64_t>({1}), Reader::Ending::kFull));
  EXPECT_LE(std::filesystem::file_size(path_), 1000u);
}

TEST_F(CaptureFileTest, CutAnywhereItIsGoodUpToThere) {
  Create()->Add(Message(1, std::string(50, 'a')));
  std::filesystem::remove(path_);
  uint64_t header = 0, second = 0, whole = 0;
  {
    auto writer = Create();
    header = writer->bytes();
    writer->Add(Message(1, std::string(200, 'a')));
    second = writer->bytes();
    writer->Add(Message(2, std::string(10, 'b')));
    whole = writer->bytes();
  }
  std::ifstream stream(path_, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  for (uint64_t size = 0; size <= whole; ++size) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes.substr(0, size);
    if (size < header) {
      EXPECT_FALSE(Reader::Open(path_).ok()) << size;
      continue;
    }
    const auto [calls, ending] = ReadAll();
    EXPECT_EQ(calls.size(), size < second ? 0u : size < whole ? 1u : 2u) << size;
    EXPECT_EQ(ending, size == header || size == second || size == whole ? Reader::Ending::kCut : Reader::Ending::kTorn);
  }
}

TEST_F(CaptureFileTest, OtherFilesAreRefused) {
  for (const char* text : {"", "x", "a file of text that has nothing to do with it"}) {
    std::ofstream(path_, std::ios::trunc) << text;
    EXPECT_FALSE(Reader::Open(path_).ok()) << text;
  }
  EXPECT_FALSE(Reader::Open(path_ + ".none").ok());
}

}  // namespace
}  // namespace kiln::capture
