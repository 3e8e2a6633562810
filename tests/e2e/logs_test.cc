// The audit, access and slow logs of a whole server: what is in them, and what is not.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kiln/v1/debug_service.pb.h"
#include "tests/e2e/tenants/quota_fixture.h"

namespace kiln::e2e {
namespace {

class LogsTest : public QuotaTest {
 protected:
  LogsTest() {
    for (const char* name : {"audit", "access", "slow", "access.1"}) std::remove(PathOf(name).c_str());
  }

  static std::string PathOf(const std::string& name) { return absl::StrCat(testing::TempDir(), "/logs_", name); }

  static std::string Text(const std::string& name) {
    std::ifstream file(PathOf(name));
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  // With the tenants "a", of few handles, "root", and "dumb", which may not look inside.
  void StartLogging() {
    std::string root = TenantWith("root", ""), dumb = TenantWith("dumb", "");
    root.insert(root.rfind('}'), " right: EXECUTE_RIGHT right: DEBUG_RIGHT right: ADMIN_RIGHT ");
    dumb.insert(dumb.rfind('}'), " right: EXECUTE_RIGHT ");
    WriteFile(root + dumb + TenantWith("a", "handles: 1"));
    v1::ServerConfig config = server::DefaultConfig();
    config.set_tenants(path_);
    config.set_audit_log(PathOf("audit"));
    config.set_access_log(PathOf("access"));
    config.set_slow_log(PathOf("slow"));
    config.set_slow_request_ms(1);
    Start(config);
    a_ = std::make_unique<Stubs>(address(), "secret of a");
    root_ = std::make_unique<Stubs>(address(), "secret of root");
  }

  using Line = std::map<std::string, google::protobuf::Value>;
  // Each must be JSON.
  static std::vector<Line> Lines(const std::string& name) {
    std::vector<Line> lines;
    for (const absl::string_view text : absl::StrSplit(Text(name), '\n', absl::SkipEmpty())) {
      google::protobuf::Struct parsed;
      EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(std::string(text), &parsed).ok()) << text;
      lines.emplace_back(parsed.fields().begin(), parsed.fields().end());
    }
    return lines;
  }
  static std::string In(const Line& line, const std::string& key) {
    const auto found = line.find(key);
    return found == line.end() ? "" : found->second.string_value();
  }
  // Those with these values.
  static std::vector<Line> Find(const std::string& name, const std::map<std::string, std::string>& wanted) {
    std::vector<Line> found;
    for (const Line& line : Lines(name)) {
      if (std::all_of(wanted.begin(), wanted.end(),
                      [&](const auto& each) { return In(line, each.first) == each.second; }))
        found.push_back(line);
    }
    return found;
  }
  static bool Comes(const std::string& name, const std::map<std::string, std::string>& wanted) {
    return Eventually([&] { return !Find(name, wanted).empty(); });
  }

