// DebugService.Evict and Time.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "kiln/v1/debug_service.pb.h"
#include "tests/e2e/long_run.h"
#include "tests/e2e/tenants/quota_fixture.h"

namespace kiln::e2e {
namespace {

class EvictTest : public QuotaTest {
 protected:
  EvictTest() { std::filesystem::remove_all(folder_); }

  static absl::StatusOr<v1::EvictResponse> Evict(Stubs& stubs, const std::string& hash) {
    v1::EvictRequest request;
    request.set_graph_hash(hash);
    v1::EvictResponse response;
    KILN_RETURN_IF_ERROR(Call(*stubs.debug, &v1::DebugService::Stub::Evict, request, response));
    return response;
  }
  static absl::StatusOr<v1::TimeResponse> Time(Stubs& stubs, const v1::ExecuteRequest& execute, uint32_t repeat) {
    v1::TimeRequest request;
    *request.mutable_execute() = execute;
    request.set_repeat(repeat);
    v1::TimeResponse response;
    KILN_RETURN_IF_ERROR(Call(*stubs.debug, &v1::DebugService::Stub::Time, request, response));
    return response;
  }
  static v1::ErrorDetail DetailIn(const absl::Status& status) { return DetailOf(status).value_or(v1::ErrorDetail()); }

  const std::string folder_ = absl::StrCat(testing::TempDir(), "/evicted_programs");
};

TEST_F(EvictTest, TakesAProgramFromMemoryAndDisk) {
  v1::ServerConfig config = server::DefaultConfig();
  config.set_program_cache_dir(folder_);
  Start(config);
  const auto compiled = Compile(*stubs_, GraphOf(kAddOne));
  ASSERT_TRUE(compiled.ok());
  ASSERT_TRUE(Compile(*stubs_, GraphOf(kAddOneInPlace)).ok());
  const auto evicted = Evict(*stubs_, compiled->graph_hash());
  ASSERT_TRUE(evicted.ok()) << evicted.status();
  EXPECT_EQ(evicted->programs(), 1u);
  EXPECT_EQ(evicted->entries(), 1u);

  v1::ExecuteRequest by_hash;
  by_hash.set_graph_hash(compiled->graph_hash());
  AddFloats(by_hash, 0, std::vector<float>(8));
  EXPECT_EQ(DetailIn(Execute(*stubs_, by_hash).status()).code(), v1::NEED_GRAPH);
  EXPECT_EQ(DetailIn(Evict(*stubs_, compiled->graph_hash()).status()).code(), v1::NEED_GRAPH);
  const auto again = Compile(*stubs_, GraphOf(kAddOne));
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->from_cache());
  // The other one is where it was.
  const auto other = Compile(*stubs_, GraphOf(kAddOneInPlace));
  ASSERT_TRUE(other.ok());
  EXPECT_TRUE(other->from_cache());
}

TEST_F(EvictTest, WhatIsNoHashIsRefused) {
  Start(server::DefaultConfig());
  for (const size_t bytes : {0, 31, 33, 3000}) {
    const absl::Status status = Evict(*stubs_, std::string(bytes, 'x')).status();
    EXPECT_EQ(DetailIn(status).code(), v1::BAD_ARGUMENT) << status;
    EXPECT_EQ(DetailIn(status).field(), "graph_hash") << status;
  }
  EXPECT_EQ(DetailIn(Evict(*stubs_, std::string(32, 'x')).status()).code(), v1::NEED_GRAPH);
}

TEST_F(EvictTest, AnotherTenantsProgramDoesNotExist) {
  StartWith("", folder_);
  const auto of_a = Compile(*a_, GraphOf(kAddOne)), of_b = Compile(*b_, GraphOf(kAddOneInPlace));
  ASSERT_TRUE(of_a.ok() && of_b.ok());
  EXPECT_EQ(DetailIn(Evict(*b_, of_a->graph_hash()).status()).code(), v1::NEED_GRAPH);
  const auto again = Compile(*a_, GraphOf(kAddOne));
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->from_cache());
  // Of the same graph, each has its own.
  ASSERT_TRUE(Compile(*b_, GraphOf(kAddOne)).ok());
  const auto evicted = Evict(*b_, of_a->graph_hash());
  ASSERT_TRUE(evicted.ok()) << evicted.status();
  EXPECT_EQ(evicted->programs(), 1u);
  EXPECT_EQ(evicted->entries(), 1u);
  const auto still = Compile(*a_, GraphOf(kAddOne));
  ASSERT_TRUE(still.ok());
  EXPECT_TRUE(still->from_cache());
}

