// Streams over a distance, and for long.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/submit/submit_client.h"
#include "tests/support/delaying_proxy.h"

namespace kiln::e2e {
namespace {

using SubmitDistanceTest = ServerTest;

// Allocate, write, execute and read at a round trip of 30 ms: one round trip, so less
// than two would take however slow this machine is at times.
TEST_F(SubmitDistanceTest, AChainIsOneRoundTrip) {
  v1::ExecuteRequest execute;
  execute.set_graph_hash(Compile(*stubs_, GraphOf(kAddOne))->graph_hash());
  AddBuffer(execute, 0, 1);
  const testing::DelayingProxy proxy(server_->port(), absl::Milliseconds(15));
  Stubs far(proxy.address());
  FirstDevice(far);  // connects
  double best = 1e9;
  for (int i = 0; i < 10 && best > 0.045; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    SubmitClient client(far);
    client.Allocate(1, 32);
    client.Write(1, BytesOf(std::vector<float>(8, 4.0f)));
    client.Execute(execute, {2});
    EXPECT_EQ(FloatsOf(client.ReadBack(2)), std::vector<float>(8, 5.0f));
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    client.WritesDone();
    EXPECT_FALSE(client.Next().has_value());
    EXPECT_TRUE(client.Finish().ok());
  }
  EXPECT_GE(best, 0.030);
  EXPECT_LT(best, 0.060);
}

// A million of them: KILN_SOAK_COMMANDS=1000000 in the environment.
TEST_F(SubmitDistanceTest, ManyCommandsLeaveNothing) {
  const char* const wanted = std::getenv("KILN_SOAK_COMMANDS");
  const int rounds = (wanted == nullptr ? 20'000 : std::atoi(wanted)) / 5;
  v1::ExecuteRequest execute;
  execute.set_graph_hash(Compile(*stubs_, GraphOf(kAddOne))->graph_hash());
  AddBuffer(execute, 0, 1);
  const uint64_t before = FirstDevice(*stubs_).memory_in_use_bytes();
  SubmitClient client(*stubs_);
  for (int i = 0; i < rounds; ++i) {
    client.Allocate(1, 32);
    client.Fill(1, "x");
    client.Execute(execute, {2});
    client.Free({1, 2});
    client.Free({2});  // fails each time
    ASSERT_EQ(client.FailureCode(), v1::HANDLE_FREED);
    if (i % 1000 == 999) {
      EXPECT_EQ(server_->engine().buffers().count(), 0u);
    }
  }
  client.WritesDone();
  EXPECT_FALSE(client.Next().has_value());
  EXPECT_TRUE(MemoryReturnsTo(*stubs_, before));
}

}  // namespace
}  // namespace kiln::e2e