  std::unique_ptr<Stubs> root_;
};

TEST_F(LogsTest, EachCallIsALineWithWhereItsTimeWent) {
  StartLogging();
  ASSERT_TRUE(Execute(*a_, AddOne(v1::RESULT_INLINE)).ok());
  ASSERT_TRUE(Comes("access", {{"method", "KernelService.Execute"}, {"tenant", "a"}, {"status", "OK"}}));
  const Line line = Find("access", {{"method", "KernelService.Execute"}}).front();
  EXPECT_EQ(In(line, "device"), "CPU:0");
  EXPECT_TRUE(absl::StartsWith(In(line, "peer"), "ipv4:127.0.0.1:")) << In(line, "peer");
  EXPECT_GT(line.at("received").number_value(), 32);
  EXPECT_GT(line.at("sent").number_value(), 32);
  const auto& micros = line.at("us").struct_value().fields();
  EXPECT_GT(micros.at("total").number_value(), micros.at("compile").number_value());
  EXPECT_TRUE(micros.contains("device"));
  // It was compiled, which takes more than a millisecond.
  EXPECT_TRUE(Comes("slow", {{"method", "KernelService.Execute"}, {"tenant", "a"}}));
}

TEST_F(LogsTest, StreamsCountTheirBytesAndAreNotSlow) {
  StartLogging();
  const auto handle = AllocateBytes(*a_, 100'000);
  ASSERT_TRUE(handle.ok());
  ASSERT_TRUE(Upload(*a_, *handle, std::string(100'000, 'x')).ok());
  ASSERT_TRUE(Download(*a_, *handle).ok());
  ASSERT_TRUE(Comes("access", {{"method", "BufferService.Write"}, {"status", "OK"}}));
  ASSERT_TRUE(Comes("access", {{"method", "BufferService.Read"}, {"status", "OK"}}));
  EXPECT_GE(Find("access", {{"method", "BufferService.Write"}}).front().at("received").number_value(), 100'000);
  EXPECT_GE(Find("access", {{"method", "BufferService.Read"}}).front().at("sent").number_value(), 100'000);
  EXPECT_TRUE(Find("slow", {{"method", "BufferService.Write"}}).empty());
}

TEST_F(LogsTest, WhoWasRefusedAndWhy) {
  StartLogging();
  Stubs stranger(address(), "a secret that nobody has"), dumb(address(), "secret of dumb");
  EXPECT_FALSE(AllocateBytes(stranger, 64).ok());
  v1::ListProgramsResponse response;
  EXPECT_FALSE(Call(*dumb.debug, &v1::DebugService::Stub::ListPrograms, v1::ListProgramsRequest(), response).ok());
  ASSERT_TRUE(AllocateBytes(*a_, 64).ok());
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(AllocateBytes(*a_, 64).ok());
  ASSERT_TRUE(Comes("audit", {{"event", "refused"}, {"tenant", ""}, {"code", "NOT_AUTHENTICATED"}}));
  ASSERT_TRUE(Comes("audit", {{"event", "refused"}, {"tenant", "dumb"}, {"code", "NOT_ALLOWED"}}));
  ASSERT_TRUE(Comes("audit", {{"event", "refused"}, {"tenant", "a"}, {"limit", "handles"}}));
  ASSERT_TRUE(Comes("audit", {{"event", "known"}, {"tenant", "a"}}));
  EXPECT_EQ(Find("audit", {{"event", "known"}, {"tenant", "a"}}).size(), 1u);
  EXPECT_EQ(Find("audit", {{"code", "NOT_AUTHENTICATED"}}).front().at("method").string_value(),
            "BufferService.Allocate");
  server_ = nullptr;  // all is written
  for (const char* name : {"audit", "access", "slow"}) EXPECT_FALSE(absl::StrContains(Text(name), "secret")) << name;
}

TEST_F(LogsTest, FilesOfTenantsAndCallsThatChangeWhatIsKept) {
  StartLogging();
  const auto compiled = Compile(*a_, GraphOf(kAddOne));
  ASSERT_TRUE(compiled.ok());
  v1::EvictRequest evict;
  evict.set_graph_hash(compiled->graph_hash());
  v1::EvictResponse evicted;
  ASSERT_TRUE(Call(*a_->debug, &v1::DebugService::Stub::Evict, evict, evicted).ok());
  EXPECT_TRUE(
      Comes("audit", {{"event", "called"}, {"tenant", "a"}, {"method", "DebugService.Evict"}, {"status", "OK"}}));
  ASSERT_TRUE(server_->Reload().ok());
  EXPECT_TRUE(Comes("audit", {{"event", "tenants_read"}, {"status", "OK"}}));
  WriteFile("nonsense\n");
  EXPECT_FALSE(server_->Reload().ok());
  EXPECT_TRUE(Comes("audit", {{"event", "tenants_read"}, {"status", "BAD_ARGUMENT"}}));
}

TEST_F(LogsTest, AfterAReloadTheFilesAreNew) {
  StartLogging();
  ASSERT_TRUE(AllocateBytes(*root_, 64).ok());
  ASSERT_TRUE(Comes("access", {{"method", "BufferService.Allocate"}}));
  ASSERT_EQ(std::rename(PathOf("access").c_str(), PathOf("access.1").c_str()), 0);
  ASSERT_TRUE(server_->Reload().ok());
  ASSERT_TRUE(AllocateBytes(*root_, 64).ok());
  EXPECT_TRUE(Comes("access", {{"method", "BufferService.Allocate"}}));
  EXPECT_EQ(Find("access.1", {{"method", "BufferService.Allocate"}}).size(), 1u);
}

TEST_F(LogsTest, AFileThatCannotBeWrittenStopsTheStart) {
  v1::ServerConfig config = server::DefaultConfig();
  config.set_access_log("/nowhere/at/all");
  const absl::Status status = StartStatus(config);
  EXPECT_EQ(DetailOf(status).value_or(v1::ErrorDetail()).field(), "access_log") << status;
}

TEST_F(LogsTest, SlowCallsAreShown) {
  StartLogging();
  ASSERT_TRUE(Execute(*a_, AddOne(v1::RESULT_INLINE)).ok());
  v1::StateResponse state;
  ASSERT_TRUE(Eventually([&] {
    EXPECT_TRUE(Call(*a_->debug, &v1::DebugService::Stub::State, v1::StateRequest(), state).ok());
    return state.slow_calls_size() > 0;
  }));
  EXPECT_DOUBLE_EQ(state.slow_after_seconds(), 1e-3);
  const v1::StateResponse::Call& call = *state.slow_calls().rbegin();
  EXPECT_EQ(call.method(), "KernelService.Execute");
  EXPECT_EQ(call.tenant(), "a");
  EXPECT_EQ(call.trace_id().size(), 32u);
  EXPECT_TRUE(std::any_of(call.parts().begin(), call.parts().end(),
                          [](const auto& part) { return part.name() == "compile" && part.seconds() > 0; }));
}

}  // namespace
}  // namespace kiln::e2e
