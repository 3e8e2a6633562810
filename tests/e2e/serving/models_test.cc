// A folder of models while it changes, poll by poll: what is loaded, what stays, what is in memory; and who pays.
#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "inference/grpc_service.grpc.pb.h"
#include "onnx/onnx.pb.h"
#include "server/engine/engine.h"
#include "server/models/infer.h"
#include "server/models/repository.h"
#include "tests/e2e/server_fixture.h"
#include "tests/e2e/tenants/quota_fixture.h"

namespace kiln::e2e {
namespace {

using server::ModelRepository;

constexpr int kElements = 4096;
constexpr uint64_t kBytes = kElements * sizeof(float);

void AddTensor(::onnx::ValueInfoProto* tensor, const char* name) {
  tensor->set_name(name);
  auto* type = tensor->mutable_type()->mutable_tensor_type();
  type->set_elem_type(::onnx::TensorProto::FLOAT);
  type->mutable_shape()->add_dim()->set_dim_param("n");
  type->mutable_shape()->add_dim()->set_dim_value(kElements);
}

// y = x + k for float32 [n, kElements], k all `addend`.
std::string Adds(float addend) {
  ::onnx::ModelProto model;
  model.add_opset_import()->set_version(17);
  ::onnx::GraphProto& graph = *model.mutable_graph();
  AddTensor(graph.add_input(), "x");
  AddTensor(graph.add_output(), "y");
  auto* constant = graph.add_initializer();
  constant->set_name("k");
  constant->set_data_type(::onnx::TensorProto::FLOAT);
  constant->add_dims(kElements);
  constant->set_raw_data(BytesOf(std::vector<float>(kElements, addend)));
  auto* node = graph.add_node();
  node->set_op_type("Add");
  node->add_input("x");
  node->add_input("k");
  node->add_output("y");
  return model.SerializeAsString();
}

// The same, whose second output is its constant itself.
std::string AddsAndTells(float addend) {
  ::onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(Adds(addend)));
  auto* output = model.mutable_graph()->add_output();
  AddTensor(output, "k");
  output->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()->DeleteSubrange(0, 1);
  return model.SerializeAsString();
}

class FolderOfModels {
 public:
  FolderOfModels() {
    path_ = testing::TempDir() + "/models-XXXXXX";
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
  }
  const std::string& path() const { return path_; }

  void Put(const std::string& name, int version, const std::string& bytes) {
    mkdir(absl::StrCat(path_, "/", name).c_str(), 0700);
    const std::string folder = absl::StrCat(path_, "/", name, "/", version);
    mkdir(folder.c_str(), 0700);
    std::ofstream(folder + "/draft", std::ios::binary) << bytes;
    ASSERT_EQ(std::rename((folder + "/draft").c_str(), (folder + "/model.onnx").c_str()), 0);
  }
  void Remove(const std::string& name, int version) {
    ASSERT_EQ(std::remove(absl::StrCat(path_, "/", name, "/", version, "/model.onnx").c_str()), 0);
  }

 private:
  std::string path_;
};

class ModelsTest : public ServerTest {
 protected:
  void Open(const std::string& versions = "latest", size_t max_models = 8, uint64_t max_bytes = 1 << 20) {
    ModelRepository::Options options;
    options.folder = folder_.path();
    options.load.sizes.others = {1, 4};
    options.load.max_bytes = max_bytes;
    options.versions = *server::ParseVersionPolicy(versions);
    options.max_models = max_models;
    const auto log = std::make_shared<spdlog::logger>("models", std::make_shared<spdlog::sinks::null_sink_mt>());
    models_ = std::make_unique<ModelRepository>(options, &server_->engine(), log);
  }

