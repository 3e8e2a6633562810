#include "server/engine/memory/handle_names.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "server/engine/memory/buffer_table.h"

namespace kiln::server {
namespace {

v1::ErrorCode CodeOf(const absl::Status& status) { return DetailOf(status).value_or(v1::ErrorDetail()).code(); }

class HandleNamesTest : public ::testing::Test {
 protected:
  BufferTable table_{HandleLimits{.all = 5000, .of_session = 4000}};
  Session session_;
};

TEST_F(HandleNamesTest, ANameIsTakenThenMadeThenFreed) {
  EXPECT_EQ(CodeOf(table_.Find(7, &session_).status()), v1::UNKNOWN_HANDLE);
  ASSERT_TRUE(table_.Reserve(7, session_).ok());
  EXPECT_EQ(CodeOf(table_.Reserve(7, session_).status()), v1::HANDLE_TAKEN);
  EXPECT_EQ(CodeOf(table_.Reserve(0, session_).status()), v1::BAD_ARGUMENT);
  EXPECT_EQ(CodeOf(table_.Find(7, &session_).status()), v1::UNKNOWN_HANDLE);  // not made yet
  const auto record = std::make_shared<BufferRecord>();
  session_.names().Make(7, record);
  EXPECT_EQ(*table_.Find(7, &session_), record);
  EXPECT_EQ(CodeOf(table_.Find(7).status()), v1::UNKNOWN_HANDLE);  // others'
  EXPECT_EQ(table_.size(), 1u);
  EXPECT_TRUE(table_.Free({7}, &session_).ok());
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_EQ(CodeOf(table_.Find(7, &session_).status()), v1::HANDLE_FREED);
  EXPECT_EQ(CodeOf(table_.Free({7}, &session_)), v1::HANDLE_FREED);
  EXPECT_TRUE(table_.Reserve(7, session_).ok());
}

TEST_F(HandleNamesTest, AnUnmadeNameSaysWhyAndAMadeOneIsFoundPoisonedOrNot) {
  for (const uint64_t name : {1, 2}) {
    const auto poison = table_.Reserve(name, session_);
    (*poison)->MarkPoisoned(0, Poison::kEnd,
                            std::make_shared<Cause>(Cause{5, "a", MakeError(v1::OUT_OF_BOUNDS, "first")}));
    (*poison)->MarkPoisoned(0, Poison::kEnd,
                            std::make_shared<Cause>(Cause{6, "b", MakeError(v1::NEED_GRAPH, "second")}));
  }
  session_.names().Make(2, std::make_shared<BufferRecord>());
  EXPECT_EQ(CodeOf(table_.Find(1, &session_).status()), v1::OUT_OF_BOUNDS);
  EXPECT_TRUE(table_.Find(2, &session_).ok());
  const BufferTable::Shown unmade = table_.ExtentOf(1, 3, 4, &session_);
  EXPECT_FALSE(unmade.made);
  EXPECT_EQ(unmade.extent.poison->In(unmade.extent.begin, unmade.extent.end)->command_id, 5u);
  EXPECT_TRUE(table_.Free({1, 2}, &session_).ok());
}

TEST_F(HandleNamesTest, ARefusedNameSaysWhyUntilItIsAddedOrFreed) {
  const auto refuse = [this](uint64_t name) {
    const PoisonPtr poison = table_.Refuse(name, session_);
    if (poison != nullptr)
      poison->MarkPoisoned(0, Poison::kEnd, std::make_shared<Cause>(Cause{5, "", MakeError(v1::NEED_GRAPH, "why")}));
    return poison != nullptr;
  };
  ASSERT_TRUE(table_.Reserve(1, session_).ok());
  EXPECT_FALSE(refuse(1)) << "it stands for something";
  EXPECT_FALSE(refuse(0));
  for (uint64_t name = 2; name <= kRefusedNames + 2; ++name) EXPECT_TRUE(refuse(name));
  EXPECT_EQ(CodeOf(table_.Find(2, &session_).status()), v1::UNKNOWN_HANDLE) << "the oldest is forgotten";
  EXPECT_EQ(CodeOf(table_.Find(3, &session_).status()), v1::NEED_GRAPH);
  EXPECT_EQ(CodeOf(table_.Find(3).status()), v1::UNKNOWN_HANDLE);  // others'
  EXPECT_EQ(table_.size(), 1u);
  EXPECT_TRUE(table_.Free({3}, &session_).ok());
  EXPECT_EQ(CodeOf(table_.Find(3, &session_).status()), v1::HANDLE_FREED);
  ASSERT_TRUE(table_.Reserve(4, session_).ok());
  EXPECT_EQ(CodeOf(table_.Find(4, &session_).status()), v1::UNKNOWN_HANDLE);  // not made yet
  EXPECT_TRUE(table_.Free({1, 4}, &session_).ok());
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(HandleNamesTest, NotMoreFreedNamesAreKeptThanPromised) {
  for (uint64_t name = 1; name <= kFreedNames + 1; ++name) {
    ASSERT_TRUE(table_.Reserve(name, session_).ok());
    ASSERT_TRUE(table_.Free({name}, &session_).ok());
  }
  EXPECT_FALSE(session_.names().WasFreed(1));
  EXPECT_TRUE(session_.names().WasFreed(2));
  // One name, over and over, is one.
  for (size_t i = 0; i <= kFreedNames; ++i) {
    ASSERT_TRUE(table_.Reserve(9, session_).ok());
    ASSERT_TRUE(table_.Free({9}, &session_).ok());
  }
  EXPECT_TRUE(session_.names().WasFreed(9));
  EXPECT_FALSE(session_.names().WasFreed(kFreedNames));
}

TEST_F(HandleNamesTest, NamesCountAgainstTheLimitsAndEndWithTheirSession) {
  for (uint64_t name = 1; name <= 4000; ++name) ASSERT_TRUE(table_.Reserve(name, session_).ok());
  EXPECT_EQ(CodeOf(table_.Reserve(4001, session_).status()), v1::OUT_OF_MEMORY);
  Session other;
  for (uint64_t name = 1; name <= 1000; ++name) ASSERT_TRUE(table_.Reserve(name, other).ok());
  EXPECT_EQ(CodeOf(table_.Reserve(1001, other).status()), v1::OUT_OF_MEMORY);
  table_.End(session_);
  EXPECT_EQ(table_.size(), 1000u);
  EXPECT_FALSE(table_.Reserve(1, session_).ok());
  table_.End(other);
  EXPECT_EQ(table_.size(), 0u);
}

}  // namespace
}  // namespace kiln::server
