#include "server/capture/capture.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <utility>

namespace kiln::server {
namespace {

class CaptureTest : public ::testing::Test {
 protected:
  CaptureTest() : path_(::testing::TempDir() + "/capture_test.kilncap") { std::filesystem::remove(path_); }
  ~CaptureTest() override { std::filesystem::remove(path_); }

  std::shared_ptr<Capture> Create(uint64_t max_bytes) {
    auto log = std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
    return Capture::Create(path_, max_bytes, v1::CaptureHeader(), std::move(log)).value();
  }

  const std::string path_;
};

TEST_F(CaptureTest, OnlyTokensThatTheServerGaveOutAreKept) {
  const auto capture = Create(1 << 20);
  EXPECT_EQ(capture->SessionNumber(""), 0);
  EXPECT_EQ(capture->SessionNumber("made up"), capture::kNoSuchSession);
  capture->Begin("BufferService.Free", "made up");
  EXPECT_EQ(capture->SessionNumber("made up"), capture::kNoSuchSession);
  EXPECT_EQ(capture->SessionOpened("one"), 1);
  EXPECT_EQ(capture->SessionOpened("two"), 2);
  EXPECT_EQ(capture->SessionOpened("one"), 1);  // resumed
  EXPECT_EQ(capture->SessionNumber("two"), 2);
  capture->SessionClosed("two");
  EXPECT_EQ(capture->SessionNumber("two"), capture::kNoSuchSession);
  EXPECT_EQ(capture->SessionOpened("three"), 3);
}

TEST_F(CaptureTest, AFullFileTakesNothingMore) {
  const auto capture = Create(2000);
  capture->SessionOpened("one");
  const uint64_t call = capture->Begin("BufferService.Write", "one");
  EXPECT_TRUE(capture->on());
  capture->Received(call, std::string(5000, 'x'));
  EXPECT_FALSE(capture->on());
  EXPECT_EQ(capture->SessionNumber("one"), capture::kNoSuchSession);
  EXPECT_EQ(capture->SessionOpened("two"), capture::kNoSuchSession);
  EXPECT_EQ(capture->SessionNumber("two"), capture::kNoSuchSession);
  EXPECT_LE(std::filesystem::file_size(path_), 2000);
}

}  // namespace
}  // namespace kiln::server