  // "a/1=READY b/1=UNAVAILABLE", and what reasons there are.
  std::string Index() {
    std::vector<std::string> rows;
    reasons_.clear();
    for (const ModelRepository::Row& row : models_->Index()) {
      const bool ready = row.state == ModelRepository::Row::State::kReady;
      rows.push_back(absl::StrCat(row.name, "/", row.version, ready ? "" : "?"));
      if (!row.reason.empty()) absl::StrAppend(&reasons_, row.name, ": ", row.reason, "\n");
    }
    return absl::StrJoin(rows, " ");
  }
  bool HasReason(const std::string& part) {
    Index();
    return reasons_.find(part) != std::string::npos;
  }
  uint64_t InMemory() { return server_->engine().accounts().Of(ModelRepository::kOwner)->used(Quota::kDeviceBytes); }
  absl::Status Ask(void (ModelRepository::*what)(std::string, ModelRepository::Done), const std::string& name) {
    absl::Status status;
    absl::Notification done;
    (models_.get()->*what)(name, [&](absl::Status said) {
      status = std::move(said);
      done.Notify();
    });
    done.WaitForNotification();
    return status;
  }

  FolderOfModels folder_;
  std::unique_ptr<ModelRepository> models_;  // goes before the server
  std::string reasons_;

  void TearDown() override { models_.reset(); }
};

TEST_F(ModelsTest, ComeChangeAndGoWithTheFolder) {
  folder_.Put("a", 1, Adds(1));
  Open();
  ASSERT_TRUE(models_->Poll().ok());
  EXPECT_EQ(Index(), "a/1");
  const server::ServedModelPtr first = *models_->Find("a", "");
  ASSERT_TRUE(models_->Poll().ok());
  EXPECT_EQ(*models_->Find("a", "1"), first);  // nothing changed

  folder_.Put("a", 1, Adds(2));
  folder_.Put("b", 3, Adds(2));
  ASSERT_TRUE(models_->Poll().ok());
  EXPECT_EQ(Index(), "a/1 b/3");
  EXPECT_NE(*models_->Find("a", ""), first);
  EXPECT_EQ(first->weights.size(), 1u);  // whoever runs it has it still

  folder_.Remove("b", 3);
  ASSERT_TRUE(models_->Poll().ok());
  EXPECT_EQ(Index(), "a/1 b/?");
  EXPECT_EQ(DetailOf(models_->Find("b", "").status())->code(), v1::UNKNOWN_MODEL);
}

TEST_F(ModelsTest, OneThatCannotBeLoadedLeavesTheOneBefore) {
  folder_.Put("a", 1, Adds(1));
  folder_.Put("bad", 1, "no model");
  Open();
  ASSERT_TRUE(models_->Poll().ok());
  EXPECT_EQ(Index(), "a/1 bad/1?");
  EXPECT_TRUE(HasReason("bad: the file is no ONNX model")) << reasons_;
  const server::ServedModelPtr first = *models_->Find("a", "");

  folder_.Put("a", 1, Adds(1).substr(0, 500));  // the same version, damaged
  ASSERT_TRUE(models_->Poll().ok());
  EXPECT_EQ(Index(), "a/1 bad/1?");
  EXPECT_TRUE(HasReason("a: ")) << reasons_;
  EXPECT_EQ(*models_->Find("a", ""), first);

  folder_.Put("a", 2, "no model");  // a greater one, damaged
  ASSERT_TRUE(models_->Poll().ok());
  EXPECT_EQ(Index(), "a/1 a/2? bad/1?");
  EXPECT_EQ(*models_->Find("a", ""), first);

  folder_.Put("a", 2, Adds(2));
  ASSERT_TRUE(models_->Poll().ok());
  EXPECT_EQ(Index(), "a/2 bad/1?");
  EXPECT_FALSE(HasReason("a: ")) << reasons_;
}

TEST_F(ModelsTest, TheLatestVersionServesOrAll) {
  for (const int version : {1, 2, 10}) folder_.Put("a", version, Adds(1));
  Open();
  ASSERT_TRUE(models_->Poll().ok());
  EXPECT_EQ(Index(), "a/10");
  Open("all");
  ASSERT_TRUE(models_->Poll().ok());
  EXPECT_EQ(Index(), "a/1 a/2 a/10");
  EXPECT_EQ((*models_->Find("a", ""))->version, 10u);
  EXPECT_EQ((*models_->Find("a", "2"))->version, 2u);
  for (const char* none : {"3", "02", "x", "-1"}) EXPECT_FALSE(models_->Find("a", none).ok()) << none;
}

TEST_F(ModelsTest, VersionsArePinnedByName) {
  for (const int version : {1, 2, 3}) folder_.Put("a", version, Adds(1));
  for (const int version : {1, 2, 3}) folder_.Put("b", version, Adds(1));
  Open("latest:2,b=1+4");
  ASSERT_TRUE(models_->Poll().ok());
  EXPECT_EQ(Index(), "a/2 a/3 b/1 b/4/?");
  EXPECT_TRUE(HasReason("b/4: model_versions: it is to be served, and is not there")) << reasons_;
  EXPECT_EQ((*models_->Find("b", ""))->version, 1u);
  folder_.Put("b", 4, Adds(1));
  folder_.Put("a", 4, Adds(1));
  ASSERT_TRUE(models_->Poll().ok());
  EXPECT_EQ(Index(), "a/3 a/4 b/1 b/4");
}

TEST_F(ModelsTest, EqualConstantsAreInMemoryOnceAndHaveAnOwner) {
  folder_.Put("a", 1, Adds(1));
  folder_.Put("a", 2, Adds(1));
  folder_.Put("b", 1, Adds(1));
  Open("all");
  ASSERT_TRUE(models_->Poll().ok());
  EXPECT_EQ(models_->constants(), 1u);
  EXPECT_EQ(InMemory(), kBytes);
  EXPECT_EQ((*models_->Find("a", "1"))->weights[0].memory, (*models_->Find("b", ""))->weights[0].memory);

  folder_.Put("b", 1, Adds(7));
  ASSERT_TRUE(models_->Poll().ok());
  EXPECT_EQ(models_->constants(), 2u);
  EXPECT_EQ(InMemory(), 2 * kBytes);

  folder_.Remove("a", 1);
  folder_.Remove("a", 2);
  ASSERT_TRUE(models_->Poll().ok());
  EXPECT_EQ(models_->constants(), 1u);
  EXPECT_EQ(InMemory(), kBytes);
  models_.reset();
  EXPECT_EQ(InMemory(), 0u);
}

TEST_F(ModelsTest, HaveLimits) {
  for (const char* name : {"a", "b", "c"}) folder_.Put(name, 1, Adds(1));
  Open("latest", /*max_models=*/2);
  ASSERT_TRUE(models_->Poll().ok());
  EXPECT_EQ(Index(), "a/1 b/1 c/1/?");
  EXPECT_TRUE(HasReason("max_models")) << reasons_;
  folder_.Put("0", 1, Adds(1));  // by name before one that is loaded
  ASSERT_TRUE(models_->Poll().ok());
  EXPECT_EQ(Index(), "0/1 a/1 b/1/? c/1/?");
  folder_.Remove("0", 1);
  ASSERT_TRUE(models_->Poll().ok());
  Open("latest", /*max_models=*/2, /*max_bytes=*/kBytes);  // the file has some more
  ASSERT_TRUE(models_->Poll().ok());
  EXPECT_EQ(Index(), "a/1? b/1? 0/? c/1/?");
  EXPECT_TRUE(HasReason("bytes")) << reasons_;
}

TEST_F(ModelsTest, WhatLacksMemoryIsTriedAgain) {
  folder_.Put("a", 1, Adds(1));
  Open();
  Account& owner = *server_->engine().accounts().Of(ModelRepository::kOwner);
  owner.SetLimits({kBytes - 1});  // of device_bytes, the first
  ASSERT_TRUE(models_->Poll().ok());
  EXPECT_EQ(Index(), "a/1?");
  owner.SetLimits({});
  // After one period.
  EXPECT_TRUE(Eventually([&] { return models_->Poll().ok() && Index() == "a/1"; })) << reasons_;
}

TEST_F(ModelsTest, OperatorsLoadAndUnload) {
  Open();
  models_->Start();
  models_->WaitUntilReady();
  folder_.Put("a", 1, Adds(1));
  EXPECT_TRUE(Ask(&ModelRepository::Load, "a").ok());
  EXPECT_EQ(Index(), "a/1");
  EXPECT_TRUE(Ask(&ModelRepository::Unload, "a").ok());
  EXPECT_EQ(Index(), "a/?");
  EXPECT_TRUE(Ask(&ModelRepository::Load, "a").ok());
  EXPECT_EQ(Index(), "a/1");
  for (const char* name : {"none", "../a", ""}) {
    EXPECT_EQ(Ask(&ModelRepository::Load, name).code(), absl::StatusCode::kNotFound) << name;
    EXPECT_EQ(Ask(&ModelRepository::Unload, name).code(), absl::StatusCode::kNotFound) << name;
  }
  models_->Stop();
  EXPECT_EQ(Ask(&ModelRepository::Load, "a").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Index(), "a/1");
}

TEST_F(ModelsTest, RequestsThatComeTogetherAreOneRun) {
  constexpr int kRequests = 5;
  folder_.Put("a", 1, AddsAndTells(2));
  Open();
  ASSERT_TRUE(models_->Poll().ok());
  const server::ServedModelPtr model = *models_->Find("a", "");

  struct Asked {
    inference::ModelInferRequest message;
    server::InferRun run;
    absl::StatusOr<server::ExecuteResult> result = absl::UnknownError("none");
    absl::Notification done;
  };
  std::vector<std::unique_ptr<Asked>> all;
  const auto ask = [&](float x) {
    Asked& asked = *all.emplace_back(std::make_unique<Asked>());
    auto* input = asked.message.add_inputs();
    input->set_name("x");
    input->set_datatype("FP32");
    input->add_shape(1);
    input->add_shape(kElements);
    asked.message.add_raw_input_contents(BytesOf(std::vector<float>(kElements, x)));
    ASSERT_TRUE(ToRun(*model, asked.message, asked.run).ok());
    server_->engine().Execute(std::move(asked.run.request), {},
                              [&asked](absl::StatusOr<server::ExecuteResult> result) {
                                asked.result = std::move(result);
                                asked.done.Notify();
                              });
  };
  // Slow at first, as the compiler sees it; it is known once it has run.
  for (int i = 0; i < 3; ++i) {
    ask(0);
    all.back()->done.WaitForNotification();
    ASSERT_TRUE(all.back()->result.ok()) << all.back()->result.status();
  }
  all.clear();
  absl::Notification go_on;
  model->device->queue().Submit([&go_on] { go_on.WaitForNotification(); }, 1'000'000'000);
  for (int i = 0; i < kRequests; ++i) ask(static_cast<float>(i));
  go_on.Notify();
  std::vector<int> batches;
  for (int i = 0; i < kRequests; ++i) {
    all[i]->done.WaitForNotification();
    ASSERT_TRUE(all[i]->result.ok()) << all[i]->result.status();
    EXPECT_EQ(FloatsOf(all[i]->result->results[0].data), std::vector<float>(kElements, static_cast<float>(i) + 2));
    EXPECT_EQ(FloatsOf(all[i]->result->results[1].data), std::vector<float>(kElements, 2));
    EXPECT_EQ(all[i]->result->results[0].shape, (std::vector<int64_t>{1, kElements}));
    batches.push_back(all[i]->result->batch);
  }
  EXPECT_EQ(batches, (std::vector<int>{1, 4, 0, 0, 0}));  // four rows are the most
}

TEST_F(ModelsTest, SizesAreRead) {
  const auto sizes = server::ParseModelSizes("batch=1:64,tokens=128,*=2:9");
  ASSERT_TRUE(sizes.ok());
  EXPECT_EQ(sizes->named.at("batch").greatest, 64);
  EXPECT_EQ(sizes->named.at("tokens").least, 128);
  EXPECT_EQ(sizes->others->least, 2);
  EXPECT_FALSE(server::ParseModelSizes("")->others.has_value());
  for (const char* bad : {"batch", "=1", "n=0", "n=4:2", "n=1:2:3", "n=x", "n="})
    EXPECT_EQ(server::ParseModelSizes(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
}

// -- A whole server with tenants

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
