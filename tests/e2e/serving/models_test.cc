// A folder of models while it changes, poll by poll: what is loaded, what stays, what is in memory.
#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "inference/grpc_service.pb.h"
#include "server/engine/engine.h"
#include "server/models/infer.h"
#include "server/models/repository.h"
#include "tests/e2e/server_fixture.h"
#include "tests/e2e/serving/models_folder.h"

namespace kiln::e2e {
namespace {

using server::ModelRepository;

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

TEST_F(ModelsTest, SettingsThatAreNoPlainFileAreNotAsIfThereWereNone) {
  folder_.Put("a", 1, Adds(1));
  const std::string settings = folder_.path() + "/a/config.pbtxt";
  ASSERT_EQ(symlink("/dev/null", settings.c_str()), 0);
  Open();
  ASSERT_TRUE(models_->Poll().ok());
  EXPECT_EQ(Index(), "a/1?");
  EXPECT_TRUE(HasReason("a: config.pbtxt: no plain file"));
  EXPECT_FALSE(models_->Find("a", "").ok());
  ASSERT_EQ(unlink(settings.c_str()), 0);
  ASSERT_TRUE(models_->Poll().ok());
  EXPECT_EQ(Index(), "a/1");
  // What served before serves on.
  const server::ServedModelPtr first = *models_->Find("a", "");
  ASSERT_EQ(symlink("/dev/null", settings.c_str()), 0);
  ASSERT_TRUE(models_->Poll().ok());
  EXPECT_TRUE(HasReason("a: config.pbtxt: no plain file"));
  EXPECT_EQ(*models_->Find("a", ""), first);
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
    server_->engine().Execute(std::move(asked.run.request), {}, [&asked](absl::StatusOr<server::ExecuteResult> result) {
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

}  // namespace
}  // namespace kiln::e2e
