// Random sequences of calls and commands by the C++ client, on one device and on four: half a
// minute of them, or as many as one likes.
//
//   bazel run //tests/client:sequences_test -- --seconds=600 --seed=1
//
// With tests/python/sequences_test.py, which is the same for Python, they are a minute. Those of
// kMinSeeds seeds are done in any case. A failure names its seed, and what was called; what a
// stopped run leaves is a race's to decide, and what is asked for after it may depend on that.
#include "tests/client/sequences.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::client {
namespace {

constexpr uint32_t kMinSeeds = 60;
constexpr int kSteps = 60;

// Of both numbers of devices together; the first.
double seconds = 30;
uint32_t seed = 0;

class Sequences : public e2e::ServerTest, public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    v1::ServerConfig config = server::DefaultConfig();
    config.set_cpu_devices(static_cast<uint32_t>(GetParam()));
    Start(config);
  }
};

TEST_P(Sequences, DoWhatTheModelDoes) {
  Site site(address(), GetParam());
  const absl::Time end = absl::Now() + absl::Seconds(seconds / 2);
  int calls = 0, failed = 0, stopped = 0;
  uint32_t done = 0;
  for (; done < kMinSeeds || absl::Now() < end; ++done) {
    Sequence sequence(site, seed + done);
    const std::string wrong = sequence.Run(kSteps);
    ASSERT_EQ(wrong, "") << "--seed=" << seed + done << " on " << GetParam() << " devices";
    calls += sequence.calls();
    failed += sequence.failed();
    stopped += sequence.stopped();
    ASSERT_TRUE(e2e::Eventually([&] { return server_->engine().buffers().count() == 0; })) << "--seed=" << seed + done;
  }
  std::printf("%u sequences on %d devices from seed %u on: %d calls, %d failed, %d stopped in the middle\n", done,
              GetParam(), seed, calls, failed, stopped);
  EXPECT_GT(failed, static_cast<int>(kMinSeeds));
}

INSTANTIATE_TEST_SUITE_P(Devices, Sequences, ::testing::Values(1, 4));

}  // namespace
}  // namespace kiln::client

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    absl::string_view flag = argv[i];
    if (absl::ConsumePrefix(&flag, "--seconds=")) {
      kiln::client::seconds = std::atof(flag.data());
    } else if (absl::ConsumePrefix(&flag, "--seed=")) {
      kiln::client::seed = static_cast<uint32_t>(std::atoi(flag.data()));
    }
  }
  return RUN_ALL_TESTS();
}
