// A read: its bytes go out in pieces, as they come from the device.
//
// All pieces are handed to the device's queue before the next command is begun, so that
// they are of one moment. What the connection has no room for waits, and the commands
// behind it wait with it: the server never has more than the limit of a client's bytes,
// however much is read.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "server/fair/lane.h"
#include "server/messages/convert.h"
#include "server/stream/command_stream.h"

namespace kiln::server {
namespace {

constexpr uint64_t kPieceBytes = 1 << 20;

}  // namespace

void CommandStream::Read(Command& command) {
  const v1::ReadCommand& asked = command.request.read();
  const Bytes bytes = asked.bytes() == 0 ? Bytes() : asked.bytes();
  Reads(command, ToAddress(asked.buffer()), bytes);
  const auto range = engine_.buffers().Resolve(ToAddress(asked.buffer()), bytes, session_.get());
  if (!range.ok()) return Complete(command, range.status());
  command.read = *range;
  command.pieces_under_way = 1;
  ReadOn(command);
}

void CommandStream::ReadOn(Command& command) {
  const runtime::hal::BufferSlice& whole = command.read.slice;
  for (;;) {
    if (Ended()) return OnPiece(command, MakeError(v1::CALL_CANCELLED, "the stream has ended"), /*data=*/false);
    {
      absl::ReleasableMutexLock lock(&mutex_);
      if (IsStopped(command)) {
        lock.Release();
        return OnPiece(command, absl::OkStatus(), /*data=*/false);
      }
    }
    const uint64_t size = std::min(whole.bytes - command.next_byte, kPieceBytes);
    const bool more = command.next_byte + size < whole.bytes;
    const runtime::hal::BufferSlice from{whole.buffer, whole.offset + command.next_byte, size};
    command.next_byte += size;
    const absl::StatusOr<v1::SubmitResponse*> message = AddPiece(command, size, more);
    if (!message.ok()) return OnPiece(command, message.status(), /*data=*/false);
    command.pieces_under_way.fetch_add(1, std::memory_order_relaxed);
    Lane(engine_.turns(), *command.read.device, control_)
        .Read(from, (*message)->mutable_data()->data(),
              [&command](const absl::Status& status) { command.stream->OnPiece(command, status, /*data=*/true); });
    if (!more) return OnPiece(command, absl::OkStatus(), /*data=*/false);
    if (WaitForAnswers(command)) return;
  }
}

absl::StatusOr<v1::SubmitResponse*> CommandStream::AddPiece(Command& command, uint64_t size, bool more) {
  auto answer = std::make_shared<Answer>();
  // Once more as the message that travels.
  KILN_ASSIGN_OR_RETURN(answer->charge, Hold(control_.account, Quota::kHostBytes, 2 * size));
  answer->message.set_command_id(command.request.command_id());
  answer->message.set_more(more);
  answer->message.mutable_data()->resize(size);
  v1::SubmitResponse* message = &answer->message;
  absl::MutexLock lock(&mutex_);
  command.answers.push_back(std::move(answer));
  command.coming_bytes += size;
  coming_bytes_ += size;
  return message;
}

bool CommandStream::WaitForAnswers(Command& command) {
  absl::MutexLock lock(&mutex_);
  if (AnswersHaveRoom() || Ended()) return false;
  stall_ = Stall::kAnswers;
  stalled_ = &command;
  return true;
}

void CommandStream::OnPiece(Command& command, const absl::Status& status, bool data) {
  std::shared_ptr<Outlet> wake;
  bool last = false;
  absl::Status outcome;
  {
    absl::MutexLock lock(&mutex_);
    if (command.status.ok()) command.status = status;
    if (data && command.status.ok()) ++command.ready;
    last = command.pieces_under_way.fetch_sub(1, std::memory_order_relaxed) == 1;
    outcome = command.status;
    if (!last && under_way_.front().get() == &command && command.ready > 0 && !IsStopped(command)) {
      Release(command);
      wake = outlet_;
    }
  }
  // Nothing of the command is touched from here on unless it is the last.
  if (last) return Complete(command, std::move(outcome));
  if (wake != nullptr) wake->Wake();
}

}  // namespace kiln::server
