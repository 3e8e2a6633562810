#include "server/logs/audit_log.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::server {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

class AuditLogTest : public ::testing::Test {
 protected:
  AuditLogTest() {
    std::remove(path_.c_str());
    audit_ = std::make_unique<AuditLog>(*LineLog::Open(path_, "audit_log"));
  }

  std::vector<std::string> Lines() {
    audit_->lines().Flush();
    std::ifstream file(path_);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  const std::string path_ =
      absl::StrCat(testing::TempDir(), "/", testing::UnitTest::GetInstance()->current_test_info()->name(), ".log");
  std::unique_ptr<AuditLog> audit_;
};

TEST_F(AuditLogTest, ATenantIsNotedOnceForEachAddress) {
  audit_->Known("a", "ipv4:10.0.0.1:1", kNow);
  audit_->Known("a", "ipv4:10.0.0.1:2", kNow);
  audit_->Known("a", "ipv4:10.0.0.2:1", kNow);
  audit_->Known("b", "ipv4:10.0.0.1:1", kNow);
  const std::vector<std::string> lines = Lines();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0],
            "{\"time\":\"2023-11-14T22:13:20.000000Z\",\"event\":\"known\",\"tenant\":\"a\","
            "\"peer\":\"ipv4:10.0.0.1:1\"}");
}

TEST_F(AuditLogTest, ManyRefusalsAreFewLines) {
  const absl::Status who = MakeError(v1::NOT_AUTHENTICATED, "no tenant has this token");
  for (int i = 0; i < 100; ++i) audit_->Refused("", "ipv4:10.0.0.1:1", "KernelService.Execute", who, kNow);
  audit_->Refused("", "ipv4:10.0.0.1:1", "KernelService.Execute", who, kNow + absl::Seconds(2));
  const std::vector<std::string> lines = Lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(absl::StrContains(lines[0],
                                "\"method\":\"KernelService.Execute\",\"code\":\"NOT_AUTHENTICATED\","
                                "\"reason\":\"no tenant has this token\"}"))
      << lines[0];
  EXPECT_FALSE(absl::StrContains(lines[0], "more_since_last"));
  EXPECT_TRUE(absl::StrContains(lines[1], "\"more_since_last\":99}")) << lines[1];
}

TEST_F(AuditLogTest, EachTenantAndLimitHasItsOwnLine) {
  const auto exceeded = [](const char* limit) {
    v1::ErrorDetail detail;
    detail.set_code(v1::QUOTA_EXCEEDED);
    detail.set_limit(limit);
    return MakeError(detail, "too much");
  };
  audit_->Refused("a", "p", "m", exceeded("handles"), kNow);
  audit_->Refused("a", "p", "m", exceeded("device_bytes"), kNow);
  audit_->Refused("b", "p", "m", exceeded("handles"), kNow);
  audit_->Refused("b", "p", "m", exceeded("handles"), kNow);
  const std::vector<std::string> lines = Lines();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(absl::StrContains(lines[1], "\"tenant\":\"a\"")) << lines[1];
  EXPECT_TRUE(absl::StrContains(lines[1], "\"code\":\"QUOTA_EXCEEDED\",\"limit\":\"device_bytes\"")) << lines[1];
}

TEST_F(AuditLogTest, CallsAndFilesOfTenants) {
  audit_->Called("root", "unix:", "DebugService.Import", "OK", kNow);
  audit_->TenantsRead(absl::OkStatus(), kNow);
  audit_->TenantsRead(MakeError(v1::BAD_ARGUMENT, "line 3:\nnonsense"), kNow);
  const std::vector<std::string> lines = Lines();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(absl::StrContains(lines[0],
                                "\"event\":\"called\",\"tenant\":\"root\",\"peer\":\"unix:\","
                                "\"method\":\"DebugService.Import\",\"status\":\"OK\"}"))
      << lines[0];
  EXPECT_TRUE(absl::StrContains(lines[1], "\"event\":\"tenants_read\",\"status\":\"OK\"}")) << lines[1];
  EXPECT_TRUE(absl::StrContains(lines[2], "\"reason\":\"line 3:\\u000anonsense\"}")) << lines[2];
}

TEST_F(AuditLogTest, HostsOfPeers) {
  EXPECT_EQ(HostOf("ipv4:10.0.0.1:4711"), "ipv4:10.0.0.1");
  EXPECT_EQ(HostOf("ipv6:%5B::1%5D:4711"), "ipv6:%5B::1%5D");
  EXPECT_EQ(HostOf("unix:/run/kiln:socket"), "unix:/run/kiln:socket");
  EXPECT_EQ(HostOf("unix:"), "unix:");
}

}  // namespace
}  // namespace kiln::server
