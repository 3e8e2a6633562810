// Programs that outlive their server, in one process: what is found again, and what
// must not be.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/graph/graph_hash.h"
#include "base/store/disk_store.h"
#include "base/store/faulty_folder.h"
#include "kiln/v1/debug_service.pb.h"
#include "kiln/v1/executable.pb.h"
#include "tests/e2e/server_fixture.h"
#include "tests/e2e/tenants/quota_fixture.h"

namespace kiln::e2e {
namespace {

class DiskCacheTest : public ServerTest {
 protected:
  void SetUp() override { Restart(); }
  ~DiskCacheTest() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Restart(bool native = false, int devices = 1) {
    v1::ServerConfig config = server::DefaultConfig();
    config.set_program_cache_dir(folder_);
    config.set_program_cache_key_file(key_file_);
    config.set_allow_native_code(native);
    config.set_cpu_devices(devices);
    Start(config);
  }

  v1::ListProgramsResponse Stats() {
    v1::ListProgramsResponse response;
    EXPECT_TRUE(Call(*stubs_->debug, &v1::DebugService::Stub::ListPrograms, v1::ListProgramsRequest(), response).ok());
    return response;
  }

  v1::ExecuteRequest ByHash() const {
    v1::ExecuteRequest request;
    request.set_graph_hash(hash_);
    request.set_result_mode(v1::RESULT_INLINE);
    AddFloats(request, 0, std::vector<float>(8, 1.0f));
    return request;
  }
  void ExpectTwos(const absl::StatusOr<v1::ExecuteResponse>& response) {
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(FloatsOf(response->results(0).tensor().data()), std::vector<float>(8, 2.0f));
  }

  // The program kAddOne is on the disk, and the server new.
  void StoreAddOne() {
    const auto compiled = Compile(*stubs_, GraphOf(kAddOne));
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    EXPECT_FALSE(compiled->from_cache());
    hash_ = compiled->graph_hash();
    Restart();
  }

  // Reads the one entry that there is, lets it be changed, and puts it back.
  void ChangeEntry(const std::function<void(store::Entry&)>& change) {
    auto disk = store::DiskStore::Open(folder_, {});
    const auto listed = (*disk)->List();
    ASSERT_EQ(listed->size(), 1u);
    auto entry = (*disk)->Read(listed->front().file.name);
    ASSERT_TRUE(entry.ok()) << entry.status();
    change(*entry);
    ASSERT_TRUE((*disk)->Publish(*entry).ok());
  }

  // The entry is bad, and no client notices.
  void ExpectCompiledAnew() {
    const auto compiled = Compile(*stubs_, GraphOf(kAddOne));
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    EXPECT_FALSE(compiled->from_cache());
    ExpectTwos(Execute(*stubs_, ByHash()));
    EXPECT_EQ(Stats().disk().rejects(), 1u);
    EXPECT_EQ(Stats().disk().hits(), 0u);
    EXPECT_EQ(Stats().compiles(), 1u);
    Restart();
    ExpectTwos(Execute(*stubs_, ByHash()));
    EXPECT_EQ(Stats().disk().hits(), 1u) << "a good one is in its place";
  }

