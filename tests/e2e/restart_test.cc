// kilnd killed while it compiles and started again, several on one folder, and a disk
// that is full.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/store/disk_store.h"
#include "base/store/faulty_folder.h"
#include "kiln/v1/debug_service.pb.h"
#include "tests/e2e/kilnd_process.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {
namespace {

constexpr int kClients = 4;

// y = x + number, for float32 [8] in slot 0.
v1::Graph GraphNumber(int number) {
  return GraphOf(absl::StrCat(R"(
    0 CONST [] weakint 8
    1 PARAM : float32 [0] slot=0
    2 CONST [] float32 )",
                              number, R"(.0
    3 ADD [1, 2]
    4 TUPLE [3]
  )"));
}

class RestartTest : public ::testing::Test {
 protected:
  ~RestartTest() override {
    if (mounted_) umount(cache_.c_str());
    std::filesystem::remove_all(folder_);
  }

  // A server on the folder.
  struct Server {
    ServingKilnd serving;
    std::unique_ptr<Stubs> stubs;
  };
  Server Start(std::vector<std::string> flags = {}) {
    flags.push_back("--program_cache_dir=" + cache_);
    flags.push_back("--compile_threads=2");
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    Server server;
    server.serving = Serve(flags, absl::StrCat(::testing::TempDir(), "/", info->name(), ".", started_++));
    server.stubs = std::make_unique<Stubs>(server.serving.address);
    return server;
  }

  static v1::ListProgramsResponse Stats(Stubs& stubs) {
    v1::ListProgramsResponse response;
    EXPECT_TRUE(Call(*stubs.debug, &v1::DebugService::Stub::ListPrograms, v1::ListProgramsRequest(), response).ok());
    return response;
  }

  // Runs the program of a hash, whose graph the server is not told.
  static void ExpectAdds(Stubs& stubs, const std::string& hash, int number) {
    v1::ExecuteRequest request;
    request.set_graph_hash(hash);
    request.set_result_mode(v1::RESULT_INLINE);
    AddFloats(request, 0, std::vector<float>(8, 1.0f));
    const auto response = Execute(stubs, request);
    ASSERT_TRUE(response.ok()) << number << ": " << response.status();
    EXPECT_EQ(FloatsOf(response->results(0).tensor().data()), std::vector<float>(8, 1.0f + static_cast<float>(number)));
  }

  // Every entry of the folder is whole.
  void ExpectNothingTorn() {
    const auto disk = store::DiskStore::Open(cache_, {});
    ASSERT_TRUE(disk.ok()) << disk.status();
    const auto entries = (*disk)->List();
    for (const store::ListedEntry& entry : *entries) {
      const auto read = (*disk)->Read(entry.file.name);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_TRUE(store::CheckContents(*read).ok()) << store::CheckContents(*read);
    }
  }

