// The quota of how long one run may take, as it is estimated: of a program and of a recording, when it is made and
// when it is run.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/e2e/tenants/quota_fixture.h"
#include "tests/support/endless.h"

namespace kiln::e2e {
namespace {

class QuotaRunTest : public QuotaTest {
 protected:
  void Limit(uint64_t seconds) {
    QuotaLimits limits = {};
    limits[static_cast<size_t>(Quota::kSecondsOfARun)] = seconds;
    account().SetLimits(limits);
  }
  absl::StatusOr<std::string> Record(const std::string& hash, int steps) {
    v1::RecordSequenceRequest request;
    v1::RecordSequenceResponse recorded;
    request.add_programs()->set_graph_hash(hash);
    for (int i = 0; i < steps; ++i) request.add_steps()->add_arguments()->mutable_memory()->set_buffer(0);
    const absl::Status status = Call(*a_->kernel, &v1::KernelService::Stub::RecordSequence, request, recorded);
    if (!status.ok()) return status;
    return recorded.recording();
  }
  absl::Status Run(const std::string& hash, uint64_t buffer) {
    v1::ExecuteRequest request;
    request.set_graph_hash(hash);
    AddBuffer(request, 0, buffer);
    return Execute(*a_, request).status();
  }
  absl::Status Replay(const std::string& recording, uint64_t buffer) {
    v1::ReplaySequenceRequest request;
    request.set_recording(recording);
    request.add_buffers()->set_handle(buffer);
    v1::ReplaySequenceResponse response;
    return Call(*a_->kernel, &v1::KernelService::Stub::ReplaySequence, request, response);
  }
};

TEST_F(QuotaRunTest, LongRunsAreRefusedByTheirEstimate) {
  StartWith("run_seconds: 1");
  // Many seconds; none of it is run.
  const v1::Graph graph = testing::CountsFor(20'000'000'000);
  ASSERT_TRUE(Compile(*b_, graph).ok()) << "the other tenant has no such quota";
  const double seconds = static_cast<double>(server_->engine().AllPrograms().front()->cost().run_ns()) / 1e9;
  ASSERT_GT(seconds, 1.0);
  const auto estimate = [seconds](int runs) { return static_cast<uint64_t>(std::ceil(runs * seconds)); };
  ExpectExceeded(Compile(*a_, graph).status(), Quota::kSecondsOfARun, 1, estimate(1));
  EXPECT_TRUE(Compile(*a_, testing::CountsFor(1000)).ok());
  EXPECT_EQ(account().used(Quota::kSecondsOfARun), 0u);

  Limit(estimate(1));
  const auto compiled = Compile(*a_, graph);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const auto recorded = Record(compiled->graph_hash(), 1);
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  ExpectExceeded(Record(compiled->graph_hash(), 2).status(), Quota::kSecondsOfARun, estimate(1), estimate(2));

  // What was compiled and recorded before holds to a limit that comes later.
  Limit(1);
  const uint64_t buffer = *AllocateBytes(*a_, 4);
  ExpectExceeded(Run(compiled->graph_hash(), buffer), Quota::kSecondsOfARun, 1, estimate(1));
  ExpectExceeded(Replay(*recorded, buffer), Quota::kSecondsOfARun, 1, estimate(1));
}

}  // namespace
}  // namespace kiln::e2e
