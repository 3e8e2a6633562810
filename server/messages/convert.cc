#include "server/messages/convert.h"

#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/error.h"

namespace kiln::server {
namespace {

absl::Status BadArgument(const char* field, absl::string_view message) {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field(field);
  return MakeError(detail, message);
}

using Arguments = decltype(ExecuteRequest::arguments);

absl::Status BadSlot(const v1::Argument& message, absl::string_view why) {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field("Argument.value");
  detail.set_slot(message.slot());
  return MakeError(detail, absl::StrCat("argument for slot ", message.slot(), " ", why));
}

absl::Status AppendHandles(const v1::Argument& message, Arguments& arguments) {
  const auto& handles = message.handles().handle();
  if (handles.empty()) return BadSlot(message, "has no handles");
  if (std::numeric_limits<uint32_t>::max() - message.slot() < static_cast<uint32_t>(handles.size()) - 1) {
    return BadSlot(message, "has more handles than there are slots behind it");
  }
  for (int i = 0; i < handles.size(); ++i) {
    arguments.push_back({message.slot() + static_cast<uint32_t>(i), BufferAddress{handles[i], 0}});
  }
  return absl::OkStatus();
}

absl::Status AppendArgument(const v1::Argument& message, Arguments& arguments) {
  if (message.has_handles()) return AppendHandles(message, arguments);
  Argument& argument = arguments.emplace_back();
  argument.slot = message.slot();
  switch (message.value_case()) {
    case v1::Argument::kBuffer: argument.value = ToAddress(message.buffer()); return absl::OkStatus();
    case v1::Argument::kTensor: {
      const v1::Tensor& tensor = message.tensor();
      argument.value =
          TensorView{tensor.dtype(), {tensor.shape().data(), static_cast<size_t>(tensor.shape_size())}, tensor.data()};
      return absl::OkStatus();
    }
    case v1::Argument::kInteger: argument.value = int64_t{message.integer()}; return absl::OkStatus();
    case v1::Argument::kShards: {
      ShardAddresses addresses;
      for (const v1::BufferRef& shard : message.shards().buffer()) addresses.shards.push_back(ToAddress(shard));
      argument.value = std::move(addresses);
      return absl::OkStatus();
    }
    default: return BadSlot(message, "has no value");
  }
}

}  // namespace

absl::StatusOr<ExecuteRequest> ToExecuteRequest(const v1::ExecuteRequest& message) {
  ExecuteRequest request;
  request.graph_hash = message.graph_hash();
  if (message.has_graph()) request.graph = &message.graph();
  request.device = message.device();
  request.options = ToOptions(message.options());
  switch (message.result_mode()) {
    case v1::RESULT_MODE_UNSPECIFIED:
    case v1::RESULT_HANDLES: break;
    case v1::RESULT_INLINE: request.results_inline = true; break;
    default: return BadArgument("result_mode", absl::StrCat("there is no result mode ", int{message.result_mode()}));
  }
  request.may_wait = message.batch();
  request.arguments.reserve(message.arguments_size());
  for (const v1::Argument& argument : message.arguments()) {
    KILN_RETURN_IF_ERROR(AppendArgument(argument, request.arguments));
  }
  return request;
}

ReplayRequest ToReplayRequest(const v1::ReplaySequenceRequest& message) {
  ReplayRequest request;
  request.recording = message.recording();
  for (const v1::BufferRef& buffer : message.buffers()) request.buffers.push_back(ToAddress(buffer));
  for (const uint64_t handle : message.handles()) request.buffers.push_back({handle, 0});
  request.integers = {message.integers().data(), static_cast<size_t>(message.integers_size())};
  return request;
}

void FillRecording(const Recording& recording, v1::RecordSequenceResponse& response) {
  const runtime::Sequence& sequence = *recording.sequence;
  response.set_recording(std::string(recording.id.view()));
  for (const runtime::SequenceBuffer& buffer : sequence.buffers()) {
    v1::RecordedBuffer* message = response.add_buffers();
    message->set_bytes(buffer.bytes);
    message->set_alignment(buffer.alignment);
    message->set_written(buffer.written);
  }
  response.set_integers(sequence.integers());
  response.set_launches(sequence.kernels());
}

void FillDescription(uint64_t handle, const BufferRecord& record, v1::BufferDescription& description) {
  description.set_handle(handle);
  description.set_bytes(record.slice.bytes);
  description.set_device(std::string(record.device->name()));
  description.set_dtype(record.dtype);
  description.mutable_shape()->Add(record.shape.begin(), record.shape.end());
  description.set_view_of(record.view_of);
}

void FillResults(ExecuteResult& result, v1::ExecuteResponse& response) {
  const v1::Signature& signature = result.program->signature();
  for (ResultValue& value : result.results) {
    v1::ResultValue* message = response.add_results();
    if (!value.shards.empty()) {
      v1::ShardedBuffer& sharded = *message->mutable_shards();
      for (const ResultValue::Shard& shard : value.shards)
        FillDescription(shard.handle, *shard.buffer, *sharded.add_buffer());
      if (value.axis >= 0) sharded.set_axis(static_cast<uint32_t>(value.axis));
      continue;
    }
    if (value.buffer != nullptr) {
      FillDescription(value.handle, *value.buffer, *message->mutable_buffer());
      continue;
    }
    const v1::Signature::Result& type = signature.results(value.index);
    v1::Tensor* tensor = message->mutable_tensor();
    tensor->set_dtype(type.dtype());
    tensor->mutable_shape()->Add(value.shape.begin(), value.shape.end());
    tensor->set_data(std::move(value.data));
  }
}

void FillLayouts(const runtime::Program& program, v1::CompileResponse& response) {
  const auto fill = [&program](const runtime::ProgramValue& value, v1::DeviceLayout& layout) {
    for (uint32_t slice : value.slices)
      layout.add_device(std::string(program.device(program.slices()[slice].device).name()));
    if (value.layout.axis >= 0) layout.set_axis(static_cast<uint32_t>(value.layout.axis));
  };
  for (const runtime::ProgramValue& parameter : program.parameters())
    fill(parameter, *response.add_parameter_layouts());
  for (const runtime::ProgramValue& result : program.results()) fill(result, *response.add_result_layouts());
}

void FillCompiled(const CompileResult& result, v1::CompileResponse& response) {
  const StoredProgram& program = *result.program;
  response.set_graph_hash(std::string(program.graph_hash.view()));
  *response.mutable_signature() = program.signature();
  *response.mutable_cost() = program.cost();
  response.set_from_cache(result.from_cache);
  response.set_compile_us(program.compile_us);
  response.set_kernels(program.kernels);
  if (program.program->single() == nullptr) FillLayouts(*program.program, response);
}

void FillTiming(const ExecuteTiming& timing, const CallTimes& times, v1::Timing& message) {
  const absl::Time now = SteadyNow();
  message.set_decode_us(absl::ToDoubleMicroseconds(times.decoded - times.begin));
  message.set_verify_us(timing.verify);
  message.set_queue_us(timing.queue);
  message.set_cache_us(timing.cache);
  message.set_compile_us(timing.compile);
  message.set_h2d_us(timing.h2d);
  message.set_device_us(timing.device);
  message.set_d2h_us(timing.d2h);
  message.set_encode_us(absl::ToDoubleMicroseconds(now - times.executed));
  message.set_total_us(absl::ToDoubleMicroseconds(now - times.begin));
}

void FillDevice(const runtime::hal::Device& device, uint64_t waiting, v1::Device& message) {
  const runtime::hal::DeviceStats stats = device.stats();
  message.set_name(std::string(device.name()));
  *message.mutable_target() = device.target();
  message.set_health(device.health().ok() ? v1::Device::HEALTHY : v1::Device::UNHEALTHY);
  message.set_memory_total_bytes(stats.memory.limit_bytes);
  message.set_memory_in_use_bytes(stats.memory.in_use_bytes);
  message.set_memory_cached_bytes(stats.memory.cached_bytes);
  message.set_buffers(stats.memory.buffers);
  message.set_queue_depth(stats.queue_depth + waiting);
  message.set_launches(stats.launches);
  message.set_description(std::string(device.description()));
  for (std::string& peer : device.peers()) message.add_peers(std::move(peer));
}

}  // namespace kiln::server
