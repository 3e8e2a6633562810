#include "client/cpp/transport/connection.h"

#include <gtest/gtest.h>

namespace kiln::client {
namespace {

TEST(KeepaliveTime, IsLongerThanASessionsAndAsLongAsServersWant) {
  EXPECT_EQ(KeepaliveTime(absl::ZeroDuration()), absl::Seconds(310));
  EXPECT_EQ(KeepaliveTime(absl::Seconds(1)), absl::Seconds(20));
  EXPECT_EQ(KeepaliveTime(absl::Seconds(60)), absl::Seconds(30));
  EXPECT_EQ(KeepaliveTime(absl::InfiniteDuration()), absl::Seconds(310));
}

}  // namespace
}  // namespace kiln::client
