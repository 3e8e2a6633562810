#include "server/capture/capture.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace kiln::server {
namespace {

class CaptureTest : public ::testing::Test {
 protected:
  CaptureTest() : path_(::testing::TempDir() + "/capture_test.kilncap") { std::filesystem::remove(path_); }
  ~CaptureTest() override { std::filesystem::remove(path_); }

  std::shared_ptr<Capture> Create(uint64_t file_bytes, uint64_t queue_bytes = 1 << 20) {
    auto log = std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log_));
    return Capture::Create(path_, {file_bytes, queue_bytes}, v1::CaptureHeader(), std::move(log)).value();
  }

  // What is in the file of each call, and how the file ends.
  struct Content {
    std::map<uint64_t, size_t> received;
    std::map<uint64_t, bool> ended;
    capture::Reader::Ending ending;
  };
  Content Read() const {
    Content content;
    const auto reader = capture::Reader::Open(path_).value();
    v1::CaptureEntry entry;
    while (reader->Next(entry)) {
      if (entry.has_begin()) content.received[entry.begin().call()] = 0;
      if (entry.has_received()) content.received.at(entry.received().call()) += entry.received().message().size();
      if (entry.has_end()) content.ended[entry.end().call()] = true;
    }
    content.ending = reader->ending();
    return content;
  }

  size_t Said(const std::string& event) const {
    size_t times = 0;
    const std::string text = log_.str();
    for (size_t at = text.find(event); at != std::string::npos; at = text.find(event, at + 1)) ++times;
    return times;
  }

  const std::string path_;
  std::ostringstream log_;
};

TEST_F(CaptureTest, OnlyTokensThatTheServerGaveOutAreKept) {
  const auto capture = Create(1 << 20);
  EXPECT_EQ(capture->SessionNumber(""), 0);
  EXPECT_EQ(capture->SessionNumber("made up"), capture::kNoSuchSession);
  capture->Begin("a", "BufferService.Free", "made up");
  EXPECT_EQ(capture->SessionNumber("made up"), capture::kNoSuchSession);
  EXPECT_EQ(capture->SessionOpened("one"), 1);
  EXPECT_EQ(capture->SessionOpened("two"), 2);
  EXPECT_EQ(capture->SessionOpened("one"), 1);  // resumed
  EXPECT_EQ(capture->SessionNumber("two"), 2);
  capture->SessionClosed("two");
  EXPECT_EQ(capture->SessionNumber("two"), capture::kNoSuchSession);
  EXPECT_EQ(capture->SessionOpened("three"), 3);
}

// With the disk standing still, whoever is captured goes on: nothing is released before all of them are through.
TEST_F(CaptureTest, NobodyWaitsForTheFile) {
  constexpr int kThreads = 8, kCalls = 200;
  {
    const auto capture = Create(1 << 20);
    capture->Hold(true);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kCalls; ++i) {
          const Capture::Call call = capture->Begin(absl::StrCat("caller ", t), "BufferService.Write", "");
          capture->Received(call, std::string(10, 'x'));
          capture->End(call, grpc::Status::OK);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_LE(std::filesystem::file_size(path_), 100u) << "but the header";
    capture->Hold(false);
    capture->Flush();
  }
  const Content content = Read();
  EXPECT_EQ(content.received.size(), kThreads * kCalls);
  EXPECT_EQ(content.ended.size(), kThreads * kCalls);
  for (const auto& [call, bytes] : content.received) EXPECT_EQ(bytes, 10u) << call;
  EXPECT_EQ(content.ending, capture::Reader::Ending::kFinished);
}

TEST_F(CaptureTest, WhoSendsMuchLeavesRoomForOthers) {
  {
    const auto capture = Create(100'000);
    const Capture::Call much = capture->Begin("much", "BufferService.Write", "");
    for (int i = 0; i < 500; ++i) {
      capture->Received(much, std::string(1000, 'x'));
      capture->Flush();
    }
    EXPECT_FALSE(much.on());
    EXPECT_EQ(capture->left_out(), 1u);
    // It is left out whole: after a gap nothing of it could be played.
    EXPECT_FALSE(capture->Begin("much", "BufferService.Write", "").on());
    const Capture::Call other = capture->Begin("other", "BufferService.Write", "");
    for (int i = 0; i < 20; ++i) capture->Received(other, std::string(1000, 'y'));
    capture->End(other, grpc::Status::OK);
    EXPECT_TRUE(other.on());
  }
  EXPECT_LE(std::filesystem::file_size(path_), 100'000u);
  const Content content = Read();
  EXPECT_EQ(content.received, (std::map<uint64_t, size_t>{{1, 49'000}, {2, 20'000}}));
  EXPECT_EQ(content.ended.count(2), 1u);
  EXPECT_EQ(content.ending, capture::Reader::Ending::kFull) << "somebody is left out";
  EXPECT_EQ(Said("event=capture_full caller=much reason=\"its share of the file is full\""), 1u);
  EXPECT_EQ(Said("callers_left_out=1"), 1u);
}

TEST_F(CaptureTest, WhoSendsFasterThanTheFileIsWrittenLeavesRoomInTheQueue) {
  const auto capture = Create(1 << 30, 10'000);
  capture->Hold(true);
  const Capture::Call fast = capture->Begin("fast", "BufferService.Write", "");
  for (int i = 0; i < 20; ++i) capture->Received(fast, std::string(1000, 'x'));
  EXPECT_FALSE(fast.on());
  const Capture::Call other = capture->Begin("other", "BufferService.Write", "");
  capture->Received(other, std::string(1000, 'y'));
  EXPECT_TRUE(other.on());
  EXPECT_EQ(Said("caller=fast reason=\"it sends faster than the file is written\""), 1u);
}

// Else whoever connects anew for each call would make the server keep a row for each.
TEST_F(CaptureTest, AFullFileTakesNoNewCallersAndKeepsNothingOfThem) {
  const auto capture = Create(3000);
  uint64_t taken = 0;
  for (int i = 0; i < 1000; ++i) {
    taken += capture->Begin(absl::StrCat("connection ", i), "BufferService.Write", "").on() ? 1 : 0;
  }
  EXPECT_GT(taken, 10u);
  EXPECT_LT(taken, 100u);
  EXPECT_EQ(capture->left_out(), 1u);
  capture->Flush();
  EXPECT_LE(std::filesystem::file_size(path_), 3000u);
}

// As on a disk that is full.
TEST_F(CaptureTest, WhatCannotBeWrittenEndsIt) {
  const auto capture = Create(1 << 20);
  const Capture::Call call = capture->Begin("a", "BufferService.Write", "");
  capture->Flush();
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto signal_before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = std::filesystem::file_size(path_) + 10;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  capture->Received(call, std::string(1000, 'x'));
  capture->Flush();
  EXPECT_FALSE(call.on());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, signal_before);
  EXPECT_FALSE(capture->Begin("b", "BufferService.Write", "").on());
  EXPECT_EQ(capture->SessionOpened("one"), capture::kNoSuchSession);
  EXPECT_EQ(Said("event=capture_failed"), 1u);
}

}  // namespace
}  // namespace kiln::server
