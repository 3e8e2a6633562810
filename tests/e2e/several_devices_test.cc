// Several CPU devices on one machine: each with its own memory and queue, sharing
// code, copies between them, and what programs on several refuse.
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {
namespace {

class SeveralDevicesTest : public ServerTest {
 protected:
  void SetUp() override {
    v1::ServerConfig config = server::DefaultConfig();
    config.set_cpu_devices(3);
    config.set_cpu_memory_bytes(3 << 20);
    Start(config);
  }

  absl::StatusOr<uint64_t> AllocateOn(const std::string& device, uint64_t bytes) {
    v1::AllocateRequest request;
    request.set_device(device);
    request.set_bytes(bytes);
    KILN_ASSIGN_OR_RETURN(const v1::BufferDescription buffer, Allocate(*stubs_, request));
    return buffer.handle();
  }

  absl::Status Copy(uint64_t from, uint64_t from_offset, uint64_t to, uint64_t to_offset, uint64_t bytes) {
    v1::CopyRequest request;
    request.mutable_from()->set_handle(from);
    request.mutable_from()->set_offset(from_offset);
    request.mutable_to()->set_handle(to);
    request.mutable_to()->set_offset(to_offset);
    request.set_bytes(bytes);
    v1::CopyResponse response;
    return Call(*stubs_->buffer, &v1::BufferService::Stub::Copy, request, response);
  }
};

TEST_F(SeveralDevicesTest, EachHasItsNameAndItsShareOfTheMemory) {
  v1::ListDevicesResponse response;
  ASSERT_TRUE(Call(*stubs_->device, &v1::DeviceService::Stub::List, v1::ListDevicesRequest(), response).ok());
  ASSERT_EQ(response.devices_size(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(response.devices(i).name(), absl::StrCat("CPU:", i));
    EXPECT_EQ(response.devices(i).memory_total_bytes(), 1u << 20);
    EXPECT_EQ(Health(*stubs_, response.devices(i).name()), grpc::health::v1::HealthCheckResponse::SERVING);
  }
  // What one has used up is not the others' loss.
  EXPECT_TRUE(AllocateOn("CPU:1", 1 << 20).ok());
  EXPECT_EQ(DetailOf(AllocateOn("CPU:1", 4096).status())->code(), v1::OUT_OF_MEMORY);
  EXPECT_TRUE(AllocateOn("CPU:2", 1 << 20).ok());
  EXPECT_EQ(DetailOf(AllocateOn("CPU:3", 4).status())->code(), v1::UNKNOWN_DEVICE);
}

TEST_F(SeveralDevicesTest, AProgramRunsOnAllOfThemByItsHash) {
  const auto compiled = Compile(*stubs_, GraphOf(kAddOne));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  for (const char* device : {"CPU:0", "CPU:2", "CPU:1"}) {
    v1::ExecuteRequest request;
    request.set_graph_hash(compiled->graph_hash());
    request.set_device(device);
    request.set_result_mode(v1::RESULT_INLINE);
    AddFloats(request, 0, {1, 2, 3, 4, 5, 6, 7, 8});
    const auto result = Execute(*stubs_, request);
    ASSERT_TRUE(result.ok()) << device << ": " << result.status();
    EXPECT_EQ(FloatsOf(result->results(0).tensor().data()), std::vector<float>({2, 3, 4, 5, 6, 7, 8, 9})) << device;
  }
}

TEST_F(SeveralDevicesTest, AnArgumentOnAnotherDeviceIsRefused) {
  const auto compiled = Compile(*stubs_, GraphOf(kAddOne));
  ASSERT_TRUE(compiled.ok());
  v1::ExecuteRequest request;
  request.set_graph_hash(compiled->graph_hash());
  request.set_device("CPU:1");
  AddBuffer(request, 0, *AllocateOn("CPU:0", 32));
  const absl::Status status = Execute(*stubs_, request).status();
  EXPECT_EQ(DetailOf(status)->code(), v1::BUFFER_DEVICE_MISMATCH);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST_F(SeveralDevicesTest, CopiesBetweenDevices) {
  std::string data(100'001, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 31 + i / 256);
  const uint64_t from = *AllocateOn("CPU:0", data.size());
  const uint64_t to = *AllocateOn("CPU:2", data.size() + 8);
  ASSERT_TRUE(Upload(*stubs_, from, data).ok());
  ASSERT_TRUE(Copy(from, 1, to, 8, data.size() - 1).ok());
  EXPECT_EQ(*Download(*stubs_, to, 8, data.size() - 1), data.substr(1));
  EXPECT_EQ(*Download(*stubs_, to, 0, 8), std::string(8, '\0'));
  EXPECT_EQ(DetailOf(Copy(from, 1, to, 0, data.size()))->code(), v1::OUT_OF_BOUNDS);
  EXPECT_TRUE(Copy(from, 0, to, 0, 0).ok());
}

// A size of variables that is split divides for all of their values; the node is named.
TEST_F(SeveralDevicesTest, ASplitSizeOfVariablesDividesAlways) {
  const auto compiled = Compile(*stubs_, GraphOf(R"(
    0 STACK []
    1 PARAM [0] slot=1 dtype=int32 space=ALU name="n" min=2 max=8
    2 STACK [1]
    3 PARAM [2] slot=0 dtype=float32 device=("CPU:0", "CPU:1")
    4 TUPLE [3]
  )"));
  ASSERT_FALSE(compiled.ok());
  const auto detail = DetailOf(compiled.status()).value_or(v1::ErrorDetail());
  EXPECT_EQ(detail.code(), v1::UNSUPPORTED_SHARD) << compiled.status();
  EXPECT_EQ(detail.node(), 3u) << compiled.status();
  EXPECT_EQ(detail.op(), "PARAM") << compiled.status();
  EXPECT_NE(compiled.status().message().find("let it be 2 times a variable"), absl::string_view::npos);
}

// x, float32 (n), on CPU:0, doubled, beside y, (4), split; and z, (n*2), split.
TEST_F(SeveralDevicesTest, SizesOfVariables) {
  v1::ExecuteRequest request;
  *request.mutable_graph() = GraphOf(R"(
    0 STACK []
    1 PARAM [0] slot=1 dtype=int32 space=ALU name="n" min=2 max=8
    2 STACK [1]
    3 PARAM [2] slot=0 dtype=float32 device=("CPU:0")
    4 CONST [] weakint 4
    5 PARAM [4] slot=2 dtype=float32 device=("CPU:0", "CPU:1")
    6 ADD [3, 3]
    7 CONST [] weakint 2
    8 MUL [1, 7]
    9 STACK [8]
    10 PARAM [9] slot=3 dtype=float32 device=("CPU:0", "CPU:1")
    11 REDUCE [10] ADD axes=(0)
    12 MUL [10, 11]
    13 TUPLE [6, 5, 12]
  )");
  for (const int64_t n : {3, 2, 8}) {
    std::vector<float> x, z, twice, scaled;
    for (int64_t i = 0; i < n; ++i) x.push_back(static_cast<float>(i)), twice.push_back(2 * x.back());
    for (int64_t i = 0; i < 2 * n; ++i) z.push_back(static_cast<float>(i % 5));
    const float sum = std::accumulate(z.begin(), z.end(), 0.0f);
    for (const float value : z) scaled.push_back(value * sum);
    request.clear_arguments();
    AddFloats(request, 0, x);
    AddFloats(request, 2, {1, 2, 3, 4});
    AddFloats(request, 3, z);
    v1::Argument& variable = *request.add_arguments();
    variable.set_slot(1);
    variable.set_integer(n);
    request.set_result_mode(v1::RESULT_INLINE);
    const auto response = Execute(*stubs_, request);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(FloatsOf(response->results(0).tensor().data()), twice);
    EXPECT_EQ(FloatsOf(response->results(1).tensor().data()), (std::vector<float>{1, 2, 3, 4}));
    EXPECT_EQ(FloatsOf(response->results(2).tensor().data()), scaled);
    EXPECT_EQ(response->results(2).tensor().shape(0), 2 * n);
  }
}

}  // namespace
}  // namespace kiln::e2e
