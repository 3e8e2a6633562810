// An execution: its results have their names and memory before it runs, so that the
// commands behind it can be begun. One on several devices is many entries of their
// queues, made as it goes; so what is behind it begins when it has ended.
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "runtime/exec/program.h"
#include "server/engine/executions/arguments.h"
#include "server/messages/convert.h"
#include "server/stream/command_stream.h"

namespace kiln::server {
namespace {

// One, or one a device.
template <typename Fn>
void ForBuffers(const Argument& argument, const Fn& fn) {
  if (const auto* at = std::get_if<BufferAddress>(&argument.value)) fn(*at);
  const auto* shards = std::get_if<ShardAddresses>(&argument.value);
  if (shards == nullptr) return;
  for (const BufferAddress& at : shards->shards) fn(at);
}

}  // namespace

void CommandStream::Execute(Command& command) {
  const v1::ExecuteCommand& asked = command.request.execute();
  auto request = ToExecuteRequest(asked.request());
  absl::Status status = request.status();
  if (!command.reserved) {
    for (size_t i = 0; status.ok() && i < request->arguments.size(); ++i) {
      ForBuffers(request->arguments[i], [&](const BufferAddress& at) { Reads(command, at); });
    }
    for (const uint64_t handle : asked.result_handle()) {
      if (handle == 0) continue;
      if (absl::Status taken = Reserve(command, handle); status.ok()) status = std::move(taken);
    }
    command.reserved = true;
  }
  if (status.ok() && request->results_inline && asked.result_handle_size() > 0) {
    v1::ErrorDetail detail;
    detail.set_code(v1::BAD_ARGUMENT);
    detail.set_field("result_handle");
    status = MakeError(detail, "results by value have no handles");
  }
  if (!status.ok()) {
    NoteTouched(command);
    return Complete(command, std::move(status));
  }
  request->caller = session_;
  request->hashed = command.hashed.has_value() ? &*command.hashed : nullptr;
  request->settled_by_caller = true;
  request->results_named = !request->results_inline;
  request->result_names = {asked.result_handle().data(), static_cast<size_t>(asked.result_handle_size())};
  request->started = [&command](const runtime::Program& program, const BoundArguments& bound, uint64_t inline_bytes) {
    command.stream->OnStarted(command, program, bound, inline_bytes);
  };
  request->submitted = [self = shared_from_this(), id = command.request.command_id()] { self->Submitted(id); };
  Wait(command, Stall::kLast);
  request->parts = &command.parts;
  engine_.Execute(*std::move(request), ControlOf(command), [&command](absl::StatusOr<ExecuteResult> result) {
    command.stream->OnExecuted(command, std::move(result));
  });
}

void CommandStream::OnStarted(Command& command, const runtime::Program& program, const BoundArguments& bound,
                              uint64_t inline_bytes) {
  command.touched.ForgetReads();  // of these, some are overwritten
  AddTouched(program, bound, command.touched);
  command.started = true;
  if (inline_bytes > 0) Expect(command, inline_bytes);
}

// What the program would have read and written, which is known if the program is: of a
// failure before the start, and of programs on several devices.
void CommandStream::NoteTouched(Command& command) {
  const v1::ExecuteRequest& asked = command.request.execute().request();
  auto request = ToExecuteRequest(asked);
  if (!request.ok()) return;
  request->caller = session_;
  request->hashed = command.hashed.has_value() ? &*command.hashed : nullptr;
  const ProgramStore::Program program = engine_.FindProgram(*request);
  if (program == nullptr) return;
  command.touched.ForgetReads();
  for (int i = 0; i < program->signature().parameters_size(); ++i) {
    const v1::Signature::Parameter& parameter = program->signature().parameters(i);
    const uint64_t bytes = program->program->share_bytes(static_cast<size_t>(i));
    for (const Argument& argument : request->arguments) {
      if (argument.slot != parameter.slot()) continue;
      ForBuffers(argument, [&](const BufferAddress& at) {
        if (parameter.overwritten() && parameter.symbolic().empty()) return Overwrites(command, at, bytes);
        parameter.written() ? Writes(command, at, bytes) : Reads(command, at, bytes);
      });
    }
  }
}

void CommandStream::OnExecuted(Command& command, absl::StatusOr<ExecuteResult> result) {
  if (!result.ok()) {
    if (!command.started) {
      // Memory that was freed may still be in use by what is under way.
      if (absl::IsResourceExhausted(result.status()) && WaitForOthers(command)) return Pump();
      NoteTouched(command);
    }
    return Complete(command, std::move(result).status());
  }
  if (!command.started) NoteTouched(command);  // on several devices
  const v1::ExecuteCommand& asked = command.request.execute();
  // What was sent by value and written comes back by value.
  bool values = false;
  for (const ResultValue& value : result->results) values |= value.buffer == nullptr && !value.shape.empty();
  if (values || asked.request().want_timing() || asked.request().result_mode() == v1::RESULT_INLINE) {
    Answer& whole = command.AddAnswer();
    whole.charge = std::move(result->charge);
    v1::ExecuteResponse& answer = *whole.message.mutable_executed();
    const absl::Time executed = SteadyNow();
    answer.set_from_cache(result->from_cache);
    FillResults(*result, answer);
    if (asked.request().want_timing()) {
      FillTiming(result->timing, {command.arrived, command.arrived, executed}, *answer.mutable_timing());
      FillCollectives(*result, answer);
    }
  }
  Complete(command, absl::OkStatus());
}

}  // namespace kiln::server
