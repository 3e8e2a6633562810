#include "client/cpp/served/served_model.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "client/cpp/transport/stubs.h"
#include "inference/grpc_service.grpc.pb.h"

namespace kiln::client {
namespace {

using Service = inference::GRPCInferenceService;

template <typename Rows>
std::vector<ModelTensor> TensorsOf(const Rows& rows) {
  std::vector<ModelTensor> tensors;
  for (const auto& row : rows) {
    tensors.push_back({row.name(), DTypeOfDatatype(row.datatype()), Shape(row.shape().begin(), row.shape().end())});
  }
  return tensors;
}

}  // namespace

absl::StatusOr<std::vector<ModelVersion>> ListModels(Connection& connection) {
  const auto stub = Service::NewStub(connection.channel());
  inference::RepositoryIndexResponse response;
  KILN_RETURN_IF_ERROR(Call(connection, stub, &Service::Stub::RepositoryIndex, "RepositoryIndex",
                            inference::RepositoryIndexRequest(), &response));
  std::vector<ModelVersion> versions;
  for (const auto& row : response.models()) {
    versions.push_back({row.name(), row.version(), row.state(), row.reason()});
  }
  return versions;
}

absl::StatusOr<ServedModel> ServedModel::Find(std::shared_ptr<Connection> connection, std::string name,
                                              std::string version) {
  inference::ModelMetadataRequest request;
  request.set_name(name);
  request.set_version(version);
  inference::ModelMetadataResponse response;
  const auto stub = Service::NewStub(connection->channel());
  KILN_RETURN_IF_ERROR(Call(*connection, stub, &Service::Stub::ModelMetadata, "ModelMetadata", request, &response));
  auto state = std::make_shared<State>();
  state->connection = std::move(connection);
  state->name = std::move(name);
  state->version = std::move(version);
  state->versions.assign(response.versions().begin(), response.versions().end());
  state->inputs = TensorsOf(response.inputs());
  state->outputs = TensorsOf(response.outputs());
  return ServedModel(std::move(state));
}

absl::StatusOr<bool> ServedModel::Ready() const {
  inference::ModelReadyRequest request;
  request.set_name(name());
  request.set_version(version());
  inference::ModelReadyResponse response;
  const auto stub = Service::NewStub(state_->connection->channel());
  KILN_RETURN_IF_ERROR(Call(*state_->connection, stub, &Service::Stub::ModelReady, "ModelReady", request, &response));
  return response.ready();
}

absl::StatusOr<NamedTensors> ServedModel::Infer(NamedTensors inputs, const InferOptions& options) const {
  Connection& connection = *state_->connection;
  KILN_ASSIGN_OR_RETURN(const auto request, ToInferRequest(name(), version(), std::move(inputs), options));
  inference::ModelInferResponse response;
  const absl::Time deadline = std::min(connection.Deadline(), absl::Now() + options.timeout);
  const bool again = !options.sequence.has_value();
  const auto stub = Service::NewStub(connection.channel());
  KILN_RETURN_IF_ERROR(Call(connection, stub, &Service::Stub::ModelInfer, "ModelInfer", request, &response, deadline,
                            options.cancellation, again));
  return FromInferResponse(response, options.outputs, options.id);
}

std::unique_ptr<InferStream> ServedModel::OpenStream(absl::Duration timeout) const {
  return std::make_unique<InferStream>(state_->connection, name(), version(), timeout);
}

}  // namespace kiln::client
