// Tested by the case run.recording (tests/clients/cases/run.json), through tests/clients/cpp_client_test.py.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "client/cpp/client.h"
#include "client/cpp/transport/stubs.h"

namespace kiln::client {
namespace {

// What a program takes, parameters and variables, in ascending order.
std::vector<uint32_t> SlotsOf(const v1::Signature& signature) {
  std::vector<uint32_t> slots;
  for (const v1::Signature::Parameter& row : signature.parameters()) slots.push_back(row.slot());
  for (const v1::Signature::Variable& row : signature.variables()) slots.push_back(row.slot());
  std::sort(slots.begin(), slots.end());
  return slots;
}

bool NeedsGraph(const absl::Status& status) {
  const auto detail = DetailOf(status);
  return detail.has_value() && detail->code() == v1::NEED_GRAPH;
}

}  // namespace

absl::StatusOr<Recording> Client::Record(const std::vector<RecordedCall>& calls) {
  v1::RecordSequenceRequest request;
  request.set_device(connection_->options().device);
  if (request.device().empty() && server_.devices_size() > 0) request.set_device(server_.devices(0).name());
  std::vector<Program> programs;
  for (const RecordedCall& call : calls) {
    const auto same = [&call](const Program& other) { return other.IsSame(call.program); };
    const auto found = std::find_if(programs.begin(), programs.end(), same);
    v1::RecordedStep& step = *request.add_steps();
    step.set_program(static_cast<uint32_t>(found - programs.begin()));
    if (found == programs.end()) {
      v1::RecordedProgram& program = *request.add_programs();
      program.set_graph_hash(call.program.hash());
      *program.mutable_options() = call.program.options();
      programs.push_back(call.program);
    }
    const std::vector<uint32_t> slots = SlotsOf(call.program.signature());
    if (slots.size() != call.memory.size()) {
      return MakeError(v1::BAD_ARGUMENT,
                       absl::StrCat("call ", request.steps_size() - 1, " of a recording gives ", call.memory.size(),
                                    " places to a program of ", slots.size(), " arguments"));
    }
    for (size_t i = 0; i < slots.size(); ++i) {
      v1::RecordedArgument& argument = *step.add_arguments();
      argument.set_slot(slots[i]);
      argument.mutable_memory()->set_buffer(call.memory[i].buffer);
      argument.mutable_memory()->set_offset(call.memory[i].offset);
    }
  }
  Recording recording(connection_, std::move(request), std::move(programs));
  KILN_ASSIGN_OR_RETURN(recording.hash_, recording.Record());
  return recording;
}

absl::StatusOr<std::string> Recording::Record() const {
  v1::RecordSequenceResponse response;
  KILN_RETURN_IF_ERROR(Call(*connection_, connection_->stubs().kernels, &v1::KernelService::Stub::RecordSequence,
                            "RecordSequence", request_, &response));
  return response.recording();
}

absl::Status Recording::Replay(const std::vector<v1::BufferRef>& buffers) const {
  v1::ReplaySequenceRequest request;
  request.set_recording(hash_);
  for (const v1::BufferRef& buffer : buffers) *request.add_buffers() = buffer;
  const auto replay = [&] {
    v1::ReplaySequenceResponse response;
    return Call(*connection_, connection_->stubs().kernels, &v1::KernelService::Stub::ReplaySequence, "ReplaySequence",
                request, &response);
  };
  const absl::Status status = replay();
  if (!NeedsGraph(status)) return status;
  KILN_RETURN_IF_ERROR(RecordAgain());
  return replay();
}

absl::Status Recording::RecordAgain() const {
  const absl::Status status = Record().status();
  if (!NeedsGraph(status)) return status;
  for (const Program& program : programs_) {
    v1::CompileRequest request;
    *request.mutable_graph() = program.graph();
    request.set_device(request_.device());
    *request.mutable_options() = program.options();
    v1::CompileResponse response;
    KILN_RETURN_IF_ERROR(Call(*connection_, connection_->stubs().kernels, &v1::KernelService::Stub::Compile, "Compile",
                              request, &response));
  }
  return Record().status();
}

}  // namespace kiln::client
