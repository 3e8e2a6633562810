#include "server/logs/line_log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"

namespace kiln::server {
namespace {

class LineLogTest : public ::testing::Test {
 protected:
  LineLogTest() { std::remove(path_.c_str()); }

  static std::string Text(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  const std::string path_ =
      absl::StrCat(testing::TempDir(), "/", testing::UnitTest::GetInstance()->current_test_info()->name(), ".log");
};

TEST_F(LineLogTest, LinesAreAppendedInTheirOrder) {
  std::ofstream(path_) << "before\n";
  auto log = LineLog::Open(path_, "audit_log");
  ASSERT_TRUE(log.ok()) << log.status();
  (*log)->Offer("one\n");
  (*log)->Offer("two\n");
  (*log)->Flush();
  EXPECT_EQ(Text(path_), "before\none\ntwo\n");
  (*log)->Offer("three\n");
  log->reset();  // writes what waits
  EXPECT_EQ(Text(path_), "before\none\ntwo\nthree\n");
}

TEST_F(LineLogTest, ALineMayBeMadeWhenItIsWritten) {
  auto log = LineLog::Open(path_, "access_log", /*most_bytes=*/10);
  ASSERT_TRUE(log.ok()) << log.status();
  (*log)->Hold(true);
  int made = 0;
  const auto make = [&made] { return absl::StrCat("number ", ++made, "\n"); };
  (*log)->Offer(4, make);
  (*log)->Offer("text\n");
  (*log)->Offer(2, make);  // for which there is no room, so it is never made
  EXPECT_EQ(made, 0);
  (*log)->Hold(false);
  (*log)->Flush();
  (*log)->Offer(4, make);
  log->reset();
  EXPECT_EQ(made, 2);
  const std::string text = Text(path_);
  EXPECT_TRUE(absl::StrContains(text, "number 1\ntext\n")) << text;
  EXPECT_TRUE(absl::EndsWith(text, "number 2\n")) << text;
}

TEST_F(LineLogTest, NobodyElseMayReadIt) {
  auto log = LineLog::Open(path_, "audit_log");
  ASSERT_TRUE(log.ok());
  struct stat info = {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(LineLogTest, WhatHasNoRoomIsCountedAndTold) {
  auto log = LineLog::Open(path_, "access_log", /*most_bytes=*/10);
  ASSERT_TRUE(log.ok());
  (*log)->Hold(true);
  for (int i = 0; i < 5; ++i) (*log)->Offer("12345\n");
  EXPECT_EQ((*log)->lost(), 4u);
  (*log)->Hold(false);
  (*log)->Flush();
  (*log)->Offer("after\n");
  (*log)->Flush();
  const std::string text = Text(path_);
  EXPECT_TRUE(absl::StrContains(text, "\"event\":\"lines_lost\",\"lines\":4}\n")) << text;
  EXPECT_TRUE(absl::EndsWith(text, "after\n")) << text;
  EXPECT_EQ((*log)->lost(), 4u);
}

TEST_F(LineLogTest, AfterReopenTheNameIsAnotherFile) {
  auto log = LineLog::Open(path_, "audit_log");
  ASSERT_TRUE(log.ok());
  (*log)->Offer("old\n");
  (*log)->Flush();
  const std::string moved = path_ + ".1";
  ASSERT_EQ(std::rename(path_.c_str(), moved.c_str()), 0);
  (*log)->Offer("still old\n");
  (*log)->Flush();
  (*log)->Reopen();
  (*log)->Offer("new\n");
  (*log)->Flush();
  EXPECT_EQ(Text(moved), "old\nstill old\n");
  EXPECT_EQ(Text(path_), "new\n");
}

// Nobody flushes: a line is written when lines have been gathered for a while, and many of them before that.
TEST_F(LineLogTest, LinesAreWrittenByThemselves) {
  auto log = LineLog::Open(path_, "access_log", /*most_bytes=*/32 << 10);
  ASSERT_TRUE(log.ok());
  const auto wait_for = [&](size_t bytes) {
    const absl::Time end = absl::Now() + absl::Minutes(1);
    while (Text(path_).size() < bytes && absl::Now() < end) absl::SleepFor(absl::Milliseconds(1));
    return Text(path_).size();
  };
  (*log)->Offer("one\n");
  EXPECT_EQ(wait_for(4), 4u);
  for (int i = 0; i < 3000; ++i) (*log)->Offer("0123456\n");
  EXPECT_EQ(wait_for(4 + 3000 * 8), 4u + 3000 * 8);
  EXPECT_EQ((*log)->lost(), 0u);
}

TEST_F(LineLogTest, AFileThatCannotBeWrittenIsNamed) {
  const auto log = LineLog::Open("/nowhere/at/all", "audit_log");
  const auto detail = DetailOf(log.status()).value_or(v1::ErrorDetail());
  EXPECT_EQ(detail.code(), v1::BAD_ARGUMENT) << log.status();
  EXPECT_EQ(detail.field(), "audit_log");
}

TEST_F(LineLogTest, AFullDiskLosesLinesAndNothingElse) {
  auto log = LineLog::Open("/dev/full", "access_log");
  ASSERT_TRUE(log.ok()) << log.status();
  (*log)->Offer("one\n");
  (*log)->Flush();
  EXPECT_EQ((*log)->lost(), 1u);
}

TEST_F(LineLogTest, ManyThreads) {
  auto log = LineLog::Open(path_, "access_log");
  ASSERT_TRUE(log.ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&log] {
      for (int i = 0; i < 1000; ++i) (*log)->Offer("0123456789\n");
    });
  }
  for (std::thread& thread : threads) thread.join();
  (*log)->Flush();
  EXPECT_EQ((*log)->lost(), 0u);
  const std::string text = Text(path_);
  EXPECT_EQ(text.size(), 4 * 1000 * 11u);
}

}  // namespace
}  // namespace kiln::server
