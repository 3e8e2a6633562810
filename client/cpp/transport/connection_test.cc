#include "client/cpp/transport/connection.h"

#include <gtest/gtest.h>

namespace kiln::client {
namespace {

TEST(SilenceOf, IsLongerThanASessionsAndAsLongAsServersWant) {
  EXPECT_EQ(SilenceOf(absl::ZeroDuration()), absl::Seconds(310));
  EXPECT_EQ(SilenceOf(absl::Seconds(1)), absl::Seconds(20));
  EXPECT_EQ(SilenceOf(absl::Seconds(60)), absl::Seconds(30));
  EXPECT_EQ(SilenceOf(absl::InfiniteDuration()), absl::Seconds(310));
}

}  // namespace
}  // namespace kiln::client