  const std::string folder_ = store::testing::NewFolder();
  std::string key_file_;
  std::string hash_;
};

TEST_F(DiskCacheTest, AHashIsEnoughAfterARestart) {
  StoreAddOne();
  const auto response = Execute(*stubs_, ByHash());
  ExpectTwos(response);
  EXPECT_TRUE(response->from_cache());
  EXPECT_EQ(Stats().compiles(), 0u);
  EXPECT_EQ(Stats().disk().hits(), 1u);
  ASSERT_EQ(Stats().programs_size(), 1);
  EXPECT_EQ(Stats().programs(0).graph_hash(), hash_);
  EXPECT_GT(Stats().programs(0).compile_us(), 0u);
}

TEST_F(DiskCacheTest, WithAKeyWhatHasNotItsSealIsCompiledAnew) {
  const std::string key = folder_ + ".key";
  std::ofstream(key) << std::string(32, 'k');
  std::filesystem::permissions(key, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  StoreAddOne();
  key_file_ = key;
  Restart();
  ExpectCompiledAnew();
  key_file_ = "";
  Restart();
  ExpectCompiledAnew();
  std::filesystem::remove(key);
  v1::ServerConfig config = server::DefaultConfig();
  config.set_program_cache_dir(folder_);
  config.set_program_cache_key_file(key);
  EXPECT_EQ(DetailOf(StartStatus(config)).value_or(v1::ErrorDetail()).code(), v1::BAD_ARGUMENT);
}

TEST_F(DiskCacheTest, AProgramForSeveralDevicesIsStoredToo) {
  constexpr char kSum[] = R"(
    0 CONST [] weakint 4
    1 STACK [0]
    2 PARAM [1] slot=0 dtype=float32 device=("CPU:0", "CPU:1")
    3 REDUCE [2] ADD axes=(0)
    4 TUPLE [3, 2]
  )";
  Restart(false, 2);
  const auto compiled = Compile(*stubs_, GraphOf(kSum));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  Restart(false, 2);
  v1::ExecuteRequest request;
  request.set_graph_hash(compiled->graph_hash());
  request.set_result_mode(v1::RESULT_INLINE);
  AddFloats(request, 0, {1, 2, 3, 4});
  const auto response = Execute(*stubs_, request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_TRUE(response->from_cache());
  EXPECT_EQ(FloatsOf(response->results(0).tensor().data()), std::vector<float>{10});
  EXPECT_EQ(Stats().compiles(), 0u);
  EXPECT_EQ(Stats().disk().hits(), 1u);
  // Where there is no second device there is no such program, and the entry stays.
  Restart(false, 1);
  EXPECT_EQ(DetailOf(Execute(*stubs_, request).status())->code(), v1::UNKNOWN_DEVICE);
  Restart(false, 2);
  EXPECT_TRUE(Execute(*stubs_, request).ok());
  // An entry that says it is for one device is not right.
  ChangeEntry([](store::Entry& entry) { entry.header.set_several_devices(false); });
  Restart(false, 2);
  const auto again = Compile(*stubs_, GraphOf(kSum));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(again->from_cache());
  EXPECT_EQ(Stats().disk().rejects(), 1u);
}

TEST_F(DiskCacheTest, AGraphIsNotCompiledAgainAfterARestart) {
  StoreAddOne();
  const auto compiled = Compile(*stubs_, GraphOf(kAddOne));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_TRUE(compiled->from_cache());
  EXPECT_EQ(compiled->graph_hash(), hash_);
  EXPECT_EQ(compiled->signature().parameters_size(), 1);
  EXPECT_EQ(compiled->kernels(), 1u);
  EXPECT_EQ(Stats().compiles(), 0u);
}

TEST_F(DiskCacheTest, ACallWithTheGraphIsNotFailedByOneWithoutIt) {
  v1::ExecuteRequest with_graph = ByHash();
  with_graph.clear_graph_hash();
  *with_graph.mutable_graph() = GraphOf(kAddOne);
  hash_ = std::string(HashGraph(with_graph.graph())->Bytes());
  const v1::ExecuteRequest without = ByHash();
  constexpr int kEach = 8;
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2 * kEach; ++i) {
    threads.emplace_back([&, i] {
      ++ready;
      while (ready < 2 * kEach) std::this_thread::yield();
      const auto response = Execute(*stubs_, i % 2 == 0 ? with_graph : without);
      if (response.ok()) return ExpectTwos(response);
      EXPECT_EQ(i % 2, 1) << response.status();
      EXPECT_EQ(DetailOf(response.status())->code(), v1::NEED_GRAPH);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Stats().compiles(), 1u);
}

TEST_F(DiskCacheTest, WhatIsOnNoDiskStillNeedsItsGraph) {
  hash_ = std::string(32, 'x');
  EXPECT_EQ(DetailOf(Execute(*stubs_, ByHash()).status())->code(), v1::NEED_GRAPH);
  EXPECT_EQ(Stats().disk().misses(), 1u);
  EXPECT_EQ(Stats().disk().rejects(), 0u);
}

TEST_F(DiskCacheTest, AStoredProgramCanBeExplainedByItsHash) {
  StoreAddOne();
  v1::ExplainRequest request;
  request.set_graph_hash(hash_);
  v1::ExplainResponse response;
  const absl::Status status = Call(*stubs_->debug, &v1::DebugService::Stub::Explain, request, response);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_GT(response.stages_size(), 3);
}

TEST_F(DiskCacheTest, AStoredProgramCanBeRecordedByItsHash) {
  StoreAddOne();
  v1::RecordSequenceRequest request;
  for (int i = 0; i < 3; ++i) request.add_programs()->set_graph_hash(hash_);
  v1::RecordSequenceResponse response;
  const auto record = [&] {
    return Call(*stubs_->kernel, &v1::KernelService::Stub::RecordSequence, request, response);
  };
  // A recording has steps; without them it is refused, but for that and not for a graph.
  const auto detail = DetailOf(record());
  EXPECT_TRUE(!detail.has_value() || detail->code() != v1::NEED_GRAPH) << detail->DebugString();
  EXPECT_EQ(Stats().disk().hits(), 1u);
  request.mutable_programs(1)->set_graph_hash(std::string(32, 'x'));
  request.mutable_programs(2)->set_graph_hash(std::string(32, 'y'));
  const absl::Status status = record();
  EXPECT_EQ(DetailOf(status)->code(), v1::NEED_GRAPH);
  EXPECT_NE(status.message().find("program 1"), absl::string_view::npos) << status;
}

TEST_F(DiskCacheTest, OtherOptionsAreAnotherProgram) {
  StoreAddOne();
  v1::ExecuteRequest request = ByHash();
  request.mutable_options()->set_strict(true);
  EXPECT_EQ(DetailOf(Execute(*stubs_, request).status())->code(), v1::NEED_GRAPH);
}

TEST_F(DiskCacheTest, AServerRunsNothingThatItWouldNotLetIn) {
  Restart(/*native=*/true);
  hash_ = Compile(*stubs_, GraphOf(kAddOne))->graph_hash();
  Restart(/*native=*/false);
  EXPECT_EQ(DetailOf(Execute(*stubs_, ByHash()).status())->code(), v1::NEED_GRAPH);
  Restart(/*native=*/true);
  ExpectTwos(Execute(*stubs_, ByHash()));
}

TEST_F(DiskCacheTest, ATornEntryIsCompiledAnew) {
  StoreAddOne();
  for (const auto& file : std::filesystem::directory_iterator(folder_)) {
    if (file.path().extension() == ".kiln") std::filesystem::resize_file(file.path(), file.file_size() / 2);
  }
  ExpectCompiledAnew();
}

TEST_F(DiskCacheTest, AnEntryForMoreThanThisMachineIsCompiledAnew) {
  StoreAddOne();
  ChangeEntry([](store::Entry& entry) { entry.header.mutable_target()->add_features("+kiln-none"); });
  ExpectCompiledAnew();
}

TEST_F(DiskCacheTest, AnEntryThatHidesWhatItNeedsIsCompiledAnew) {
  StoreAddOne();
  ChangeEntry([](store::Entry& entry) {
    v1::Executable executable;
    ASSERT_TRUE(executable.ParseFromString(entry.executable));
    executable.mutable_target()->add_features("+kiln-none");
    entry.executable = executable.SerializeAsString();
  });
  ExpectCompiledAnew();
}

TEST_F(DiskCacheTest, AnEntryWhosePlanLeavesItsBuffersIsCompiledAnew) {
  StoreAddOne();
  ChangeEntry([](store::Entry& entry) {
    v1::Executable executable;
    ASSERT_TRUE(executable.ParseFromString(entry.executable));
    executable.mutable_steps(0)->mutable_operands(0)->set_index(99);
    entry.executable = executable.SerializeAsString();
  });
  ExpectCompiledAnew();
}

TEST_F(DiskCacheTest, WhatIsUsedFromMemoryIsNotTheFirstToBeEvicted) {
  v1::ServerConfig config = server::DefaultConfig();
  config.set_program_cache_dir(folder_);
  config.set_program_cache_disk_bytes(100'000);  // some twenty programs
  Start(config);
  const auto entries = [&] {
    std::vector<std::filesystem::path> paths;
    for (const auto& file : std::filesystem::directory_iterator(folder_)) {
      if (file.path().extension() == ".kiln") paths.push_back(file.path());
    }
    return paths;
  };
  hash_ = Compile(*stubs_, GraphOf(kAddOne))->graph_hash();
  ASSERT_EQ(entries().size(), 1u);
  const std::filesystem::path used = entries().front();
  // As if it had been long ago.
  std::filesystem::last_write_time(used, std::filesystem::last_write_time(used) - std::chrono::hours(10));
  int compiled = 1;
  for (; compiled < 60; ++compiled) {
    ASSERT_TRUE(Compile(*stubs_, GraphOf(absl::StrCat(R"(
      0 CONST [] weakint 8
      1 PARAM : float32 [0] slot=0
      2 CONST [] float32 )",
                                                      compiled + 1, R"(.0
      3 ADD [1, 2]
      4 TUPLE [3]
    )")))
                    .ok());
    ExpectTwos(Execute(*stubs_, ByHash()));
  }
  EXPECT_LT(entries().size(), 40u) << "some were evicted";
  EXPECT_TRUE(std::filesystem::exists(used));
}

TEST_F(DiskCacheTest, AFolderThatOthersMayWriteStopsTheStart) {
  std::filesystem::permissions(folder_, std::filesystem::perms::all);
  v1::ServerConfig config = server::DefaultConfig();
  config.set_program_cache_dir(folder_);
  config.set_listen("127.0.0.1:0");
  EXPECT_EQ(StartStatus(config).code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(DiskCacheTest, WhatTenantsShareHiddenIsNotCompiledAgainAndNotSeen) {
  const std::string path = absl::StrCat(testing::TempDir(), "/sharing_tenants.txtpb");
  std::ofstream(path) << "cache_sharing: SHARE_HIDDEN\n" << TenantWith("a", "") << TenantWith("b", "");
  v1::ServerConfig config = server::DefaultConfig();
  config.set_program_cache_dir(folder_);
  config.set_tenants(path);
  Start(config);
  const auto first = Compile(*std::make_unique<Stubs>(address(), "secret of a"), GraphOf(kAddOne));
  ASSERT_TRUE(first.ok()) << first.status();
  hash_ = first->graph_hash();
  Start(config);
  const auto b = std::make_unique<Stubs>(address(), "secret of b");
  EXPECT_EQ(DetailOf(Execute(*b, ByHash()).status())->code(), v1::NEED_GRAPH);
  const auto second = Compile(*b, GraphOf(kAddOne));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_FALSE(second->from_cache());
  EXPECT_GE(second->compile_us(), first->compile_us() / 2);
  EXPECT_EQ(server_->engine().program_stats().compiles, 0u);
  ExpectTwos(Execute(*b, ByHash()));
  EXPECT_TRUE(Compile(*b, GraphOf(kAddOne))->from_cache());
}

}  // namespace
}  // namespace kiln::e2e
