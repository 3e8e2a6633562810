// What the adapter is asked about models that the server serves.
#include <future>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/error.h"
#include "tests/clients/adapters/cpp_adapter.h"

namespace kiln::adapter {
namespace {

using client::NamedTensors;
using client::ServedModel;

Json Told(const std::vector<client::ModelTensor>& tensors) {
  Json rows = Json::array();
  for (const client::ModelTensor& tensor : tensors) {
    rows.push_back({{"name", tensor.name}, {"dtype", std::string(DTypeName(tensor.dtype))}, {"shape", tensor.shape}});
  }
  return rows;
}

Json Told(const absl::StatusOr<NamedTensors>& answer) {
  if (!answer.ok()) return Json{{"error", adapter::Told(answer.status())}};
  Json outputs = Json::object();
  for (const auto& [name, tensor] : *answer) outputs[name] = adapter::Told(tensor);
  return Json{{"outputs", std::move(outputs)}};
}

NamedTensors InputsOf(const Json& ask) {
  NamedTensors inputs;
  for (const auto& [name, item] : ask["inputs"].items()) inputs[name] = TensorOf(item["tensor"]);
  return inputs;
}

client::InferOptions OptionsOf(const Json& ask) {
  client::InferOptions options;
  options.outputs = ask.value("outputs", std::vector<std::string>());
  if (ask.contains("timeout_ms")) options.timeout = absl::Milliseconds(ask["timeout_ms"].get<int64_t>());
  if (ask.contains("sequence")) {
    const Json& said = ask["sequence"];
    options.sequence = client::SequenceStep{0, said.value("start", false), said.value("end", false)};
    if (!absl::SimpleAtoi(Text(said, "id"), &options.sequence->id)) options.sequence->id = 0;
  }
  return options;
}

}  // namespace

absl::StatusOr<ServedModel> Adapter::ModelOf(const Json& name) {
  absl::MutexLock lock(&mutex_);
  const auto found = models_.find(name.get<std::string>());
  if (found == models_.end()) return Nothing("model", name);
  return found->second.model;
}

Answer Adapter::Models(const Json& ask) {
  KILN_ASSIGN_OR_RETURN(const auto one, ClientOf(ask));
  KILN_ASSIGN_OR_RETURN(const auto versions, one->client->Models());
  Json rows = Json::array();
  for (const client::ModelVersion& row : versions) {
    rows.push_back({{"name", row.name}, {"version", row.version}, {"state", row.state}, {"reason", row.reason}});
  }
  return Json{{"models", std::move(rows)}};
}

Answer Adapter::Model(const Json& ask) {
  KILN_ASSIGN_OR_RETURN(const auto one, ClientOf(ask));
  KILN_ASSIGN_OR_RETURN(ServedModel model, one->client->Model(Text(ask, "name"), Text(ask, "version")));
  KILN_ASSIGN_OR_RETURN(const bool ready, model.Ready());
  Json said = {{"ready", ready},
               {"versions", model.versions()},
               {"inputs", Told(model.inputs())},
               {"outputs", Told(model.outputs())}};
  absl::MutexLock lock(&mutex_);
  models_.insert_or_assign(Text(ask, "as"), Served{Text(ask, "client"), std::move(model)});
  return said;
}

Answer Adapter::Infer(const Json& ask) {
  KILN_ASSIGN_OR_RETURN(const ServedModel model, ModelOf(ask["model"]));
  client::InferOptions options = OptionsOf(ask);
  if (!ask.contains("cancel_after_ms")) return Told(model.Infer(InputsOf(ask), options));
  client::Cancellation cancellation;
  options.cancellation = &cancellation;
  const GivesUp gives_up(cancellation, absl::Milliseconds(ask["cancel_after_ms"].get<int64_t>()));
  return Told(model.Infer(InputsOf(ask), options));
}

Answer Adapter::InferStream(const Json& ask) {
  KILN_ASSIGN_OR_RETURN(const ServedModel model, ModelOf(ask["model"]));
  const auto stream = model.OpenStream();
  std::vector<std::future<absl::StatusOr<NamedTensors>>> coming;
  for (const Json& request : ask["requests"]) coming.push_back(stream->Infer(InputsOf(request), OptionsOf(request)));
  Json answers = Json::array();
  for (auto& answer : coming) answers.push_back(Told(answer.get()));
  KILN_RETURN_IF_ERROR(stream->Close());
  return Json{{"answers", std::move(answers)}};
}

}  // namespace kiln::adapter
