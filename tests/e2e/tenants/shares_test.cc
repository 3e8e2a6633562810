// What the server has few of, and a tenant's lines say nothing of: none can take all.
#include "kiln/v1/device_service.grpc.pb.h"
#include "server/services/device_watch.h"
#include "server/shared_memory/regions.h"
#include "tests/e2e/tenants/quota_fixture.h"

namespace kiln::e2e {
namespace {

class SharesTest : public QuotaTest {
 protected:
  uint64_t limit(Quota quota) { return account().limit(quota); }
};

TEST_F(SharesTest, AQuarterIsAsMuchAsOneMayHaveOfWhatItsLinesDoNotSay) {
  StartWith("handles: 5");
  EXPECT_EQ(limit(Quota::kHandles), 5u);
  EXPECT_EQ(limit(Quota::kSessions), server::DefaultConfig().session_limits().max_sessions() / 4);
  EXPECT_EQ(limit(Quota::kWatchers), server::kMaxWatchers / 4);
  EXPECT_EQ(limit(Quota::kRegions), server::kMaxRegions / 4);
  EXPECT_EQ(limit(Quota::kStreams), 0u);
  // Also from the next reading of the file on.
  WriteTenants("sessions: 500000");
  ASSERT_TRUE(server_->Reload().ok());
  EXPECT_EQ(limit(Quota::kSessions), 500000u);
  EXPECT_EQ(limit(Quota::kHandles), server::DefaultConfig().max_handles() / 4);
}

TEST_F(SharesTest, WatchersOfOneTenantLeaveOthersSome) {
  StartWith("");
  struct Watch {
    std::unique_ptr<grpc::ClientContext> context = NewContext();
    std::unique_ptr<grpc::ClientReader<v1::WatchDevicesResponse>> reader;
  };
  std::vector<Watch> watches;
  const auto watch = [&](Stubs& stubs) {
    Watch& one = watches.emplace_back();
    one.reader = stubs.device->Watch(one.context.get(), v1::WatchDevicesRequest());
    v1::WatchDevicesResponse device;
    return one.reader->Read(&device) ? absl::OkStatus() : server::FromGrpc(one.reader->Finish());
  };
  for (size_t i = 0; i < server::kMaxWatchers / 4; ++i) ASSERT_TRUE(watch(*a_).ok()) << i;
  ExpectExceeded(watch(*a_), Quota::kWatchers, server::kMaxWatchers / 4, server::kMaxWatchers / 4 + 1);
  EXPECT_TRUE(watch(*b_).ok());
  for (const Watch& one : watches) one.context->TryCancel();
}

}  // namespace
}  // namespace kiln::e2e
