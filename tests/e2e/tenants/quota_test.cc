// Quotas of what is held: memory, handles, sessions, streams. Each refusal names the quota, its limit
// and what the tenant would have had; another tenant goes on; what is given back counts no more.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "kiln/v1/debug_service.pb.h"
#include "tests/e2e/submit/submit_client.h"
#include "tests/e2e/tenants/quota_fixture.h"

namespace kiln::e2e {
namespace {

constexpr char kAddTwo[] = R"(
  0 CONST [] weakint 8
  1 PARAM : float32 [0] slot=0
  2 CONST [] float32 2.0
  3 ADD [1, 2]
  4 TUPLE [3]
)";
constexpr char kAddThree[] = R"(
  0 CONST [] weakint 8
  1 PARAM : float32 [0] slot=0
  2 CONST [] float32 3.0
  3 ADD [1, 2]
  4 TUPLE [3]
)";

// What a small program counts as.
uint64_t ProgramWeight() { return server::WeightOf(0, 1, server::DefaultConfig().program_cache_bytes()); }

absl::Status Map(Stubs& stubs, uint64_t bytes) {
  v1::MapSharedMemoryRequest request;
  request.set_bytes(bytes);
  v1::MapSharedMemoryResponse response;
  return Call(*stubs.buffer, &v1::BufferService::Stub::MapSharedMemory, request, response);
}

TEST_F(QuotaTest, DeviceBytesUntilTheLastUserIsGone) {
  StartWith("device_bytes: 1000");
  const std::string token = *Open(*a_);
  const uint64_t first = *AllocateUnder(*a_, token, 600);
  ExpectExceeded(AllocateUnder(*a_, token, 401).status(), Quota::kDeviceBytes, 1000, 1001);
  // By whatever connection, and without a session.
  ExpectExceeded(AllocateBytes(*a_, 401).status(), Quota::kDeviceBytes, 1000, 1001);
  EXPECT_TRUE(AllocateBytes(*b_, 1 << 20).ok());
  EXPECT_EQ(account().used(Quota::kDeviceBytes), 600u);

  // A view keeps the memory, and with it the charge.
  const auto context = NewContext();
  context->AddMetadata(server::kSessionHeader, token);
  v1::ViewRequest view;
  view.mutable_of()->set_handle(first);
  view.set_bytes(8);
  v1::ViewResponse viewed;
  ASSERT_TRUE(a_->buffer->View(context.get(), view, &viewed).ok());
  const auto again = NewContext();
  again->AddMetadata(server::kSessionHeader, token);
  v1::FreeRequest free;
  free.add_handle(first);
  v1::FreeResponse freed;
  ASSERT_TRUE(a_->buffer->Free(again.get(), free, &freed).ok());
  EXPECT_EQ(account().used(Quota::kDeviceBytes), 600u);
  EXPECT_TRUE(Close(*a_, token).ok());
  EXPECT_TRUE(AllReturns());
}

