// Tested by tests/e2e/serving/serving_test.py.
#include "server/models/describe.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "inference/grpc_service.pb.h"

namespace kiln::server {
namespace {

constexpr char kPlatform[] = "onnx";

// -1 for what each call decides.
void AddShape(const ServedModel::Input& input, google::protobuf::RepeatedField<int64_t>& shape) {
  for (const ModelDimension& size : input.shape) shape.Add(size.variable == ModelDimension::kNumber ? size.size : -1);
}
void AddShape(const ServedModel::Output& output, google::protobuf::RepeatedField<int64_t>& shape) {
  shape.Add(output.shape.begin(), output.shape.end());
}

void Set(uint64_t count, uint64_t ns, inference::StatisticDuration& duration) {
  duration.set_count(count);
  duration.set_ns(ns);
}

}  // namespace

void FillMetadata(const ServedModel& model, const std::vector<ServedModelPtr>& versions,
                  inference::ModelMetadataResponse& answer) {
  answer.set_name(model.name);
  for (const ServedModelPtr& version : versions) answer.add_versions(absl::StrCat(version->version));
  answer.set_platform(kPlatform);
  const auto add = [](const auto& tensor, inference::ModelMetadataResponse::TensorMetadata& row) {
    row.set_name(tensor.name);
    row.set_datatype(std::string(tensor.datatype->name));
    AddShape(tensor, *row.mutable_shape());
  };
  for (const ServedModel::Input& input : model.inputs) add(input, *answer.add_inputs());
  for (const ServedModel::Output& output : model.outputs) add(output, *answer.add_outputs());
}

void FillConfig(const ServedModel& model, const VersionChoice& versions, inference::ModelConfig& config) {
  config.set_name(model.name);
  config.set_platform(kPlatform);
  inference::ModelVersionPolicy& policy = *config.mutable_version_policy();
  for (const uint64_t version : versions.pinned) policy.mutable_specific()->add_versions(static_cast<int64_t>(version));
  if (versions.pinned.empty() && versions.newest == 0) policy.mutable_all();
  if (versions.pinned.empty() && versions.newest != 0)
    policy.mutable_latest()->set_num_versions(static_cast<uint32_t>(versions.newest));
  config.set_max_batch_size(0);
  const auto add = [](const auto& tensor, auto& row) {
    row.set_name(tensor.name);
    row.set_data_type(tensor.datatype->in_config);
    AddShape(tensor, *row.mutable_dims());
  };
  for (const ServedModel::Input& input : model.inputs) add(input, *config.add_input());
  for (const ServedModel::Output& output : model.outputs) add(output, *config.add_output());
  if (!model.sequences.has_value()) return;
  const SequenceConfig& sequences = model.sequences->config;
  inference::ModelSequenceBatching& batching = *config.mutable_sequence_batching();
  batching.set_max_sequence_idle_microseconds(static_cast<uint64_t>(absl::ToInt64Microseconds(sequences.idle)));
  batching.mutable_oldest()->set_max_candidate_sequences(static_cast<int32_t>(sequences.max_sequences));
  batching.mutable_oldest()->set_max_queue_delay_microseconds(
      static_cast<uint64_t>(absl::ToInt64Microseconds(sequences.queue_delay)));
  for (const SequenceConfig::State& state : sequences.states) {
    inference::ModelSequenceBatching::State& row = *batching.add_state();
    row.set_input_name(state.input);
    row.set_output_name(state.output);
  }
}

void FillStatistics(const ServedModel& model, const ModelCounts& counts, inference::ModelStatistics& statistics) {
  statistics.set_name(model.name);
  statistics.set_version(absl::StrCat(model.version));
  statistics.set_last_inference(static_cast<uint64_t>(counts.last_ms));
  statistics.set_inference_count(counts.succeeded);
  statistics.set_execution_count(counts.runs);
  inference::InferStatistics& sums = *statistics.mutable_inference_stats();
  Set(counts.succeeded, counts.success_ns, *sums.mutable_success());
  Set(counts.failed, counts.fail_ns, *sums.mutable_fail());
  Set(counts.succeeded, counts.queue_ns, *sums.mutable_queue());
  Set(counts.succeeded, counts.input_ns, *sums.mutable_compute_input());
  Set(counts.succeeded, counts.infer_ns, *sums.mutable_compute_infer());
  Set(counts.succeeded, counts.output_ns, *sums.mutable_compute_output());
  for (const auto& [size, of_size] : counts.batches) {
    inference::InferBatchStatistics& row = *statistics.add_batch_stats();
    row.set_batch_size(size);
    Set(of_size.runs, of_size.input_ns, *row.mutable_compute_input());
    Set(of_size.runs, of_size.infer_ns, *row.mutable_compute_infer());
    Set(of_size.runs, of_size.output_ns, *row.mutable_compute_output());
  }
  inference::MemoryUsage& memory = *statistics.add_memory_usage();
  memory.set_type(std::string(model.device->name()));
  memory.set_byte_size(model.weight_bytes());
}

void AddToIndex(const ModelRepository::Row& row, inference::RepositoryIndexResponse& answer) {
  inference::RepositoryIndexResponse::ModelIndex& index = *answer.add_models();
  index.set_name(row.name);
  index.set_version(row.version);
  switch (row.state) {
    case ModelRepository::Row::State::kReady: index.set_state("READY"); break;
    case ModelRepository::Row::State::kLoading: index.set_state("LOADING"); break;
    case ModelRepository::Row::State::kUnavailable: index.set_state("UNAVAILABLE"); break;
  }
  index.set_reason(row.reason);
}

}  // namespace kiln::server