  const std::string folder_ = store::testing::NewFolder();
  std::string cache_ = folder_ + "/cache";
  int started_ = 0;
  bool mounted_ = false;
};

TEST_F(RestartTest, WhatHadBeenAnsweredIsThereAfterAKill) {
  int programs = 60;
  if (const char* asked = std::getenv("KILN_RESTART_PROGRAMS")) {
    ASSERT_TRUE(absl::SimpleAtoi(asked, &programs));
  }
  std::vector<std::string> hashes(programs);  // of those that were answered
  int answered_before = 0;
  for (const int kill_at : {1, programs / 5, programs / 2, programs - 5}) {
    SCOPED_TRACE(kill_at);
    const Server server = Start();
    // All that is known already comes from the disk, by hash alone.
    for (int i = 0; i < programs; ++i) {
      if (!hashes[i].empty()) ExpectAdds(*server.stubs, hashes[i], i);
    }
    const v1::ListProgramsResponse stats = Stats(*server.stubs);
    EXPECT_EQ(stats.compiles(), 0u);
    EXPECT_EQ(stats.disk().hits(), static_cast<uint64_t>(answered_before));
    EXPECT_EQ(stats.disk().rejects(), 0u);
    EXPECT_EQ(stats.disk().store_failures(), 0u);

    std::atomic<int> next{0}, answered{answered_before};
    std::vector<std::thread> clients;
    for (int c = 0; c < kClients; ++c) {
      clients.emplace_back([&] {
        Stubs stubs(server.serving.address);
        for (int i = next++; i < programs; i = next++) {
          if (!hashes[i].empty()) continue;
          const auto compiled = Compile(stubs, GraphNumber(i));
          if (!compiled.ok()) return;  // it is dead
          hashes[i] = compiled->graph_hash();
          if (++answered == kill_at) server.serving.process->Signal(SIGKILL);
        }
      });
    }
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(server.serving.process->Wait(), -1);
    answered_before = static_cast<int>(programs - std::count(hashes.begin(), hashes.end(), ""));
    EXPECT_GE(answered_before, kill_at);
    ExpectNothingTorn();
  }
  // What had been begun but not answered may be there as well; the rest is compiled.
  const Server server = Start();
  for (int i = 0; i < programs; ++i) {
    const auto compiled = Compile(*server.stubs, GraphNumber(i));
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    if (!hashes[i].empty()) {
      EXPECT_TRUE(compiled->from_cache()) << i;
    }
    ExpectAdds(*server.stubs, compiled->graph_hash(), i);
  }
  const v1::ListProgramsResponse stats = Stats(*server.stubs);
  EXPECT_EQ(stats.compiles() + stats.disk().hits(), static_cast<uint64_t>(programs));
  EXPECT_LE(stats.compiles(), static_cast<uint64_t>(programs - answered_before));
  EXPECT_EQ(stats.disk().rejects(), 0u);
}

TEST_F(RestartTest, TwoServersOnOneFolderCompileNothingTwice) {
  constexpr int kPrograms = 40;
  const Server servers[] = {Start(), Start()};
  std::atomic<int> wrong{0};
  std::vector<std::thread> clients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&, c] {
      Stubs stubs(servers[c % 2].serving.address);
      for (int i = 0; i < kPrograms; ++i) wrong += !Compile(stubs, GraphNumber(i)).ok();
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
  const v1::ListProgramsResponse one = Stats(*servers[0].stubs), other = Stats(*servers[1].stubs);
  EXPECT_EQ(one.compiles() + other.compiles(), static_cast<uint64_t>(kPrograms));
  EXPECT_EQ(one.disk().hits() + other.disk().hits(), static_cast<uint64_t>(kPrograms));
  EXPECT_EQ(one.programs_size(), kPrograms);
  EXPECT_EQ(other.programs_size(), kPrograms);
}

TEST_F(RestartTest, AStuckServerDelaysNoOther) {
  const Server stuck = Start();
  // It answers once, so that it is all there; then it stops in the middle of anything.
  ASSERT_TRUE(Compile(*stuck.stubs, GraphNumber(0)).ok());
  stuck.serving.process->Signal(SIGSTOP);
  const Server other = Start();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Compile(*other.stubs, GraphNumber(i)).ok());
  EXPECT_EQ(Stats(*other.stubs).compiles(), 4u);
  stuck.serving.process->Signal(SIGCONT);
}

TEST_F(RestartTest, AFullDiskCostsSpeedAndNothingElse) {
  std::filesystem::create_directory(cache_);
  mounted_ = mount("tmpfs", cache_.c_str(), "tmpfs", 0, "size=128k,mode=0700") == 0;
  if (!mounted_) {
    GTEST_SKIP() << "no small file system can be mounted here: " << std::strerror(errno);
  }
  constexpr int kPrograms = 40;
  std::vector<std::string> hashes;
  uint64_t stored = 0;
  {
    const Server server = Start();
    for (int i = 0; i < kPrograms; ++i) {
      const auto compiled = Compile(*server.stubs, GraphNumber(i));
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      hashes.push_back(compiled->graph_hash());
      ExpectAdds(*server.stubs, hashes.back(), i);
    }
    const v1::ListProgramsResponse stats = Stats(*server.stubs);
    stored = stats.disk().stores();
    EXPECT_EQ(stats.disk().store_failures() + stored, static_cast<uint64_t>(kPrograms));
    EXPECT_GT(stats.disk().store_failures(), 0u);
    EXPECT_GT(stored, 0u);
    server.serving.process->Signal(SIGKILL);
    server.serving.process->Wait();
  }
  {
    const Server server = Start();
    for (int i = 0; i < kPrograms; ++i) {
      ASSERT_TRUE(Compile(*server.stubs, GraphNumber(i)).ok());
      ExpectAdds(*server.stubs, hashes[i], i);
    }
    const v1::ListProgramsResponse stats = Stats(*server.stubs);
    EXPECT_EQ(stats.disk().hits(), stored);
    EXPECT_EQ(stats.compiles(), kPrograms - stored);
    EXPECT_EQ(stats.disk().rejects(), 0u);
  }
  ExpectNothingTorn();
}

}  // namespace
}  // namespace kiln::e2e