// Neither what a device says, nor when a watcher hears of it, nor why memory is refused tells what others do.
TEST_F(QuotaTest, ATenantSeesItsOwnShareOfTheDevices) {
  StartWith("device_bytes: 1048576");
  const auto shown = [](Stubs& stubs) {
    v1::Device device = FirstDevice(stubs);
    device.clear_queue_depth();  // of calls that were answered a moment ago
    return device;
  };
  const v1::Device before = shown(*a_);
  EXPECT_EQ(before.memory_total_bytes(), 1048576u);
  EXPECT_EQ(before.memory_in_use_bytes(), 0u);
  const auto context = NewContext(), others_context = NewContext();
  const auto watch = a_->device->Watch(context.get(), v1::WatchDevicesRequest());
  const auto others = b_->device->Watch(others_context.get(), v1::WatchDevicesRequest());
  v1::WatchDevicesResponse told, others_told;
  ASSERT_TRUE(watch->Read(&told));
  const uint64_t theirs = *AllocateBytes(*b_, 10 << 20);
  ASSERT_TRUE(Execute(*b_, AddOne(v1::RESULT_INLINE)).ok());
  do {
    ASSERT_TRUE(others->Read(&others_told));
  } while (others_told.device().memory_in_use_bytes() < (10 << 20));
  EXPECT_EQ(others_told.device().launches(), 0u);
  EXPECT_EQ(shown(*a_).SerializeAsString(), before.SerializeAsString());
  v1::DescribeDeviceRequest describe;
  describe.set_name(before.name());
  v1::DescribeDeviceResponse described;
  ASSERT_TRUE(Call(*a_->device, &v1::DeviceService::Stub::Describe, describe, described).ok());
  described.mutable_device()->clear_queue_depth();
  EXPECT_EQ(described.device().SerializeAsString(), before.SerializeAsString());
  // Of its own it hears; and of nothing else, so every message says something of its own that is new.
  const uint64_t mine = *AllocateBytes(*a_, 600);
  for (std::string last = told.device().SerializeAsString();
       told.device().memory_in_use_bytes() != 600 || told.device().buffers() != 1;) {
    ASSERT_TRUE(watch->Read(&told));
    EXPECT_NE(told.device().SerializeAsString(), last);
    last = told.device().SerializeAsString();
    EXPECT_EQ(told.device().launches() + told.device().memory_cached_bytes(), 0u);
  }
  EXPECT_TRUE(Eventually([&] { return shown(*b_).memory_in_use_bytes() == 10u << 20; }));
  const absl::Status refused = AllocateBytes(*b_, uint64_t{1} << 50).status();
  const auto detail = DetailOf(refused).value_or(v1::ErrorDetail());
  EXPECT_EQ(detail.code(), v1::OUT_OF_MEMORY) << refused;
  EXPECT_EQ(detail.used(), 0u) << refused;
  EXPECT_EQ(refused.message().find("in use"), absl::string_view::npos) << refused;
  for (grpc::ClientContext* watching : {context.get(), others_context.get()}) watching->TryCancel();
  static_cast<void>(watch->Finish());
  static_cast<void>(others->Finish());
  EXPECT_TRUE(Free(*a_, {mine}).ok());
  EXPECT_TRUE(Free(*b_, {theirs}).ok());
  EXPECT_TRUE(AllReturns());
}

TEST_F(QuotaTest, DeviceBytesOfRunsAndStreams) {
  StartWith("device_bytes: 90");
  // A tensor by value and its result, which stays.
  const auto response = Execute(*a_, AddOne(v1::RESULT_HANDLES));
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_TRUE(Eventually([this] { return account().used(Quota::kDeviceBytes) == 32; }));
  ExpectExceeded(Execute(*a_, AddOne(v1::RESULT_HANDLES)).status(), Quota::kDeviceBytes, 90, 96);
  EXPECT_TRUE(Execute(*b_, AddOne(v1::RESULT_HANDLES)).ok());
  EXPECT_TRUE(Eventually([this] { return account().used(Quota::kDeviceBytes) == 32; }));
  {
    SubmitClient stream(*a_);
    stream.Allocate(1, 59);
    ExpectExceeded(stream.Failure(), Quota::kDeviceBytes, 90, 91);
    stream.Allocate(2, 50);
    stream.Write(2, "abcd");
    EXPECT_EQ(stream.ReadBack(2).substr(0, 4), "abcd");
    EXPECT_EQ(account().used(Quota::kDeviceBytes), 82u);
  }
  EXPECT_TRUE(Free(*a_, {response->results(0).buffer().handle()}).ok());
  EXPECT_TRUE(AllReturns());
}

TEST_F(QuotaTest, HandlesOfAllSessionsAndNames) {
  StartWith("handles: 3");
  const std::string one = *Open(*a_), two = *Open(*a_);
  EXPECT_TRUE(AllocateUnder(*a_, one, 8).ok());
  EXPECT_TRUE(AllocateUnder(*a_, two, 8).ok());
  {
    SubmitClient stream(*a_);
    stream.Allocate(1, 8);
    stream.Allocate(2, 8);
    ExpectExceeded(stream.Failure(), Quota::kHandles, 3, 4);
    ExpectExceeded(AllocateUnder(*a_, two, 8).status(), Quota::kHandles, 3, 4);
  }
  EXPECT_TRUE(AllocateBytes(*b_, 8).ok());
  EXPECT_TRUE(Eventually([this] { return account().used(Quota::kHandles) == 2; }));
  EXPECT_TRUE(Close(*a_, one).ok());
  EXPECT_TRUE(Close(*a_, two).ok());
  EXPECT_TRUE(AllReturns());
}

