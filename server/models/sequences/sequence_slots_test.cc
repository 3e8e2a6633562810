#include "server/models/sequences/sequence_slots.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace kiln::server {
namespace {

absl::Time At(int seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

// Three sequences, one row in a run, idle for ten seconds.
class SequenceSlotsTest : public testing::Test {
 protected:
  // A request that ends well.
  void Step(const std::string& id, int at, bool start = false, bool end = false) {
    const SequenceAsk ask{id, start, end};
    ASSERT_TRUE(slots_.Begin(ask, At(at)).ok());
    slots_.Succeed(ask, slots_.Take(ask), At(at));
  }

  SequenceSlots slots_{3, 1, absl::Seconds(10)};
};

TEST_F(SequenceSlotsTest, ThoseEndFirstThatNobodyAskedForLongest) {
  Step("a", 0, true);
  Step("b", 1, true);
  Step("c", 2, true);
  EXPECT_EQ(slots_.oldest(), At(0));
  Step("a", 5);
  EXPECT_EQ(slots_.oldest(), At(1));
  slots_.EndIdle(At(11));
  EXPECT_EQ(slots_.sequences(), 2u);
  EXPECT_EQ(slots_.free_slots(), 2u);
  EXPECT_EQ(slots_.oldest(), At(2));
  EXPECT_EQ(DetailOf(slots_.Begin({"b"}, At(11)))->code(), v1::UNKNOWN_HANDLE);
  EXPECT_TRUE(slots_.Begin({"a"}, At(14)).ok());  // "c" is too old
  EXPECT_EQ(slots_.sequences(), 1u);
  EXPECT_EQ(slots_.oldest(), absl::InfiniteFuture());  // all are busy
}

TEST_F(SequenceSlotsTest, ABusyOneDoesNotEnd) {
  Step("a", 0, true);
  const SequenceAsk ask{"a"};
  ASSERT_TRUE(slots_.Begin(ask, At(1)).ok());
  slots_.EndIdle(At(1000));
  EXPECT_EQ(slots_.sequences(), 1u);
  slots_.Fail(ask, At(1000));
  slots_.EndIdle(At(1009));
  EXPECT_EQ(slots_.sequences(), 1u);
  slots_.EndIdle(At(1010));
  EXPECT_EQ(slots_.sequences(), 0u);
  EXPECT_EQ(slots_.free_slots(), 4u);
}

TEST_F(SequenceSlotsTest, OneThatIsIdleMakesRoom) {
  Step("a", 0, true);
  Step("b", 5, true);
  Step("c", 5, true);
  EXPECT_EQ(DetailOf(slots_.Begin({"d", true}, At(9)))->limit(), "sequences");
  Step("d", 10, true, true);
  EXPECT_EQ(slots_.sequences(), 2u);
  EXPECT_EQ(slots_.free_slots(), 2u);
  EXPECT_EQ(slots_.oldest(), At(5));
}

}  // namespace
}  // namespace kiln::server
