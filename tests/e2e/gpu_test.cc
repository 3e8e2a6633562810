// A server with GPUs that are not there: a client's programs and buffers on CUDA:0, and what it
// hears when one is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "kiln/v1/collective_service.grpc.pb.h"
#include "kiln/v1/debug_service.pb.h"
#include "tests/e2e/server_fixture.h"
#include "tests/support/fake_gpu/fake_control.h"

namespace kiln::e2e {
namespace {

using grpc::health::v1::HealthCheckResponse;
using ::testing::HasSubstr;

class GpuTest : public ServerTest {
 protected:
  void SetUp() override {
    StartWith([](v1::ServerConfig&) {});
  }
  void StartWith(void (*change)(v1::ServerConfig& config)) {
    fake_("set devices 2");
    setenv("KILN_LIBCUDA", fake_.path().c_str(), 1);
    setenv("KILN_LIBNCCL", fake_.path().c_str(), 1);
    v1::ServerConfig config = server::DefaultConfig();
    config.set_gpus("cuda");
    config.set_gpu_memory_percent(50);
    change(config);
    Start(config);
  }
  void TearDown() override {
    stubs_.reset();
    server_.reset();
    EXPECT_EQ(fake_("live"),
              "memory 0, pinned 0, streams 0, events 0, graphs 0, modules 0, contexts 0, communicators 0");
  }

  absl::StatusOr<std::vector<float>> AddOneOn(const std::string& device) {
    v1::ExecuteRequest request;
    *request.mutable_graph() = GraphOf(kAddOne);
    request.set_device(device);
    request.set_result_mode(v1::RESULT_INLINE);
    AddFloats(request, 0, {1, 2, 3, 4, 5, 6, 7, 8});
    KILN_ASSIGN_OR_RETURN(const v1::ExecuteResponse response, Execute(*stubs_, request));
    return FloatsOf(response.results(0).tensor().data());
  }
  absl::StatusOr<uint64_t> AllocateOn(const std::string& device, uint64_t bytes) {
    v1::AllocateRequest request;
    request.set_device(device);
    request.set_bytes(bytes);
    KILN_ASSIGN_OR_RETURN(const v1::BufferDescription buffer, Allocate(*stubs_, request));
    return buffer.handle();
  }

  // How many schedules with work items a search has tried, all of which ran.
  int SchedulesWithItems(const std::string& device) {
    v1::TuneRequest request;
    *request.mutable_graph() = GraphOf(kAddOne);
    request.set_device(device);
    request.mutable_options()->set_beam(2);
    request.mutable_options()->set_beam_budget_ms(20000);
    const auto context = NewContext();
    const auto stream = stubs_->debug->Tune(context.get(), request);
    v1::TuneResponse response;
    int with_items = 0;
    while (stream->Read(&response) && !response.has_done()) {
      const v1::TuneResponse::Candidate& candidate = response.candidate();
      EXPECT_EQ(candidate.fault(), "") << candidate.schedule();
      EXPECT_GT(candidate.micros(), 0) << candidate.schedule();
      with_items += absl::StrContains(candidate.schedule(), "LOCAL") ? 1 : 0;
    }
    EXPECT_TRUE(response.has_done());
    EXPECT_TRUE(stream->Finish().ok());
    return with_items;
  }

  // Returns once health checks say so; they hear of what happens to a device a little later.
  void AwaitHealth(const std::string& service, HealthCheckResponse::ServingStatus wanted) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    const auto stream = stubs_->health->Watch(&context, request);
    HealthCheckResponse response;
    while (stream->Read(&response)) {
      if (response.status() == wanted) return context.TryCancel();
    }
    ADD_FAILURE() << service << " ended as " << HealthCheckResponse::ServingStatus_Name(response.status());
  }

