// Which requests are run as one, and what each gets.
#include "server/engine/batching/batcher.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/account.h"
#include "base/error.h"
#include "server/engine/batching/batcher_fixture.h"

namespace kiln::server {
namespace {

class BatcherTest : public ::testing::Test, protected BatcherFixture {};

TEST_F(BatcherTest, WhatComesWhileOneRunsIsRunAsOne) {
  Member& a = Ask("a");
  ASSERT_EQ(asked_.size(), 1u);  // at once
  Member &b = Ask("b"), &cd = Ask("cd");
  EXPECT_EQ(asked_.size(), 1u);
  End("a");
  EXPECT_EQ(a.text(), "aa z");
  EXPECT_EQ(a.batch(), 1);
  ASSERT_EQ(asked_.size(), 1u);
  End("bcd");
  EXPECT_EQ(b.text(), "bb z");
  EXPECT_EQ(cd.text(), "ccdd z");
  EXPECT_EQ(b.result->results[0].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(cd.result->results[0].shape, (std::vector<int64_t>{4, 1}));
  EXPECT_EQ(b.batch(), 2);
  EXPECT_EQ(cd.batch(), 0);
  // Nobody is left, so the next runs at once.
  Member& e = Ask("e");
  End("e");
  EXPECT_EQ(e.text(), "ee z");
}

TEST_F(BatcherTest, NoMoreRowsThanTheProgramTakes) {
  Ask("a");
  Member &b = Ask("bcd"), &e = Ask("ef"), &g = Ask("g");
  End("a");
  End("bcd");  // with "ef" there would be five
  End("efg");
  EXPECT_EQ(b.text(), "bbccdd z");
  EXPECT_EQ(e.text(), "eeff z");
  EXPECT_EQ(g.text(), "gg z");
}

TEST_F(BatcherTest, OfOtherSizesOrPayersAreRunsOfTheirOwn) {
  Account one("one"), other("other");
  Control mine, theirs;
  mine.account = &one;
  theirs.account = &other;
  Member &a = Ask("a", mine), &b = Ask("b", theirs), &cd = Ask("cd", mine, 2);
  EXPECT_EQ(asked_.size(), 3u);
  for (const char* rows : {"a", "b", "cd"}) End(rows);
  EXPECT_EQ(a.text(), "aa z");
  EXPECT_EQ(b.text(), "bb z");
  EXPECT_EQ(cd.text(), "cdcd z");
}

TEST_F(BatcherTest, WhatIsLargeWaitsForNobody) {
  Ask("a");
  EXPECT_FALSE(Ask(std::string(300 << 10, 'c'), {}, 100 << 10).taken);
  End("a");
}

TEST_F(BatcherTest, WhatIsSlowWaitsForNobody) {
  micros_ = 15e3;
  EXPECT_TRUE(Ask("a").taken);
  End("a");
  EXPECT_TRUE(Ask("a").taken);
  EXPECT_FALSE(Ask("bc").taken);  // of two rows, 30 ms are expected
  Member &d = Ask("d"), &e = Ask("e");
  End("a");
  End("d");  // with "e" it would be as slow
  End("e");
  EXPECT_EQ(d.batch(), 1);
  EXPECT_EQ(e.batch(), 1);
}

TEST_F(BatcherTest, WhatCannotBeJoinedIsRunAlone) {
  EXPECT_FALSE(Ask("").taken);  // no rows
  inline_ = false;
  EXPECT_FALSE(Ask("a").taken);  // results that stay
  inline_ = true;
  EXPECT_FALSE(Ask("abcde").taken);       // more than the variable may be,
  EXPECT_FALSE(Ask("abc", {}, 2).taken);  // a tensor of the wrong size: both are told so when they are run
  program_->rows.reset();
  EXPECT_FALSE(Ask("a").taken);
}

TEST_F(BatcherTest, MemoryThatIsNotTheSameKeepsThemApart) {
  BufferTable::Record others = std::make_shared<BufferRecord>();
  Ask("a");
  std::swap(weights_, others);
  Ask("b");
  EXPECT_EQ(asked_.size(), 2u);
  std::swap(asked_[0], asked_[1]);
  End("b");
  weights_ = others;
  End("a");
}

TEST_F(BatcherTest, MemoryThatMayChangeIsReadAtOnce) {
  auto record = std::make_shared<BufferRecord>();
  record->poison = std::make_shared<Poison>();
  const auto handle = buffers_.Add(record);
  ASSERT_TRUE(handle.ok()) << handle.status();
  handle_ = *handle;
  EXPECT_FALSE(Ask("a").taken);
  may_wait_ = true;
  EXPECT_TRUE(Ask("a").taken);
  Member &b = Ask("b"), &c = Ask("c");
  ASSERT_TRUE(buffers_.Free({&*handle, 1}, nullptr).ok());
  EXPECT_FALSE(Ask("d").taken);  // it is told so when it is run
  weights_ = record;
  First().done(MakeError(v1::OUT_OF_MEMORY, "no room"));
  End("bc");  // of the memory that they named
  EXPECT_EQ(b.text(), "bb z");
  EXPECT_EQ(c.text(), "cc z");
}

TEST_F(BatcherTest, RunsOfSeveralAreCounted) {
  Ask("a");
  Ask("b");
  Ask("c");
  End("a");
  End("bc");
  EXPECT_EQ(metrics_.batched_runs.Sum(0), 1u);
  EXPECT_EQ(metrics_.batched_requests.Sum(0), 2u);
  EXPECT_EQ(metrics_.batch_rows.Sum(0), 2u);
  EXPECT_EQ(metrics_.batch_rows.Count(0, 1), 1u) << "up to two";
}

}  // namespace
}  // namespace kiln::server
