#include "server/record/recorder.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <utility>

namespace kiln::server {
namespace {

class RecorderTest : public ::testing::Test {
 protected:
  RecorderTest() : path_(::testing::TempDir() + "/recorder_test.kilnrec") { std::filesystem::remove(path_); }
  ~RecorderTest() override { std::filesystem::remove(path_); }

  std::shared_ptr<Recorder> Create(uint64_t max_bytes) {
    auto log = std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
    return Recorder::Create(path_, max_bytes, v1::RecordHeader(), std::move(log)).value();
  }

  const std::string path_;
};

TEST_F(RecorderTest, OnlyTokensThatTheServerGaveOutAreKept) {
  const auto recorder = Create(1 << 20);
  EXPECT_EQ(recorder->SessionNumber(""), 0);
  EXPECT_EQ(recorder->SessionNumber("made up"), record::kNoSuchSession);
  recorder->Begin("BufferService.Free", "made up");
  EXPECT_EQ(recorder->SessionNumber("made up"), record::kNoSuchSession);
  EXPECT_EQ(recorder->SessionOpened("one"), 1);
  EXPECT_EQ(recorder->SessionOpened("two"), 2);
  EXPECT_EQ(recorder->SessionOpened("one"), 1);  // resumed
  EXPECT_EQ(recorder->SessionNumber("two"), 2);
  recorder->SessionClosed("two");
  EXPECT_EQ(recorder->SessionNumber("two"), record::kNoSuchSession);
  EXPECT_EQ(recorder->SessionOpened("three"), 3);
}

TEST_F(RecorderTest, AFullFileTakesNothingMore) {
  const auto recorder = Create(2000);
  recorder->SessionOpened("one");
  const uint64_t call = recorder->Begin("BufferService.Write", "one");
  EXPECT_TRUE(recorder->on());
  recorder->Received(call, std::string(5000, 'x'));
  EXPECT_FALSE(recorder->on());
  EXPECT_EQ(recorder->SessionNumber("one"), record::kNoSuchSession);
  EXPECT_EQ(recorder->SessionOpened("two"), record::kNoSuchSession);
  EXPECT_EQ(recorder->SessionNumber("two"), record::kNoSuchSession);
  EXPECT_LE(std::filesystem::file_size(path_), 2000);
}

}  // namespace
}  // namespace kiln::server