  testing::Fake fake_{"fake_cuda/libfake_cuda.so"};
  const std::vector<float> kMore = {2, 3, 4, 5, 6, 7, 8, 9};
};

TEST_F(GpuTest, AreListedBehindTheCpu) {
  v1::ListDevicesResponse response;
  ASSERT_TRUE(Call(*stubs_->device, &v1::DeviceService::Stub::List, v1::ListDevicesRequest(), response).ok());
  ASSERT_EQ(response.devices_size(), 3);
  EXPECT_EQ(response.devices(0).name(), "CPU:0");
  EXPECT_EQ(response.devices(1).name(), "CUDA:0");
  EXPECT_EQ(response.devices(2).name(), "CUDA:1");
  EXPECT_EQ(response.devices(0).peers_size(), 0);
  ASSERT_EQ(response.devices(1).peers_size(), 1);
  EXPECT_EQ(response.devices(1).peers(0), "CUDA:1");
  EXPECT_EQ(response.devices(1).target().arch(), "sm_90a");
  EXPECT_EQ(response.devices(1).description(), "Fake card, CUDA 13.0, NCCL 2.28.9");
  EXPECT_EQ(response.devices(1).memory_total_bytes(), (64u << 20) / 100 * 50);
  ASSERT_EQ(response.absent_size(), 1);
  EXPECT_EQ(response.absent(0).kind(), "HIP");
}

TEST_F(GpuTest, KeepBuffersThatGoAnywhere) {
  const auto there = AllocateOn("CUDA:0", 3 << 20), other = AllocateOn("CUDA:1", 3 << 20);
  ASSERT_TRUE(there.ok() && other.ok()) << there.status() << other.status();
  EXPECT_EQ(*Download(*stubs_, *there), std::string(3 << 20, '\0'));
  std::string text(3 << 20, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31);
  ASSERT_TRUE(Upload(*stubs_, *there, text).ok());
  EXPECT_TRUE(*Download(*stubs_, *there) == text);
  v1::CopyRequest request;
  request.mutable_from()->set_handle(*there);
  request.mutable_to()->set_handle(*other);
  request.set_bytes(text.size());
  v1::CopyResponse response;
  ASSERT_TRUE(Call(*stubs_->buffer, &v1::BufferService::Stub::Copy, request, response).ok());
  EXPECT_TRUE(*Download(*stubs_, *other) == text);
  const absl::Status full = AllocateOn("CUDA:0", 64 << 20).status();
  EXPECT_EQ(DetailOf(full)->code(), v1::OUT_OF_MEMORY);
  EXPECT_THAT(std::string(full.message()), HasSubstr("CUDA:0"));
  ASSERT_TRUE(Free(*stubs_, {*there, *other}).ok());
}

TEST_F(GpuTest, RunPrograms) {
  EXPECT_EQ(*AddOneOn("CUDA:0"), kMore);
  EXPECT_EQ(*AddOneOn("CUDA:1"), kMore);
  EXPECT_EQ(*AddOneOn("CPU:0"), kMore);
  EXPECT_EQ(fake_.Calls("cuLaunchKernel").size(), 2u);
}

// In the order of the ranks, which the vendor's library does not promise.
TEST_F(GpuTest, AddUpByKernelsOfTheirOwn) {
  v1::CollectiveRequest request;
  for (const char* device : {"CUDA:0", "CUDA:1"}) {
    const auto buffer = AllocateOn(device, 4 * 1001);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    std::vector<float> values(1001);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * (device[5] == '0' ? 1 : 0.5f);
    ASSERT_TRUE(Upload(*stubs_, *buffer, BytesOf(values)).ok());
    request.add_input()->set_handle(*buffer);
    request.add_output()->set_handle(*buffer);
  }
  request.set_dtype(v1::FLOAT32);
  request.set_count(1001);
  request.set_op(v1::ADD);
  request.set_deterministic_order(true);
  const auto service = v1::CollectiveService::NewStub(stubs_->channel);
  v1::CollectiveResponse response;
  ASSERT_TRUE(Call(*service, &v1::CollectiveService::Stub::AllReduce, request, response).ok());
  EXPECT_EQ(response.algorithm(), "by_peers");
  for (const v1::BufferRef& output : request.output()) {
    const std::vector<float> sums = FloatsOf(*Download(*stubs_, output.handle()));
    ASSERT_EQ(sums.size(), 1001u);
    for (size_t i = 0; i < sums.size(); ++i) EXPECT_EQ(sums[i], static_cast<float>(i) * 1.5f);
  }
}

TEST_F(GpuTest, AreSearchedForSchedules) {
  EXPECT_GT(SchedulesWithItems("CUDA:0"), 1);
  EXPECT_EQ(*AddOneOn("CUDA:0"), kMore);
}

// In the place of NVIDIA's assembler, one whose machine code is PTX again: a constant is another one in it.
class AssembledGpuTest : public GpuTest {
 protected:
  static std::string Assembler() { return ::testing::TempDir() + "/ptxas_of_this_test"; }
  void SetUp() override {
    std::ofstream(Assembler()) << "#!/bin/sh\nsed s/0f3F800000/0f40000000/ \"$2\" > \"$4\"\n";
    std::filesystem::permissions(Assembler(), std::filesystem::perms::owner_all);
    StartWith([](v1::ServerConfig& config) { config.set_ptxas(Assembler()); });
  }
};

TEST_F(AssembledGpuTest, RunWhatTheAssemblerMade) {
  const std::vector<float> two_more = {3, 4, 5, 6, 7, 8, 9, 10};
  EXPECT_EQ(*AddOneOn("CUDA:0"), two_more);
  EXPECT_EQ(*AddOneOn("CPU:0"), kMore);
}

// The same with AMD's, whose fake runs what the server's dumps say.
class HipTest : public GpuTest {
 protected:
  void SetUp() override {
    const std::string nodes = ::testing::TempDir() + "/nodes", dump = ::testing::TempDir() + "/dump";
    std::filesystem::create_directories(nodes + "/0");
    std::filesystem::create_directories(dump);
    std::ofstream(nodes + "/0/properties") << "simd_count 1216\nsimd_per_cu 4\nwave_front_size 64\nlds_size_in_kb 64\n"
                                              "gfx_target_version 90402\nlocation_id 256\ndomain 0\n";
    hip_("ir " + dump);
    setenv("KILN_LIBAMDHIP64", hip_.path().c_str(), 1);
    setenv("KILN_LIBRCCL", hip_.path().c_str(), 1);
    setenv("KILN_KFD_NODES", nodes.c_str(), 1);
    v1::ServerConfig config = server::DefaultConfig();
    config.set_gpus("hip");
    config.set_dump(dump);
    Start(config);
  }
  void TearDown() override {
    for (const char* name : {"KILN_LIBAMDHIP64", "KILN_LIBRCCL", "KILN_KFD_NODES"}) unsetenv(name);
    GpuTest::TearDown();
    EXPECT_EQ(hip_("live"),
              "memory 0, pinned 0, streams 0, events 0, graphs 0, modules 0, contexts 0, communicators 0");
  }

