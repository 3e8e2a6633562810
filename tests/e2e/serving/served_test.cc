// Served models and tenants: who may ask, and who pays.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "inference/grpc_service.grpc.pb.h"
#include "server/engine/engine.h"
#include "server/models/repository.h"
#include "tests/e2e/serving/models_folder.h"
#include "tests/e2e/tenants/quota_fixture.h"

namespace kiln::e2e {
namespace {

using server::ModelRepository;

class ServedTest : public QuotaTest {
 protected:
  // `more` is of the tenant "b".
  void StartServing(const std::string& quota, const std::string& more = "") {
    std::string b = TenantWith("b", "");
    b.insert(b.rfind('}'), more);
    WriteFile(TenantWith("a", quota) + b);
    v1::ServerConfig config = server::DefaultConfig();
    config.set_tenants(path_);
    config.set_models(folder_.path());
    Start(config);
    a_ = std::make_unique<Stubs>(address(), "secret of a");
    ASSERT_TRUE(Eventually([&] { return Health(*a_) == grpc::health::v1::HealthCheckResponse::SERVING; }));
  }

  absl::StatusOr<inference::ModelInferResponse> Infer(Stubs& stubs, const std::string& name, float x) {
    inference::ModelInferRequest request;
    request.set_model_name(name);
    auto* input = request.add_inputs();
    input->set_name("x");
    input->set_datatype("FP32");
    input->add_shape(1);
    input->add_shape(kElements);
    request.add_raw_input_contents(BytesOf(std::vector<float>(kElements, x)));
    inference::ModelInferResponse answer;
    const auto stub = inference::GRPCInferenceService::NewStub(stubs.channel);
    KILN_RETURN_IF_ERROR(Call(*stub, &inference::GRPCInferenceService::Stub::ModelInfer, request, answer));
    return answer;
  }

  FolderOfModels folder_;
};

TEST_F(ServedTest, RunsArePaidByWhoAsksAndWeightsByTheModels) {
  folder_.Put("m", 1, AddsAndTells(2));
  StartServing("");
  Account& models = *server_->engine().accounts().Of(ModelRepository::kOwner);
  EXPECT_EQ(models.used(Quota::kDeviceBytes), kBytes);
  EXPECT_EQ(account().used(Quota::kProgramBytes), 0u);
  EXPECT_GT(models.used(Quota::kProgramBytes), 0u);
  const auto answer = Infer(*a_, "m", 40);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(FloatsOf(answer->raw_output_contents(0)), std::vector<float>(kElements, 42));
  EXPECT_EQ(FloatsOf(answer->raw_output_contents(1)), std::vector<float>(kElements, 2));
  EXPECT_GT(account().device_ns(), 0u);
  EXPECT_EQ(models.device_ns(), 0u);
  EXPECT_TRUE(AllReturns());
}

TEST_F(ServedTest, AModelThatIsNotATenantsDoesNotExistForIt) {
  for (const char* name : {"m", "open-1", "open-2"}) folder_.Put(name, 1, Adds(2));
  StartServing("", "model: \"open-*\" model: \"other\"");
  Stubs b(address(), "secret of b");
  EXPECT_TRUE(Infer(*a_, "m", 1).ok());
  EXPECT_TRUE(Infer(b, "open-2", 1).ok());
  const absl::Status refused = Infer(b, "m", 1).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kNotFound);
  // As if there were none of that name.
  const absl::Status none = Infer(b, "n", 1).status();
  EXPECT_EQ(none.code(), refused.code());
  EXPECT_EQ(refused.message(), "there is no model \"m\" that is ready");
  EXPECT_EQ(none.message(), "there is no model \"n\" that is ready");

  const auto stub = inference::GRPCInferenceService::NewStub(b.channel);
  using Stub = inference::GRPCInferenceService::Stub;
  inference::ModelReadyRequest is_ready;
  is_ready.set_name("m");
  inference::ModelReadyResponse ready;
  ASSERT_TRUE(Call(*stub, &Stub::ModelReady, is_ready, ready).ok());
  EXPECT_FALSE(ready.ready());
  inference::ModelStatisticsResponse statistics;
  ASSERT_TRUE(Call(*stub, &Stub::ModelStatistics, inference::ModelStatisticsRequest(), statistics).ok());
  std::vector<std::string> names;
  for (const auto& row : statistics.model_stats()) names.push_back(row.name());
  EXPECT_EQ(names, (std::vector<std::string>{"open-1", "open-2"}));
  inference::ModelStatisticsRequest of_m;
  of_m.set_name("m");
  EXPECT_EQ(Call(*stub, &Stub::ModelStatistics, of_m, statistics).code(), absl::StatusCode::kNotFound);
  inference::ModelMetadataRequest about;
  about.set_name("m");
  inference::ModelMetadataResponse metadata;
  EXPECT_EQ(Call(*stub, &Stub::ModelMetadata, about, metadata).code(), absl::StatusCode::kNotFound);
}

TEST_F(ServedTest, WhoMayNotTakeMoreMemoryIsRefused) {
  folder_.Put("m", 1, Adds(2));
  StartServing("device_bytes: 1000");
  EXPECT_EQ(DetailOf(Infer(*a_, "m", 1).status())->code(), v1::QUOTA_EXCEEDED);
  Stubs b(address(), "secret of b");
  EXPECT_TRUE(Infer(b, "m", 1).ok());
  Stubs stranger(address());
  EXPECT_EQ(Infer(stranger, "m", 1).status().code(), absl::StatusCode::kUnauthenticated);
}

}  // namespace
}  // namespace kiln::e2e
