// Streams of commands: each is sent, and waited for.
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/play/player.h"

namespace kiln::play {
namespace {

absl::Status Senseless(uint64_t call) {
  return absl::DataLossError(absl::StrCat("the capture makes no sense at call ", call, ": no message of a stream"));
}

bool Send(client::RawCall& raw, const v1::SubmitRequest& request) {
  const grpc::Slice slice(request.SerializeAsString());
  return raw.Write(grpc::ByteBuffer(&slice, 1));
}

bool Receive(client::RawCall& raw, v1::SubmitResponse& response) {
  grpc::ByteBuffer buffer;
  grpc::Slice bytes;
  if (!raw.Read(buffer) || !buffer.DumpToSingleSlice(&bytes).ok()) return false;
  return response.ParseFromArray(bytes.begin(), static_cast<int>(bytes.size()));
}

// Answers that a client hears of only if it asks for them.
bool IsUnasked(const v1::SubmitRequest& request, const v1::SubmitResponse& response) {
  if (response.has_done()) return !request.answer();
  if (response.has_executed())
    return response.executed().results().empty() && !request.execute().request().want_timing();
  return response.has_replayed() && !request.replay().want_timing();
}

}  // namespace

Player::Session& Player::SessionOf(const Call& call) { return sessions_[call.session]; }

absl::Status Player::CommandReceived(Call& call, const std::string& bytes) {
  v1::SubmitRequest captured;
  if (!captured.ParseFromString(bytes)) return Senseless(call.number);
  v1::SubmitRequest request = captured;
  request.set_acknowledged(0);
  v1::SubmitResponse response;
  if (request.has_hello()) {
    uint64_t number = 0;
    const std::string& token = request.hello().session_token();
    if (token.size() == sizeof number) {
      std::memcpy(&number, token.data(), sizeof number);
      call.session = number;
    }
    request.mutable_hello()->clear_session_token();  // it goes with the call
    // Each command was waited for: none of their answers is to come again.
    if (call.session != 0) request.set_acknowledged(SessionOf(call).last_command);
    Open(call);
    if (!Send(*call.raw, request) || !Receive(*call.raw, response)) Complete(call);
    return absl::OkStatus();
  }
  // Without a session every stream counts anew. What was sent again after a connection was
  // lost runs once here, too.
  if (call.session != 0) {
    uint64_t& last = SessionOf(call).last_command;
    if (request.command_id() <= last) return absl::OkStatus();
    last = request.command_id();
  }
  if (call.raw == nullptr) return absl::OkStatus();  // it has ended here
  ++report_.commands;
  NoteCommand(call, captured);
  handles_.Translate(request);
  request.set_answer(true);
  request.set_acknowledged(request.command_id() - 1);
  if (request.has_execute()) request.mutable_execute()->mutable_request()->set_want_timing(true);
  if (request.has_replay()) request.mutable_replay()->set_want_timing(true);
  if (!Send(*call.raw, request)) return Complete(call), absl::OkStatus();
  do {
    if (!Receive(*call.raw, response)) return Complete(call), absl::OkStatus();
    if (response.has_compiled()) NoteCompiled(response.compiled());
    if (response.has_executed()) NoteTime(ProgramOf(captured.execute().request()), response.executed().timing());
    if (!IsUnasked(captured, response)) call.by_command[request.command_id()].push_back(response);
  } while (response.more());
  return absl::OkStatus();
}

void Player::NoteCommand(Call& call, const v1::SubmitRequest& request) {
  switch (request.command_case()) {
    case v1::SubmitRequest::kAllocate:
      handles_.content(request.allocate().handle()) = {request.allocate().type().dtype(), ""};
      return;
    case v1::SubmitRequest::kView:
      handles_.content(request.view().handle()) = {request.view().dtype(),
                                                   handles_.content(request.view().of().handle()).program};
      return;
    case v1::SubmitRequest::kCopy:
      return handles_.NoteCopy(request.copy().from().handle(), request.copy().to().handle());
    case v1::SubmitRequest::kExecute: {
      const auto& names = request.execute().result_handle();
      return NoteExecuted(request.execute().request(), ProgramOf(request.execute().request()),
                          {names.begin(), names.end()});
    }
    case v1::SubmitRequest::kRead:
      call.reads[request.command_id()] = handles_.content(request.read().buffer().handle());
      return;
    default: return;
  }
}

absl::Status Player::CommandSent(Call& call, const std::string& bytes) {
  v1::SubmitResponse captured;
  if (!captured.ParseFromString(bytes)) return Senseless(call.number);
  if (captured.has_welcome()) return absl::OkStatus();
  const uint64_t id = captured.command_id();
  // Answers come in order: what is before it had none.
  while (!call.by_command.empty() && call.by_command.begin()->first < id) {
    const auto& [silent, answers] = *call.by_command.begin();
    if (!answers.empty() && answers.back().has_failed()) {
      Differ(call, silent, "", {"", "it went well", "it failed"});
    }
    call.by_command.erase(call.by_command.begin());
  }
  const auto found = call.by_command.find(id);
  if (found == call.by_command.end() || found->second.empty()) {
    ++report_.passed_over;  // it came a second time
    return absl::OkStatus();
  }
  const v1::SubmitResponse played = std::move(found->second.front());
  found->second.pop_front();
  if (!captured.more()) call.by_command.erase(found);
  CompareCommand(call, captured, played);
  if (!captured.more()) call.reads.erase(id);
  return absl::OkStatus();
}

void Player::CompareCommand(Call& call, const v1::SubmitResponse& captured, const v1::SubmitResponse& played) {
  const uint64_t id = captured.command_id();
  const Handles::Content content = call.reads[id];
  if (captured.has_failed() && played.has_failed()) {
    return CompareFailures(call, id, captured.failed().status(), played.failed().status());
  }
  if (captured.has_failed()) return Differ(call, id, content.program, {"", "it failed", "it was answered"});
  if (played.has_failed()) return Differ(call, id, content.program, {"", "it was answered", "it failed"});
  absl::optional<Mismatch> mismatch;
  if (captured.event_case() == v1::SubmitResponse::kData) {
    mismatch = CompareData(captured.data(), played.data(), content.dtype, call.compared_bytes);
    call.compared_bytes = captured.more() ? call.compared_bytes + captured.data().size() : 0;
  } else {
    mismatch = CompareAnswers(captured, played);
  }
  if (mismatch.has_value()) return Differ(call, id, content.program, *std::move(mismatch));
  ++report_.equal;
  report_.equal_bytes += captured.data().size();
}

}  // namespace kiln::play