TEST_F(QuotaTest, Sessions) {
  StartWith("sessions: 2");
  const std::string one = *Open(*a_), two = *Open(*a_);
  ExpectExceeded(Open(*a_).status(), Quota::kSessions, 2, 3);
  EXPECT_TRUE(Open(*b_).ok());
  EXPECT_TRUE(Close(*a_, one).ok());
  EXPECT_TRUE(Open(*a_).ok());
  server_->engine().sessions().EndAll();
  EXPECT_TRUE(AllReturns());
}

TEST_F(QuotaTest, Streams) {
  StartWith("streams: 1");
  {
    SubmitClient stream(*a_);
    stream.Fence();
    EXPECT_TRUE(stream.Next().has_value());
    SubmitClient second(*a_);
    ExpectExceeded(second.Finish(), Quota::kStreams, 1, 2);
    SubmitClient others(*b_);
    others.Fence();
    EXPECT_TRUE(others.Next().has_value());
    stream.WritesDone();
    EXPECT_TRUE(stream.Finish().ok());
  }
  EXPECT_TRUE(AllReturns());
}

TEST_F(QuotaTest, Watchers) {
  StartWith("watchers: 1");
  const auto context = NewContext();
  const auto stream = a_->device->Watch(context.get(), v1::WatchDevicesRequest());
  v1::WatchDevicesResponse response;
  ASSERT_TRUE(stream->Read(&response));
  const auto second = NewContext();
  const auto refused = a_->device->Watch(second.get(), v1::WatchDevicesRequest());
  EXPECT_FALSE(refused->Read(&response));
  ExpectExceeded(server::FromGrpc(refused->Finish()), Quota::kWatchers, 1, 2);
  const auto others = NewContext();
  const auto of_b = b_->device->Watch(others.get(), v1::WatchDevicesRequest());
  EXPECT_TRUE(of_b->Read(&response));
  others->TryCancel();
  EXPECT_FALSE(of_b->Finish().ok());
  context->TryCancel();
  EXPECT_FALSE(stream->Finish().ok());
  EXPECT_TRUE(AllReturns());
}

TEST_F(QuotaTest, SharedMemory) {
  StartWith("shared_memory_regions: 2 shared_memory_bytes: 100");
  ExpectExceeded(Map(*a_, 101), Quota::kRegionBytes, 100, 101);
  EXPECT_EQ(account().used(Quota::kRegions), 0u);
  EXPECT_TRUE(Map(*a_, 60).ok());
  EXPECT_TRUE(Map(*a_, 30).ok());
  ExpectExceeded(Map(*a_, 1), Quota::kRegions, 2, 3);
  EXPECT_TRUE(Map(*b_, 200).ok());
}

