// GRPCInferenceService: the open inference protocol, over the models of --models. docs/serving.md says what is served;
// streams are in infer_stream.cc.
//
// Tested by tests/e2e/serving/serving_test.py.
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/error.h"
#include "compiler/options/version.h"
#include "inference/grpc_service.pb.h"
#include "server/messages/not_implemented.h"
#include "server/models/describe.h"
#include "server/models/repository.h"
#include "server/services/inference/inference.h"
#include "server/services/rpcs.h"

namespace kiln::server {
namespace {

template <typename Call>
ModelCaller AsCaller(const Call& call) {
  return {call.env(), call.tenant(), call.session(), call.control(), call.context()};
}

template <typename Call>
absl::StatusOr<ServedModelPtr> FindModel(const Call& call, absl::string_view name, absl::string_view version) {
  return FindModel(AsCaller(call), name, version);
}

// For what looks at the folder.
absl::Status CheckRepository(const ServiceEnv& env, const std::string& repository) {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field("repository_name");
  if (env.models == nullptr) return MakeError(detail, "this server has no folder of models; kilnd --models names one");
  if (repository.empty()) return absl::OkStatus();
  return MakeError(detail, "there is one folder of models, which has no name; leave repository_name empty");
}

}  // namespace

void rpc::GRPCInferenceService::ServerLive(
    UnaryCall<inference::ServerLiveRequest, inference::ServerLiveResponse>& call) {
  call.response().set_live(true);
  call.Reply(absl::OkStatus());
}

void rpc::GRPCInferenceService::ServerReady(
    UnaryCall<inference::ServerReadyRequest, inference::ServerReadyResponse>& call) {
  const ModelRepository* const models = call.env().models;
  call.response().set_ready(!call.env().gate.announced() && (models == nullptr || models->ready()));
  call.Reply(absl::OkStatus());
}

void rpc::GRPCInferenceService::ModelReady(
    UnaryCall<inference::ModelReadyRequest, inference::ModelReadyResponse>& call) {
  const auto model = FindModel(call, call.request().name(), call.request().version());
  call.response().set_ready(model.ok());
  call.Reply(absl::OkStatus());
}

void rpc::GRPCInferenceService::ServerMetadata(
    UnaryCall<inference::ServerMetadataRequest, inference::ServerMetadataResponse>& call) {
  call.response().set_name("kiln");
  call.response().set_version(compiler::kCompilerVersion);
  for (const char* extension :
       {"classification", "model_configuration", "model_repository", "sequence", "statistics", "trace", "logging"})
    call.response().add_extensions(extension);
  if (call.env().named_regions != nullptr) call.response().add_extensions("system_shared_memory");
  call.Reply(absl::OkStatus());
}

void rpc::GRPCInferenceService::ModelMetadata(
    UnaryCall<inference::ModelMetadataRequest, inference::ModelMetadataResponse>& call) {
  const auto model = FindModel(call, call.request().name(), call.request().version());
  if (model.ok()) FillMetadata(**model, call.env().models->Loaded((*model)->name), call.response());
  call.Reply(model.status());
}

void rpc::GRPCInferenceService::ModelConfig(
    UnaryCall<inference::ModelConfigRequest, inference::ModelConfigResponse>& call) {
  const auto model = FindModel(call, call.request().name(), call.request().version());
  if (model.ok())
    FillConfig(**model, call.env().models->versions().For((*model)->name), *call.response().mutable_config());
  call.Reply(model.status());
}

void rpc::GRPCInferenceService::ModelStatistics(
    UnaryCall<inference::ModelStatisticsRequest, inference::ModelStatisticsResponse>& call) {
  const inference::ModelStatisticsRequest& asked = call.request();
  // What others ask for is not a tenant's to know.
  const bool of_all = call.tenant() == nullptr || call.tenant()->Has(Right::kAdmin);
  const auto add = [&](const ServedModel& model) {
    const ModelCounts counts = of_all ? model.counters.all() : model.counters.CountsOf(call.control().account);
    FillStatistics(model, counts, *call.response().add_model_stats());
  };
  if (!asked.name().empty()) {
    const auto model = FindModel(call, asked.name(), asked.version());
    if (!model.ok()) return call.Reply(model.status());
    if (!asked.version().empty()) {
      add(**model);
      return call.Reply(absl::OkStatus());
    }
  }
  if (call.env().models == nullptr) return call.Reply(absl::OkStatus());
  for (const ServedModelPtr& model : call.env().models->Loaded(asked.name())) {
    if (MayAsk(AsCaller(call), *model)) add(*model);
  }
  call.Reply(absl::OkStatus());
}

void rpc::GRPCInferenceService::ModelInfer(
    UnaryCall<inference::ModelInferRequest, inference::ModelInferResponse>& call) {
  Infer(AsCaller(call), call.begin(), call.request(), call.response(), call.parts(),
        [&call](absl::StatusOr<Inferred> inferred) {
          if (!inferred.ok()) return call.Reply(inferred.status());
          call.MarkDone(inferred->decoded, inferred->executed);
          call.Keep(std::move(inferred->charge));
          call.Reply(absl::OkStatus());
        });
}

void rpc::GRPCInferenceService::RepositoryIndex(
    UnaryCall<inference::RepositoryIndexRequest, inference::RepositoryIndexResponse>& call) {
  if (absl::Status status = CheckRepository(call.env(), call.request().repository_name()); !status.ok())
    return call.Reply(std::move(status));
  for (const ModelRepository::Row& row : call.env().models->Index()) {
    if (!call.request().ready() || row.state == ModelRepository::Row::State::kReady) AddToIndex(row, call.response());
  }
  call.Reply(absl::OkStatus());
}

void rpc::GRPCInferenceService::RepositoryModelLoad(
    UnaryCall<inference::RepositoryModelLoadRequest, inference::RepositoryModelLoadResponse>& call) {
  absl::Status status = CheckRepository(call.env(), call.request().repository_name());
  // They would say what is to be loaded in place of what lies in the folder.
  if (status.ok() && !call.request().parameters().empty()) status = NotImplemented("RepositoryModelLoad.parameters");
  if (!status.ok()) return call.Reply(std::move(status));
  call.env().models->Load(call.request().model_name(), [&call](absl::Status done) { call.Reply(std::move(done)); });
}

void rpc::GRPCInferenceService::RepositoryModelUnload(
    UnaryCall<inference::RepositoryModelUnloadRequest, inference::RepositoryModelUnloadResponse>& call) {
  if (absl::Status status = CheckRepository(call.env(), call.request().repository_name()); !status.ok())
    return call.Reply(std::move(status));
  // `unload_dependents` is for ensembles, which there are none of.
  call.env().models->Unload(call.request().model_name(), [&call](absl::Status done) { call.Reply(std::move(done)); });
}

}  // namespace kiln::server
