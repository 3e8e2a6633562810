// Readiness: NOT_SERVING until what was asked for is loaded.
#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <fstream>

#include "absl/synchronization/notification.h"
#include "base/graph/graph_hash.h"
#include "base/store/bundle.h"
#include "base/store/faulty_folder.h"
#include "runtime/drivers/null/device.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {
namespace {

using grpc::health::v1::HealthCheckResponse;

std::unique_ptr<server::RpcServer> StartWith(server::RpcServer::Preparation prepare) {
  std::vector<std::unique_ptr<runtime::hal::Device>> devices;
  devices.push_back(*runtime::null::CreateDevice({}));
  auto engine =
      std::make_unique<server::Engine>(server::EngineOptions(), std::move(devices), /*compile=*/nullptr, nullptr);
  v1::ServerConfig config = server::DefaultConfig();
  config.set_listen("127.0.0.1:0");
  auto log = std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
  auto server = server::RpcServer::Start(config, std::move(engine), log, std::move(prepare));
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

TEST(Readiness, IsRedUntilThePreparationHasEnded) {
  absl::Notification loaded;
  const auto server = StartWith([&](server::Engine&, const std::atomic<bool>&) { loaded.WaitForNotification(); });
  Stubs stubs("127.0.0.1:" + std::to_string(server->port()));
  EXPECT_EQ(Health(stubs), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(FirstDevice(stubs).name(), "NULL:0") << "requests are served meanwhile";
  EXPECT_EQ(Health(stubs), HealthCheckResponse::NOT_SERVING);
  loaded.Notify();
  EXPECT_TRUE(Eventually([&] { return Health(stubs) == HealthCheckResponse::SERVING; }));
}

TEST(Readiness, AServerThatStopsDoesNotWaitForItsPreparation) {
  std::atomic<bool> stopped{false};
  const auto server = StartWith([&](server::Engine&, const std::atomic<bool>& stop) {
    while (!stop.load()) std::this_thread::yield();
    stopped = true;
  });
  server->Drain(absl::ZeroDuration());
  EXPECT_TRUE(stopped);
}

class WarmUpTest : public ServerTest {
 protected:
  void SetUp() override { Restart(""); }
  ~WarmUpTest() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }
  void Restart(const std::string& warm_up, const std::string& cache = "cache") {
    v1::ServerConfig config = server::DefaultConfig();
    config.set_program_cache_dir(folder_ + "/" + cache);
    config.set_warm_up(warm_up);
    Start(config);
  }
  int Programs() { return static_cast<int>(server_->engine().ListPrograms().size()); }
  bool BecomesReady() {
    return Eventually([&] { return Health(*stubs_) == HealthCheckResponse::SERVING; });
  }

  const std::string folder_ = store::testing::NewFolder();
};

TEST_F(WarmUpTest, AListsProgramsAreLoadedBeforeTheServerIsReady) {
  const v1::Graph graphs[] = {GraphOf(kAddOne), GraphOf(kAddOneInPlace)};
  std::vector<store::WarmProgram> list;
  for (const v1::Graph& graph : graphs) {
    ASSERT_TRUE(Compile(*stubs_, graph).ok());
    list.push_back({*HashGraph(graph), compiler::Options().Fingerprint()});
  }
  // One that nobody has, and one of another compiler: neither stops the others.
  list.insert(list.begin(), {GraphHash(), compiler::Options().Fingerprint()});
  list.insert(list.begin(), {list.back().graph_hash, "speed=11"});
  const std::string file = folder_ + "/list";
  std::ofstream(file) << store::PrintWarmList(list);
  Restart(file);
  ASSERT_TRUE(BecomesReady());
  EXPECT_EQ(Programs(), 2);
  EXPECT_EQ(server_->engine().program_stats().compiles, 0u);
  EXPECT_EQ(server_->engine().disk_stats()->hits, 2u);
}

TEST_F(WarmUpTest, ABundlesProgramsAreTakenAndLoaded) {
  ASSERT_TRUE(Compile(*stubs_, GraphOf(kAddOne)).ok());
  const std::string file = folder_ + "/bundle";
  {
    auto disk = store::DiskStore::Open(folder_ + "/cache", {});
    store::BundleWriter bundle(file);
    const auto listed = (*disk)->List();
    ASSERT_EQ(listed->size(), 1u);
    auto entry = (*disk)->Read(listed->front().file.name);
    ASSERT_TRUE(entry.ok() && bundle.Add(*entry).ok());
    ASSERT_TRUE(bundle.Finish().ok());
  }
  Restart(file, "another");
  ASSERT_TRUE(BecomesReady());
  EXPECT_EQ(Programs(), 1);
  const auto compiled = Compile(*stubs_, GraphOf(kAddOne));
  EXPECT_TRUE(compiled->from_cache());
  EXPECT_EQ(server_->engine().program_stats().compiles, 0u);
}

TEST_F(WarmUpTest, AFileThatIsNeitherStopsTheStart) {
  v1::ServerConfig config = server::DefaultConfig();
  config.set_program_cache_dir(folder_ + "/cache");
  config.set_warm_up(folder_ + "/none");
  EXPECT_EQ(StartStatus(config).code(), absl::StatusCode::kNotFound);
  std::ofstream(folder_ + "/none") << "hello\n";
  const absl::Status status = StartStatus(config);
  EXPECT_EQ(DetailOf(status)->code(), v1::BAD_ARGUMENT);
  EXPECT_NE(status.message().find("line 1"), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace kiln::e2e
