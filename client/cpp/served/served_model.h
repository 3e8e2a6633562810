// Models that a server serves (kilnd --models), by the open inference protocol: docs/serving.md.
//
//   KILN_ASSIGN_OR_RETURN(const ServedModel model, client->Model("minilm"));
//   KILN_ASSIGN_OR_RETURN(const NamedTensors outputs, model.Infer({{"input_ids", ids}, {"attention_mask", mask}}));
//   outputs.at("embedding").Values<float>()
//
// Tensors go in and come out by name. A model that keeps state goes on from one request of a sequence to the next
// (InferOptions::sequence); by an InferStream, many requests are on their way at a time.
//
// Who asks, deadlines and errors are as of all calls. A request without a sequence is made again as other calls are
// (client/cpp/transport/retries.h); one of a sequence never: it may have moved on.
#ifndef KILN_CLIENT_CPP_SERVED_SERVED_MODEL_H_
#define KILN_CLIENT_CPP_SERVED_SERVED_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/served/infer_stream.h"
#include "client/cpp/served/tensors.h"
#include "client/cpp/transport/connection.h"

namespace kiln::client {

// A version that there is in the server's folder.
struct ModelVersion {
  std::string name;
  std::string version;
  // "READY", "UNAVAILABLE" or "LOADING".
  std::string state;
  // Why it could not be loaded; beside READY, why its newest files could not.
  std::string reason;
};

// An input or output.
struct ModelTensor {
  std::string name;
  // DTYPE_UNSPECIFIED where this client has none like it.
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  // -1: a size that each call decides.
  Shape shape;
};

// All versions. PERMISSION_DENIED without the right to administer; INVALID_ARGUMENT where there is no folder of models.
absl::StatusOr<std::vector<ModelVersion>> ListModels(Connection& connection);

// Made by Client::Model. Copied freely; copies are the same model. Threads: any.
class ServedModel {
 public:
  // UNKNOWN_MODEL where there is no such model, or version. Without a version, requests are for the greatest there is.
  static absl::StatusOr<ServedModel> Find(std::shared_ptr<Connection> connection, std::string name,
                                          std::string version);

  const std::string& name() const { return state_->name; }
  // As it was asked for.
  const std::string& version() const { return state_->version; }
  // Those that were ready when it was asked for.
  const std::vector<std::string>& versions() const { return state_->versions; }
  // In the model's order.
  const std::vector<ModelTensor>& inputs() const { return state_->inputs; }
  const std::vector<ModelTensor>& outputs() const { return state_->outputs; }

  // Whether it can be asked now.
  absl::StatusOr<bool> Ready() const;
  // One run. BAD_ARGUMENT names the input that does not fit as the detail's field; UNKNOWN_MODEL where it is gone.
  absl::StatusOr<NamedTensors> Infer(NamedTensors inputs, const InferOptions& options = {}) const;
  // It may outlive the client. `timeout` is the whole stream's.
  std::unique_ptr<InferStream> OpenStream(absl::Duration timeout = absl::InfiniteDuration()) const;

 private:
  struct State {
    std::shared_ptr<Connection> connection;
    std::string name;
    std::string version;
    std::vector<std::string> versions;
    std::vector<ModelTensor> inputs;
    std::vector<ModelTensor> outputs;
  };
  explicit ServedModel(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_SERVED_SERVED_MODEL_H_
