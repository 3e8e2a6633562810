#include "client/cpp/program.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "client/cpp/transport/stubs.h"

namespace kiln::client {
namespace {

// The failure of what no server may say. Memory is made, and read, of the sizes that it says.
absl::Status Lie(absl::string_view what) { return MakeError(v1::INTERNAL_FAULT, absl::StrCat("the server ", what)); }

bool HasSize(v1::DType dtype, const Shape& shape, uint64_t bytes) {
  const auto count = ByteCount(dtype, shape);
  return count.has_value() && static_cast<uint64_t>(*count) == bytes;
}

bool HasSize(const v1::BufferDescription& said) {
  return HasSize(said.dtype(), Shape(said.shape().begin(), said.shape().end()), said.bytes());
}

// Of a result that is not a parameter's own memory.
bool IsOf(const v1::ResultValue& value, const v1::Signature::Result& row) {
  if (value.has_tensor()) {
    const v1::Tensor& tensor = value.tensor();
    return HasSize(tensor.dtype(), Shape(tensor.shape().begin(), tensor.shape().end()), tensor.data().size());
  }
  if (value.has_buffer()) {
    return HasSize(value.buffer()) && (row.symbolic_size() > 0 || value.buffer().bytes() == row.bytes());
  }
  return value.has_shards() && std::all_of(value.shards().buffer().begin(), value.shards().buffer().end(),
                                           [](const v1::BufferDescription& shard) { return HasSize(shard); });
}

absl::Status CheckResults(const v1::ExecuteResponse& response, const v1::Signature& signature) {
  if (response.results_size() != signature.results_size()) {
    return Lie(absl::StrCat("gave ", response.results_size(), " results, not ", signature.results_size()));
  }
  for (int i = 0; i < response.results_size(); ++i) {
    const v1::Signature::Result& row = signature.results(i);
    const bool in_place = row.has_aliases() && !response.results(i).has_tensor();
    if (!in_place && !IsOf(response.results(i), row)) return Lie(absl::StrCat("gave result ", i, " of another size"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCompiled(const v1::CompileResponse& compiled) {
  if (!compiled.has_signature()) return Lie("compiled, and does not say to what");
  const v1::Signature& signature = compiled.signature();
  for (int i = 0; i < signature.results_size(); ++i) {
    const v1::Signature::Result& row = signature.results(i);
    if (row.has_aliases() && row.aliases() >= static_cast<uint32_t>(signature.parameters_size())) {
      return Lie(
          absl::StrCat("says that result ", i, " is parameter ", row.aliases(), " of ", signature.parameters_size()));
    }
  }
  return absl::OkStatus();
}

v1::Argument& Arguments::At(uint32_t slot) {
  for (v1::Argument& argument : list_) {
    if (argument.slot() == slot) return argument;
  }
  v1::Argument& argument = *list_.Add();
  argument.set_slot(slot);
  return argument;
}

Arguments& Arguments::Set(uint32_t slot, const DeviceBuffer& buffer, uint64_t offset) {
  *At(slot).mutable_buffer() = buffer.Ref(offset);
  return *this;
}

Arguments& Arguments::Set(uint32_t slot, const v1::BufferRef& buffer) {
  *At(slot).mutable_buffer() = buffer;
  return *this;
}

Arguments& Arguments::Set(uint32_t slot, const HostTensor& tensor) {
  v1::Tensor& message = *At(slot).mutable_tensor();
  message.set_dtype(tensor.dtype);
  message.mutable_shape()->Assign(tensor.shape.begin(), tensor.shape.end());
  message.set_data(tensor.bytes);
  return *this;
}

Arguments& Arguments::Set(uint32_t slot, const std::vector<v1::BufferRef>& shards) {
  v1::BufferRefs& refs = *At(slot).mutable_shards();
  refs.Clear();
  for (const v1::BufferRef& shard : shards) *refs.add_buffer() = shard;
  return *this;
}

Arguments& Arguments::Set(uint32_t slot, int64_t value) {
  At(slot).set_integer(value);
  return *this;
}

Program::Program(std::shared_ptr<Connection> connection, v1::Graph graph, v1::CompileOptions options,
                 v1::CompileResponse compiled)
    : state_(std::make_shared<State>(
          State{std::move(connection), std::move(graph), std::move(options), std::move(compiled)})) {}

absl::StatusOr<RunResults> Program::Run(const Arguments& arguments, const RunOptions& options) const {
  Connection& connection = *state_->connection;
  v1::ExecuteRequest request;
  request.set_graph_hash(hash());
  request.set_device(connection.options().device);
  *request.mutable_options() = state_->options;
  *request.mutable_arguments() = arguments.list();
  request.set_result_mode(options.results);
  request.set_want_timing(options.want_timing);
  request.set_batch(options.batch);

  v1::ExecuteResponse response;
  const absl::Time deadline = std::min(connection.Deadline(), absl::Now() + options.timeout);
  const auto execute = [&] {
    return Call(connection, connection.stubs().kernels, &v1::KernelService::Stub::Execute, "Execute", request,
                &response, deadline, options.cancellation);
  };
  absl::Status status = execute();
  const auto detail = DetailOf(status);
  if (detail.has_value() && detail->code() == v1::NEED_GRAPH && state_->graph.nodes_size() > 0) {
    *request.mutable_graph() = state_->graph;
    status = execute();
  }
  if (!status.ok()) return status;
  KILN_RETURN_IF_ERROR(CheckResults(response, signature()));

  RunResults run;
  run.from_cache = response.from_cache();
  run.timing = std::move(*response.mutable_timing());
  for (int i = 0; i < response.results_size(); ++i) {
    v1::ResultValue& value = *response.mutable_results(i);
    RunResult& result = run.results.emplace_back();
    // A parameter's own handle is the caller's already: owning it twice would free
    // it twice.
    const bool alias = i < signature().results_size() && signature().results(i).has_aliases();
    if (value.has_tensor()) {
      result.tensor = HostTensor::From(std::move(*value.mutable_tensor()));
    } else if (value.has_buffer() && !alias) {
      result.buffer = DeviceBuffer(state_->connection, std::move(*value.mutable_buffer()));
    } else if (value.has_shards() && !alias) {
      for (v1::BufferDescription& shard : *value.mutable_shards()->mutable_buffer()) {
        result.shards.shards.emplace_back(state_->connection, std::move(shard));
      }
      if (value.shards().has_axis()) result.shards.axis = value.shards().axis();
    }
  }
  return run;
}

}  // namespace kiln::client
