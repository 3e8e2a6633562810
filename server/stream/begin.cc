// What each command does first, on the thread that brings it: look names up, take new
// ones, hand the work to the device's queue. What it uses and what it makes or writes
// is noted before anything can fail, so that poison finds its way.
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "server/engine/programs/compile_options.h"
#include "server/fair/lane.h"
#include "server/messages/convert.h"
#include "server/messages/not_implemented.h"
#include "server/stream/command_stream.h"

namespace kiln::server {
namespace {

absl::Span<const int64_t> ShapeOf(const google::protobuf::RepeatedField<int64_t>& shape) {
  return {shape.data(), static_cast<size_t>(shape.size())};
}

}  // namespace

absl::string_view CommandName(int field) {
  const auto* const command = v1::SubmitRequest::descriptor()->FindFieldByNumber(field);
  return command == nullptr ? "" : absl::string_view(command->name());
}

void CommandStream::Begin(Command& command) {
  const v1::SubmitRequest& request = command.request;
  switch (request.command_case()) {
    case v1::SubmitRequest::kHello: return Complete(command, OutOfOrder("a second hello"));
    case v1::SubmitRequest::kAllocate: return Allocate(command);
    case v1::SubmitRequest::kWrite: return Write(command);
    case v1::SubmitRequest::kFill: return Fill(command);
    case v1::SubmitRequest::kCopy: return Copy(command);
    case v1::SubmitRequest::kView: return View(command);
    case v1::SubmitRequest::kCompile: return Compile(command);
    case v1::SubmitRequest::kExecute: return Execute(command);
    case v1::SubmitRequest::kRead: return Read(command);
    case v1::SubmitRequest::kFree: return Free(command);
    case v1::SubmitRequest::kReplay: return Replay(command);
    case v1::SubmitRequest::kFence:
      command.AddAnswer().message.mutable_fence();
      return Complete(command, absl::OkStatus());
    case v1::SubmitRequest::kCollective: return Collective(command);
    // Or one of a later protocol.
    case v1::SubmitRequest::COMMAND_NOT_SET: break;
  }
  Complete(command, NotImplemented("SubmitRequest.command"));
}

void CommandStream::Reads(Command& command, const BufferAddress& at, Bytes bytes) {
  command.touched.Reads(engine_.buffers().table().ExtentOf(at.handle, at.offset, bytes, session_.get()).extent);
}

void CommandStream::Writes(Command& command, const BufferAddress& at, Bytes bytes) {
  command.touched.Writes(engine_.buffers().table().ExtentOf(at.handle, at.offset, bytes, session_.get()).extent);
}

void CommandStream::Overwrites(Command& command, const BufferAddress& at, Bytes bytes) {
  BufferTable::Shown shown = engine_.buffers().table().ExtentOf(at.handle, at.offset, bytes, session_.get());
  // What was never made cannot be overwritten: then the cause is why not.
  shown.made ? command.touched.Overwrites(std::move(shown.extent)) : command.touched.Writes(shown.extent);
}

absl::Status CommandStream::Reserve(Command& command, uint64_t handle) {
  BufferTable& table = engine_.buffers().table();
  absl::StatusOr<PoisonPtr> poison = table.Reserve(handle, *session_);
  // What uses a name that was refused fails as this command does.
  PoisonPtr named = poison.ok() ? *std::move(poison) : table.Refuse(handle, *session_);
  if (named != nullptr) command.touched.Makes({std::move(named), 0, Poison::kEnd});
  return poison.status();
}

void CommandStream::Allocate(Command& command) {
  const v1::AllocateCommand& asked = command.request.allocate();
  if (!std::exchange(command.reserved, true)) {
    if (absl::Status status = Reserve(command, asked.handle()); !status.ok()) return Complete(command, status);
  }
  Buffers& buffers = engine_.buffers();
  const PoisonPtr& poison = command.touched.output(0).poison;
  absl::Status status = asked.has_type()
                            ? buffers.AllocateAs(asked.handle(), poison, asked.device(), asked.type().dtype(),
                                                 ShapeOf(asked.type().shape()), *session_)
                            : buffers.AllocateAs(asked.handle(), poison, asked.device(), asked.bytes(), *session_);
  // Memory that was freed may still be in use by what is under way.
  if (absl::IsResourceExhausted(status) && WaitForOthers(command)) return;
  Complete(command, std::move(status));
}

void CommandStream::View(Command& command) {
  const v1::ViewCommand& asked = command.request.view();
  absl::Status status = Reserve(command, asked.handle());
  if (status.ok()) {
    status = engine_.buffers().ViewAs(asked.handle(), ToAddress(asked.of()), asked.bytes(), asked.dtype(),
                                      ShapeOf(asked.shape()), *session_);
  }
  // Of poisoned bytes it is made, and says so.
  Reads(command, status.ok() ? BufferAddress{asked.handle(), 0} : ToAddress(asked.of()));
  Complete(command, std::move(status));
}

void CommandStream::Write(Command& command) {
  const v1::WriteCommand& asked = command.request.write();
  Overwrites(command, ToAddress(asked.buffer()), asked.data().size());
  auto range = engine_.buffers().Resolve(ToAddress(asked.buffer()), asked.data().size(), session_.get());
  if (!range.ok()) return Complete(command, std::move(range).status());
  Lane(engine_.turns(), *range->device, control_)
      .Write(asked.data().data(), std::move(range->slice),
             [&command](absl::Status status) { command.stream->Complete(command, std::move(status)); });
}

void CommandStream::Fill(Command& command) {
  const v1::FillCommand& asked = command.request.fill();
  Overwrites(command, ToAddress(asked.buffer()), asked.bytes() == 0 ? Bytes() : asked.bytes());
  engine_.buffers().Fill(ToAddress(asked.buffer()), asked.bytes(), asked.pattern(), session_.get(), control_,
                         [&command](absl::Status status) { command.stream->Complete(command, std::move(status)); });
}

void CommandStream::Copy(Command& command) {
  const v1::CopyCommand& asked = command.request.copy();
  Reads(command, ToAddress(asked.from()), asked.bytes());
  Overwrites(command, ToAddress(asked.to()), asked.bytes());
  const BufferAddress from = ToAddress(asked.from()), to = ToAddress(asked.to());
  // It has no place in the queues of two devices until it has ended: commands behind it begin then.
  if (engine_.buffers().IsBetweenDevices(from, to, session_.get())) Wait(command, Stall::kLast);
  engine_.buffers().Copy(from, to, asked.bytes(), session_.get(), control_,
                         [&command](absl::Status status) { command.stream->Complete(command, std::move(status)); });
}

void CommandStream::Free(Command& command) {
  const auto& handles = command.request.free().handle();
  Complete(command, engine_.buffers().Free({handles.data(), static_cast<size_t>(handles.size())}, session_.get()));
}

void CommandStream::Compile(Command& command) {
  const v1::CompileRequest& asked = command.request.compile();
  Wait(command, Stall::kLast);
  CompileRequest request = {&asked.graph(), asked.device(), ToOptions(asked.options())};
  request.hashed = command.hashed.has_value() ? &*command.hashed : nullptr;
  request.parts = &command.parts;
  engine_.Compile(request, control_, [&command](absl::StatusOr<CompileResult> result) {
    if (result.ok()) FillCompiled(*result, *command.AddAnswer().message.mutable_compiled());
    command.stream->Complete(command, result.status());
  });
}

void CommandStream::Replay(Command& command) {
  const v1::ReplaySequenceRequest& asked = command.request.replay();
  ReplayRequest request = ToReplayRequest(asked);
  request.caller = session_;
  request.settled_by_caller = true;
  request.found = engine_.FindRecording(request.recording, session_.get());
  command.touched = engine_.TouchedBy(request, request.found);
  // With programs for several devices it is many entries of their queues, made as it goes: commands behind
  // it begin when it has ended.
  if (request.found != nullptr && !request.found->sequence->is_one_entry()) Wait(command, Stall::kLast);
  request.parts = &command.parts;
  engine_.Replay(request, ControlOf(command), [&command](absl::StatusOr<ExecuteTiming> timing) {
    if (timing.ok() && command.request.replay().want_timing()) {
      v1::ReplaySequenceResponse& answer = *command.AddAnswer().message.mutable_replayed();
      FillTiming(*timing, {command.arrived, command.arrived, SteadyNow()}, *answer.mutable_timing());
    }
    command.stream->Complete(command, timing.status());
  });
}

void CommandStream::Collective(Command& command) {
  const v1::CollectiveCommand& asked = command.request.collective();
  auto request = ToCollectiveRequest(asked);
  if (!request.ok()) {
    for (const v1::BufferRef& input : asked.request().input()) Reads(command, ToAddress(input));
    for (const v1::BufferRef& output : asked.request().output()) Writes(command, ToAddress(output));
    return Complete(command, std::move(request).status());
  }
  request->caller = session_;
  command.touched = engine_.TouchedBy(*request);
  Wait(command, Stall::kLast);  // as a copy between devices
  engine_.Collective(*request, control_, [&command](absl::StatusOr<runtime::collective::Report> report) {
    if (report.ok() && command.request.collective().want_report()) {
      FillReport(*report, *command.AddAnswer().message.mutable_collective());
    }
    command.stream->Complete(command, report.status());
  });
}

}  // namespace kiln::server