TEST_F(EvictTest, ADeadlineThatHasPassedEvictsNothing) {
  Start(server::DefaultConfig());
  const auto compiled = Compile(*stubs_, GraphOf(kAddOne));
  ASSERT_TRUE(compiled.ok());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() - std::chrono::seconds(1));
  v1::EvictRequest request;
  request.set_graph_hash(compiled->graph_hash());
  v1::EvictResponse response;
  EXPECT_EQ(stubs_->debug->Evict(&context, request, &response).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  const auto again = Compile(*stubs_, GraphOf(kAddOne));
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->from_cache());
}

TEST_F(EvictTest, TimesRunsAndKeepsNothing) {
  Start(server::DefaultConfig());
  const uint64_t before = FirstDevice(*stubs_).memory_in_use_bytes();
  const auto timed = Time(*stubs_, AddOne(v1::RESULT_INLINE), 7);
  ASSERT_TRUE(timed.ok()) << timed.status();
  ASSERT_EQ(timed->seconds_size(), 7);
  for (const double seconds : timed->seconds()) EXPECT_GT(seconds, 0);
  EXPECT_TRUE(MemoryReturnsTo(*stubs_, before));
  EXPECT_EQ(server_->engine().buffers().table().size(), 0u);
  EXPECT_EQ(Time(*stubs_, AddOne(v1::RESULT_HANDLES), 0)->seconds_size(), 10);
}

TEST_F(EvictTest, WhatIsTimedChangesMemoryEachTime) {
  Start(server::DefaultConfig());
  const auto handle = AllocateFloats(*stubs_, 8);
  ASSERT_TRUE(handle.ok());
  ASSERT_TRUE(Upload(*stubs_, *handle, BytesOf(std::vector<float>(8, 1))).ok());
  v1::ExecuteRequest request;
  *request.mutable_graph() = GraphOf(kAddOneInPlace);
  AddBuffer(request, 0, *handle);
  const auto timed = Time(*stubs_, request, 5);
  ASSERT_TRUE(timed.ok()) << timed.status();
  const auto bytes = Download(*stubs_, *handle);  // the client's buffer is still there
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(FloatsOf(*bytes), std::vector<float>(8, 6));
}

TEST_F(EvictTest, WhatCannotBeTimedIsRefused) {
  Start(server::DefaultConfig());
  const absl::Status many = Time(*stubs_, AddOne(v1::RESULT_INLINE), 1001).status();
  EXPECT_EQ(DetailIn(many).code(), v1::BAD_ARGUMENT) << many;
  EXPECT_EQ(DetailIn(many).field(), "repeat") << many;
  v1::ExecuteRequest missing;
  *missing.mutable_graph() = GraphOf(kAddOne);
  EXPECT_EQ(DetailIn(Time(*stubs_, missing, 1).status()).code(), v1::MISSING_ARGUMENT);
  v1::ExecuteRequest unknown;
  unknown.set_graph_hash(std::string(32, 'x'));
  EXPECT_EQ(DetailIn(Time(*stubs_, unknown, 1).status()).code(), v1::NEED_GRAPH);
}

// A run takes seconds, so that a hundred of them end with the deadline, wherever they are then.
TEST_F(EvictTest, TheDeadlineEndsATiming) {
  Start(server::DefaultConfig());
  v1::TimeRequest request;
  *request.mutable_execute()->mutable_graph() = Sines();
  const auto handle = AllocateFloats(*stubs_, kLongElements);
  ASSERT_TRUE(handle.ok());
  AddBuffer(*request.mutable_execute(), 0, *handle);
  request.set_repeat(1000);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(3));
  v1::TimeResponse response;
  EXPECT_EQ(stubs_->debug->Time(&context, request, &response).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  // The device is free for the next.
  EXPECT_TRUE(Execute(*stubs_, AddOne(v1::RESULT_INLINE)).ok());
}

}  // namespace
}  // namespace kiln::e2e