  testing::Fake hip_{"fake_hip/libfake_hip.so"};
};

TEST_F(HipTest, RunPrograms) {
  EXPECT_EQ(*AddOneOn("HIP:0"), kMore);
  EXPECT_EQ(hip_.Calls("hipModuleLaunchKernel").size(), 1u);
  EXPECT_EQ(*AddOneOn("HIP:0"), kMore);
}

TEST_F(HipTest, AreSearchedForSchedules) {
  EXPECT_GT(SchedulesWithItems("HIP:0"), 1);
  EXPECT_EQ(*AddOneOn("HIP:0"), kMore);
}

TEST_F(GpuTest, ALostOneIsNamedAndTheOthersGoOn) {
  fake_("fail cuLaunchKernel 1 719");
  for (int iteration = 0; iteration < 2; ++iteration) {
    const absl::Status status = AddOneOn("CUDA:0").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_EQ(DetailOf(status)->code(), v1::PARTICIPANT_MISSING);
    EXPECT_EQ(DetailOf(status)->field(), "CUDA:0");
    EXPECT_THAT(std::string(status.message()), HasSubstr("CUDA_ERROR_LAUNCH_FAILED (unspecified launch failure)"));
  }
  EXPECT_EQ(*AddOneOn("CUDA:1"), kMore);
  EXPECT_EQ(*AddOneOn("CPU:0"), kMore);
  v1::ListDevicesResponse response;
  ASSERT_TRUE(Call(*stubs_->device, &v1::DeviceService::Stub::List, v1::ListDevicesRequest(), response).ok());
  EXPECT_EQ(response.devices(1).health(), v1::Device::UNHEALTHY);
  EXPECT_EQ(response.devices(2).health(), v1::Device::HEALTHY);
  AwaitHealth("CUDA:0", HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Health(*stubs_, "CUDA:1"), HealthCheckResponse::SERVING);
  EXPECT_EQ(Health(*stubs_), HealthCheckResponse::SERVING);
  fake_("forget 0");
}

}  // namespace
}  // namespace kiln::e2e
