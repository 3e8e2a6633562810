#include "runtime/plan/sequence_bytes.h"

#include <gtest/gtest.h>

namespace kiln::runtime {
namespace {

TEST(SequenceUse, WhatIsReadFirstCounts) {
  SequenceUse use;
  use.Reads({8, 16});
  use.Overwrites({0, 32});
  use.Reads({16, 20});
  EXPECT_EQ(use.read().begin, 8u);
  EXPECT_EQ(use.read().end, 16u);
  EXPECT_EQ(use.overwritten().begin, 0u);
  EXPECT_EQ(use.overwritten().end, 32u);
}

TEST(SequenceUse, WhatSeveralStepsOverwriteTogetherIsOverwritten) {
  SequenceUse use;
  use.Overwrites({0, 8});
  use.Overwrites({16, 24});
  use.Reads({0, 24});  // 8 to 16 are not
  EXPECT_EQ(use.read().begin, 0u);
  EXPECT_EQ(use.read().end, 24u);
  use.Overwrites({8, 16});
  EXPECT_EQ(use.overwritten().begin, 0u);
  EXPECT_EQ(use.overwritten().end, 24u);
}

TEST(SequenceUse, ReadsOfWhatWasOverwrittenDoNotCount) {
  SequenceUse use;
  use.Overwrites({4, 12});
  use.Reads({4, 12});
  use.Reads({5, 7});
  EXPECT_TRUE(use.read().empty());
  use.Reads({11, 13});
  EXPECT_EQ(use.read().begin, 11u);
  EXPECT_EQ(use.read().end, 13u);
}

TEST(SequenceUse, TheLongestRowIsKept) {
  SequenceUse use;
  use.Overwrites({0, 4});
  use.Overwrites({8, 20});
  use.Overwrites({30, 31});
  EXPECT_EQ(use.overwritten().begin, 8u);
  EXPECT_EQ(use.overwritten().end, 20u);
}

TEST(SequenceUse, ChangesReachFromTheFirstToTheLast) {
  SequenceUse use;
  use.Changes({20, 24});
  use.Changes({4, 6});
  use.Changes({9, 9});
  EXPECT_EQ(use.changed().begin, 4u);
  EXPECT_EQ(use.changed().end, 24u);
}

}  // namespace
}  // namespace kiln::runtime
