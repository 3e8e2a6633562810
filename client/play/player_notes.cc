// What a report says beside the values: whose they are, and how long it took.
#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/graph/graph_hash.h"
#include "client/play/player.h"
#include "google/rpc/status.pb.h"
#include "kiln/v1/buffer_service.pb.h"
#include "kiln/v1/error.pb.h"

namespace kiln::play {
namespace {

// The code that programs read, by name; else gRPC's.
std::string CodeOf(const std::string& bytes) {
  google::rpc::Status status;
  if (!status.ParseFromString(bytes)) return "no status";
  for (const auto& packed : status.details()) {
    v1::ErrorDetail detail;
    if (packed.UnpackTo(&detail)) return v1::ErrorCode_Name(detail.code());
  }
  return absl::StrCat("status ", status.code());
}

std::string TextOf(const std::string& bytes) {
  google::rpc::Status status;
  status.ParseFromString(bytes);
  return absl::StrCat(CodeOf(bytes), ": ", status.message());
}

// Of the buffer that is the argument in `slot`; 0 if there is none.
uint64_t HandleAt(const v1::ExecuteRequest& request, uint32_t slot) {
  for (const v1::Argument& argument : request.arguments()) {
    if (argument.has_buffer() && argument.slot() == slot) return argument.buffer().handle();
    const uint32_t place = slot - argument.slot();  // a run of slots begins with the argument's
    if (argument.has_handles() && slot >= argument.slot() &&
        place < static_cast<uint32_t>(argument.handles().handle_size())) {
      return argument.handles().handle(static_cast<int>(place));
    }
  }
  return 0;
}

}  // namespace

std::string Player::ProgramOf(const v1::ExecuteRequest& request) {
  if (!request.graph_hash().empty()) return absl::BytesToHexString(request.graph_hash());
  const auto hash = HashGraph(request.graph());
  return hash.ok() ? hash->Hex() : "";
}

void Player::NoteCompiled(const v1::CompileResponse& compiled) {
  signatures_[absl::BytesToHexString(compiled.graph_hash())] = compiled.signature();
}

void Player::NoteExecuted(const v1::ExecuteRequest& request, const std::string& program,
                          const std::vector<uint64_t>& results) {
  const auto found = signatures_.find(program);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i] != 0) handles_.content(results[i]) = {v1::DTYPE_UNSPECIFIED, program};
  }
  if (found == signatures_.end()) return;
  const v1::Signature& signature = found->second;
  for (int i = 0; i < signature.results_size(); ++i) {
    const v1::Signature::Result& result = signature.results(i);
    if (static_cast<size_t>(i) < results.size() && results[i] != 0) {
      handles_.content(results[i]).dtype = result.dtype();
    }
    if (!result.has_aliases()) continue;
    const uint64_t updated = HandleAt(request, signature.parameters(result.aliases()).slot());
    if (updated != 0) handles_.content(updated).program = program;
  }
}

void Player::NoteAnswer(Call& call, const google::protobuf::Message& captured) {
  const auto note = [this](const v1::BufferDescription& buffer, const std::string& program) {
    handles_.content(buffer.handle()) = {buffer.dtype(), program};
  };
  const google::protobuf::Descriptor* const type = captured.GetDescriptor();
  if (type == v1::AllocateResponse::descriptor()) {
    note(static_cast<const v1::AllocateResponse&>(captured).buffer(), "");
  } else if (type == v1::ViewResponse::descriptor()) {
    const v1::BufferDescription& view = static_cast<const v1::ViewResponse&>(captured).buffer();
    note(view, handles_.content(view.view_of()).program);
  } else if (type == v1::ExecuteResponse::descriptor()) {
    for (const v1::ResultValue& result : static_cast<const v1::ExecuteResponse&>(captured).results()) {
      if (result.has_buffer()) note(result.buffer(), call.program);
    }
  }
}

void Player::NoteTime(const std::string& program, const v1::Timing& timing) {
  ProgramTime& time = report_.programs[program];
  time.least_us = time.runs == 0 ? timing.device_us() : std::min(time.least_us, timing.device_us());
  ++time.runs;
  time.device_us += timing.device_us();
}

void Player::Differ(const Call& call, uint64_t command, const std::string& program, Mismatch mismatch) {
  if (report_.differences++ > 0) return;
  report_.first = Difference{call.number, call.method->name, command, program, std::move(mismatch)};
}

void Player::CompareFailures(const Call& call, uint64_t command, const std::string& captured,
                             const std::string& played) {
  if (CodeOf(captured) != CodeOf(played)) {
    return Differ(call, command, call.program,
                  {"", absl::StrCat("it failed: ", TextOf(captured)), absl::StrCat("it failed: ", TextOf(played))});
  }
  ++report_.equal;
}

}  // namespace kiln::play