TEST_F(QuotaTest, ProgramsOfATenantOnDiskGiveWayToItsNewOnes) {
  const std::string folder = absl::StrCat(testing::TempDir(), "/quota_programs");
  std::filesystem::remove_all(folder);
  const auto on_disk = [&folder] {
    size_t count = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder)) count += file.path().extension() == ".kiln";
    return count;
  };
  StartWith("", folder);
  ASSERT_TRUE(Compile(*a_, GraphOf(kAddOne)).ok());
  const uint64_t each = account().used(Quota::kDiskBytes);
  ASSERT_GT(each, 1000u);
  EXPECT_EQ(on_disk(), 1u);
  // Another server finds out what there is when it adds to it.
  StartWith(absl::StrCat("disk_bytes: ", 2 * each + each / 2), folder);
  EXPECT_EQ(account().used(Quota::kDiskBytes), 0u);
  ASSERT_TRUE(Compile(*b_, GraphOf(kAddOne)).ok());
  ASSERT_TRUE(Compile(*a_, GraphOf(kAddOneInPlace)).ok());
  EXPECT_EQ(on_disk(), 3u);
  EXPECT_GT(account().used(Quota::kDiskBytes), each);
  // One that is too much: the oldest goes, and with it what makes the next look rare.
  ASSERT_TRUE(Compile(*a_, GraphOf(kAddTwo)).ok());
  EXPECT_LE(account().used(Quota::kDiskBytes), 2 * each + each / 2);
  EXPECT_LE(on_disk(), 3u);
  EXPECT_GE(on_disk(), 2u) << "b's is not a's to remove";
  // One larger than the quota is compiled, and kept in memory alone.
  WriteTenants("disk_bytes: 100");
  ASSERT_TRUE(server_->Reload().ok());
  const size_t before = on_disk();
  EXPECT_TRUE(Compile(*a_, GraphOf(kAddThree)).ok());
  EXPECT_EQ(on_disk(), before);
  server_.reset();
  std::filesystem::remove_all(folder);
}

TEST_F(QuotaTest, ProgramsAreRefusedOnlyWhenNothingCanGiveWay) {
  StartWith("program_bytes: 1000");
  ExpectExceeded(Compile(*a_, GraphOf(kAddOne)).status(), Quota::kProgramBytes, 1000, ProgramWeight());
  EXPECT_TRUE(Compile(*b_, GraphOf(kAddOne)).ok());
  WriteTenants(absl::StrCat("program_bytes: ", ProgramWeight()));
  ASSERT_TRUE(server_->Reload().ok());
  for (const char* graph : {kAddOne, kAddTwo, kAddThree}) {
    EXPECT_TRUE(Eventually([&] { return Compile(*a_, GraphOf(graph)).ok(); })) << graph;
    EXPECT_EQ(account().used(Quota::kProgramBytes), ProgramWeight());
  }
  v1::ListProgramsResponse list;
  ASSERT_TRUE(Call(*a_->debug, &v1::DebugService::Stub::ListPrograms, v1::ListProgramsRequest(), list).ok());
  EXPECT_EQ(list.programs_size(), 1);
}

TEST_F(QuotaTest, ALimitThatChangesTakesNothingAway) {
  StartWith("device_bytes: 1000");
  const uint64_t handle = *AllocateBytes(*a_, 600);
  WriteTenants("device_bytes: 500");
  ASSERT_TRUE(server_->Reload().ok());
  EXPECT_EQ(account().used(Quota::kDeviceBytes), 600u);
  ExpectExceeded(AllocateBytes(*a_, 1).status(), Quota::kDeviceBytes, 500, 601);
  EXPECT_TRUE(Upload(*a_, handle, std::string(600, 'x')).ok());
  WriteTenants("");
  ASSERT_TRUE(server_->Reload().ok());
  const uint64_t large = *AllocateBytes(*a_, 1 << 20);
  EXPECT_TRUE(Free(*a_, {handle, large}).ok());
  EXPECT_TRUE(AllReturns());
}

TEST_F(QuotaTest, SixtyFourThreadsRaceForOneQuota) {
  StartWith("device_bytes: 10000");
  std::vector<std::thread> threads;
  std::atomic<int> made{0}, refused{0};
  for (int i = 0; i < 64; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 4; ++round) {
        const auto handle = AllocateBytes(*a_, 1000);
        EXPECT_LE(account().used(Quota::kDeviceBytes), 10'000u);
        if (!handle.ok()) {
          EXPECT_EQ(DetailOf(handle.status())->code(), v1::QUOTA_EXCEEDED) << handle.status();
          ++refused;
          continue;
        }
        ++made;
        if (i % 2 == 0) {
          EXPECT_TRUE(Free(*a_, {*handle}).ok());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made + refused, 256);
  EXPECT_GE(refused, 1);
  EXPECT_EQ(account().used(Quota::kDeviceBytes), account().used(Quota::kHandles) * 1000);
  server_->engine().sessions().EndAll();
  EXPECT_TRUE(AllReturns());
}

}  // namespace
}  // namespace kiln::e2e
