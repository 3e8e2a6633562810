// DeviceService, health and reflection: what a client asks first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {
namespace {

using grpc::health::v1::HealthCheckResponse;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DeviceServiceTest : public ServerTest {};

TEST_F(DeviceServiceTest, ListsDevicesAndFeatures) {
  v1::ListDevicesResponse response;
  ASSERT_TRUE(Call(*stubs_->device, &v1::DeviceService::Stub::List, v1::ListDevicesRequest(), response).ok());
  ASSERT_EQ(response.devices_size(), 1);
  const v1::Device& device = response.devices(0);
  EXPECT_EQ(device.name(), "CPU:0");
  EXPECT_EQ(device.health(), v1::Device::HEALTHY);
  EXPECT_EQ(device.target().kind(), v1::Target::CPU);
  EXPECT_FALSE(device.target().triple().empty());
  EXPECT_FALSE(device.description().empty());
  EXPECT_GT(device.memory_total_bytes(), 0u);
  EXPECT_EQ(response.protocol_min(), 1u);
  EXPECT_EQ(response.protocol_max(), 1u);
  const std::set<std::string> features(response.features().begin(), response.features().end());
  EXPECT_EQ(features.size(), static_cast<size_t>(response.features_size()));
  for (const char* feature : {"sessions", "variables", "gradient", "source"}) EXPECT_EQ(features.count(feature), 1u);
  EXPECT_FALSE(response.server_version().empty());
}

TEST_F(DeviceServiceTest, SaysWhatIsAbsentAndWhy) {
  const auto absent = [&] {
    v1::ListDevicesResponse response;
    EXPECT_TRUE(Call(*stubs_->device, &v1::DeviceService::Stub::List, v1::ListDevicesRequest(), response).ok());
    std::vector<std::string> rows;
    for (const v1::AbsentDevices& row : response.absent()) rows.push_back(row.kind() + ": " + row.reason());
    return rows;
  };
  EXPECT_THAT(absent(), ElementsAre("CUDA: the server was started with --gpus=none",
                                    "HIP: the server was started with --gpus=none"));
  setenv("KILN_LIBCUDA", "/no/libcuda.so", 1);
  setenv("KILN_LIBAMDHIP64", "/no/libamdhip64.so", 1);
  v1::ServerConfig config = server::DefaultConfig();
  config.set_gpus("cuda");
  const absl::Status status = StartStatus(config);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("--gpus=cuda wants CUDA devices"), HasSubstr("/no/libcuda.so: cannot open shared object"),
                    HasSubstr("install NVIDIA's driver")));
  config.set_gpus("hip");
  EXPECT_THAT(std::string(StartStatus(config).message()), HasSubstr("install ROCm's HIP runtime"));
}

TEST_F(DeviceServiceTest, DescribeFollowsMemory) {
  const v1::Device before = FirstDevice(*stubs_);
  const uint64_t handle = *AllocateBytes(*stubs_, 1 << 20);
  const v1::Device during = FirstDevice(*stubs_);
  EXPECT_GE(during.memory_in_use_bytes(), before.memory_in_use_bytes() + (1 << 20));
  EXPECT_EQ(during.buffers(), before.buffers() + 1);
  ASSERT_TRUE(Free(*stubs_, {handle}).ok());
  EXPECT_EQ(FirstDevice(*stubs_).memory_in_use_bytes(), before.memory_in_use_bytes());
}

TEST_F(DeviceServiceTest, WatchTellsTheStateAndThenItsChanges) {
  const auto context = NewContext();
  const auto stream = stubs_->device->Watch(context.get(), v1::WatchDevicesRequest());
  v1::WatchDevicesResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.device().name(), "CPU:0");
  EXPECT_EQ(response.device().health(), v1::Device::HEALTHY);
  const uint64_t before = response.device().memory_in_use_bytes();
  const uint64_t handle = *AllocateBytes(*stubs_, 1 << 20);
  do {
    ASSERT_TRUE(stream->Read(&response));
  } while (response.device().memory_in_use_bytes() < before + (1 << 20));
  ASSERT_TRUE(Free(*stubs_, {handle}).ok());
  do {
    ASSERT_TRUE(stream->Read(&response));
  } while (response.device().memory_in_use_bytes() != before);
  context->TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(DeviceServiceTest, AStoppingServerEndsItsWatchers) {
  const auto context = NewContext();
  const auto stream = stubs_->device->Watch(context.get(), v1::WatchDevicesRequest());
  v1::WatchDevicesResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_TRUE(server_->Drain(absl::Seconds(60)));
  while (stream->Read(&response)) {
  }
  const absl::Status status = server::FromGrpc(stream->Finish());
  EXPECT_EQ(DetailOf(status)->code(), v1::SHUTTING_DOWN) << status;
}

TEST_F(DeviceServiceTest, WatchersAreCounted) {
  constexpr int kMaxWatches = 256;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::WatchDevicesResponse>>> streams;
  v1::WatchDevicesResponse response;
  for (int i = 0; i < kMaxWatches; ++i) {
    contexts.push_back(NewContext());
    streams.push_back(stubs_->device->Watch(contexts.back().get(), v1::WatchDevicesRequest()));
    ASSERT_TRUE(streams.back()->Read(&response)) << i;
  }
  const auto context = NewContext();
  const auto refused = stubs_->device->Watch(context.get(), v1::WatchDevicesRequest());
  EXPECT_FALSE(refused->Read(&response));
  const auto detail = DetailOf(server::FromGrpc(refused->Finish()));
  EXPECT_EQ(detail->code(), v1::OUT_OF_MEMORY);
  EXPECT_EQ(detail->limit(), "watchers");
  for (auto& watching : contexts) watching->TryCancel();
  for (auto& stream : streams) static_cast<void>(stream->Finish());
}

TEST_F(DeviceServiceTest, AnUnknownDeviceIsNotFound) {
  v1::DescribeDeviceRequest request;
  request.set_name("CPU:17");
  v1::DescribeDeviceResponse response;
  const absl::Status status = Call(*stubs_->device, &v1::DeviceService::Stub::Describe, request, response);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(DetailOf(status)->code(), v1::UNKNOWN_DEVICE);
}

TEST_F(DeviceServiceTest, HealthOfTheServerAndOfEachDevice) {
  EXPECT_EQ(Health(*stubs_), HealthCheckResponse::SERVING);
  EXPECT_EQ(Health(*stubs_, "CPU:0"), HealthCheckResponse::SERVING);
  EXPECT_EQ(Health(*stubs_, "CPU:17"), HealthCheckResponse::UNKNOWN);
}

// The reflection service answers a stream of its own; that it is there at all is
// seen from how a call without a message ends.
grpc::StatusCode ReflectionStatus(Stubs& stubs) {
  const auto context = NewContext();
  grpc::internal::RpcMethod method("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                                   grpc::internal::RpcMethod::BIDI_STREAMING);
  std::unique_ptr<grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> stream(
      grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(stubs.channel.get(), method,
                                                                                            context.get()));
  stream->WritesDone();
  return stream->Finish().error_code();
}

TEST_F(DeviceServiceTest, ReflectionCanBeSwitchedOff) {
  EXPECT_EQ(ReflectionStatus(*stubs_), grpc::StatusCode::OK);
  v1::ServerConfig config = server::DefaultConfig();
  config.set_no_reflection(true);
  Start(config);
  EXPECT_EQ(ReflectionStatus(*stubs_), grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace kiln::e2e
