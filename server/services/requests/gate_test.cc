#include "server/services/requests/gate.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "absl/time/clock.h"

namespace kiln::server {
namespace {

TEST(GateTest, OpensAndCloses) {
  Gate gate;
  EXPECT_TRUE(gate.Enter());
  EXPECT_EQ(gate.inside(), 1);
  gate.Close();
  EXPECT_EQ(gate.refused(), 0u);
  EXPECT_FALSE(gate.Enter());
  EXPECT_EQ(gate.refused(), 1u);
  EXPECT_FALSE(gate.WaitEmpty(absl::Now()));
  gate.Leave();
  EXPECT_TRUE(gate.WaitEmpty(absl::InfiniteFuture()));
  EXPECT_FALSE(gate.Enter());
}

TEST(GateTest, WaitsForTheLastOne) {
  Gate gate;
  std::atomic<int> left{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(gate.Enter());
  gate.Close();
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      ++left;
      gate.Leave();
    });
  }
  EXPECT_TRUE(gate.WaitEmpty(absl::InfiniteFuture()));
  EXPECT_EQ(left, 4);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace kiln::server
