// Tensors of served models in shared memory that is registered by name: values, many at once, and what is held
// meanwhile.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "inference/grpc_service.grpc.pb.h"
#include "tests/e2e/server_fixture.h"
#include "tests/e2e/serving/models_folder.h"

namespace kiln::e2e {
namespace {

using inference::GRPCInferenceService;
using Stub = GRPCInferenceService::Stub;

// Shared memory under a name of its own.
class Shared {
 public:
  explicit Shared(uint64_t bytes) {
    static std::atomic<int> next{0};
    key_ = absl::StrCat("/kiln_shared_regions_test_", getpid(), "_", next++);
    file_ = shm_open(key_.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
    EXPECT_GE(file_, 0);
    EXPECT_EQ(ftruncate(file_, static_cast<off_t>(bytes)), 0);
  }
  ~Shared() {
    close(file_);
    shm_unlink(key_.c_str());
  }

  const std::string& key() const { return key_; }
  void Put(const std::vector<float>& values, uint64_t offset) {
    const std::string bytes = BytesOf(values);
    EXPECT_EQ(pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset)),
              static_cast<ssize_t>(bytes.size()));
  }
  std::vector<float> Get(uint64_t offset, uint64_t bytes) {
    std::string read(bytes, '\0');
    EXPECT_EQ(pread(file_, read.data(), bytes, static_cast<off_t>(offset)), static_cast<ssize_t>(bytes));
    return FloatsOf(read);
  }

 private:
  std::string key_;
  int file_ = -1;
};

class SharedRegionsTest : public ServerTest {
 protected:
  void SetUp() override {
    folder_.Put("m", 1, Adds(2));
    v1::ServerConfig config = server::DefaultConfig();
    config.set_models(folder_.path());
    config.mutable_shared_memory()->set_named_max_bytes(kMost);
    config.mutable_shared_memory()->set_named_loopback(true);
    Start(config);
    stub_ = GRPCInferenceService::NewStub(stubs_->channel);
    ASSERT_TRUE(Eventually([&] { return Health(*stubs_) == grpc::health::v1::HealthCheckResponse::SERVING; }));
  }

  absl::Status Register(const std::string& name, const std::string& key, uint64_t bytes) {
    inference::SystemSharedMemoryRegisterRequest request;
    request.set_name(name);
    request.set_key(key);
    request.set_byte_size(bytes);
    inference::SystemSharedMemoryRegisterResponse answer;
    return Call(*stub_, &Stub::SystemSharedMemoryRegister, request, answer);
  }

  // Of `rows` rows, from and to these offsets of the region.
  absl::StatusOr<inference::ModelInferResponse> Infer(const std::string& region, int64_t rows, uint64_t from,
                                                      uint64_t to) {
    const auto place = [&](auto& tensor, uint64_t offset) {
      (*tensor.mutable_parameters())["shared_memory_region"].set_string_param(region);
      (*tensor.mutable_parameters())["shared_memory_byte_size"].set_uint64_param(static_cast<uint64_t>(rows) * kBytes);
      (*tensor.mutable_parameters())["shared_memory_offset"].set_uint64_param(offset);
    };
    inference::ModelInferRequest request;
    request.set_model_name("m");
    auto& x = *request.add_inputs();
    x.set_name("x");
    x.set_datatype("FP32");
    x.add_shape(rows);
    x.add_shape(kElements);
    place(x, from);
    auto& y = *request.add_outputs();
    y.set_name("y");
    place(y, to);
    inference::ModelInferResponse answer;
    KILN_RETURN_IF_ERROR(Call(*stub_, &Stub::ModelInfer, request, answer));
    return answer;
  }

  static constexpr uint64_t kMost = 64 * kBytes;
  FolderOfModels folder_;
  std::unique_ptr<Stub> stub_;
};

TEST_F(SharedRegionsTest, EachRequestHasItsOwnPlaces) {
  constexpr int kCallers = 8, kRounds = 10;
  Shared shared(2 * kCallers * kBytes);
  ASSERT_TRUE(Register("r", shared.key(), 2 * kCallers * kBytes).ok());
  std::vector<std::thread> threads;
  for (int caller = 0; caller < kCallers; ++caller) {
    threads.emplace_back([&, caller] {
      const uint64_t from = 2 * static_cast<uint64_t>(caller) * kBytes, to = from + kBytes;
      for (int round = 0; round < kRounds; ++round) {
        const auto x = static_cast<float>(caller * kRounds + round);
        shared.Put(std::vector<float>(kElements, x), from);
        const auto answer = Infer("r", 1, from, to);
        ASSERT_TRUE(answer.ok()) << answer.status();
        EXPECT_EQ(answer->raw_output_contents(0), "");
        EXPECT_EQ(shared.Get(to, kBytes), std::vector<float>(kElements, x + 2));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(SharedRegionsTest, CopiesHaveABoundAndGiveItBack) {
  Shared shared(kMost);
  ASSERT_TRUE(Register("r", shared.key(), kMost).ok());
  // An input as large as all that may be copied at a time, again and again: each has given it back before it is
  // answered.
  for (int round = 0; round < 3; ++round) {
    shared.Put(std::vector<float>(kElements, 5), 63 * kBytes);
    const auto answer = Infer("r", 64, 0, 0);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(shared.Get(63 * kBytes, kBytes), std::vector<float>(kElements, 7));
    shared.Put(std::vector<float>(64 * kElements, 0), 0);
  }
}

TEST_F(SharedRegionsTest, WhatIsWrongIsTheClientsFault) {
  Shared shared(2 * kBytes);
  EXPECT_EQ(Register("r", "/kiln_nobody_has_this", kBytes).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Register("r", shared.key(), 2 * kBytes + 1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(DetailOf(Register("r", shared.key(), 0))->field(), "byte_size");
  ASSERT_TRUE(Register("r", shared.key(), 2 * kBytes).ok());
  EXPECT_EQ(DetailOf(Register("r", shared.key(), 2 * kBytes))->code(), v1::HANDLE_TAKEN);
  EXPECT_EQ(DetailOf(Infer("s", 1, 0, 0).status())->code(), v1::UNKNOWN_HANDLE);
  EXPECT_EQ(Infer("r", 1, kBytes + 1, 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Infer("r", 1, 0, ~uint64_t{0} - kBytes + 2).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Infer("r", 1, kBytes, 0).ok());
}

TEST_F(SharedRegionsTest, GoesNeitherWithTenantsNorAlone) {
  v1::ServerConfig config = server::DefaultConfig();
  config.mutable_shared_memory()->set_named_loopback(true);
  EXPECT_NE(server::CheckConfig(config).message().find("named_max_bytes"), absl::string_view::npos);
  config.mutable_shared_memory()->set_named_max_bytes(1);
  EXPECT_TRUE(server::CheckConfig(config).ok());
  config.set_tenants("tenants.txtpb");
  EXPECT_NE(server::CheckConfig(config).message().find("unix_user"), absl::string_view::npos);
}

}  // namespace
}  // namespace kiln::e2e
