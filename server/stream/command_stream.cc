#include "server/stream/command_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/error.h"
#include "runtime/hal/wanted_copy.h"
#include "server/fair/lane.h"
#include "server/metrics/count.h"
#include "server/trace/traces.h"

namespace kiln::server {
namespace {

absl::Status SessionTaken() {
  v1::ErrorDetail detail;
  detail.set_code(v1::SESSION_BUSY);
  detail.set_field(kSessionHeader);
  return MakeError(detail,
                   "another connection has taken this session; do not come back unasked, or the two take turns");
}

CausePtr CauseOf(const Command& command) {
  return std::make_shared<const Cause>(Cause{command.request.command_id(), command.request.tag(), command.status});
}

}  // namespace

absl::Status OutOfOrder(absl::string_view message) {
  v1::ErrorDetail detail;
  detail.set_code(v1::COMMAND_ORDER);
  detail.set_field("command_id");
  return MakeError(detail, message);
}

CommandStream::CommandStream(Engine& engine, SessionPtr session, bool resumable, absl::Time deadline)
    : engine_(engine),
      session_(std::move(session)),
      resumable_(resumable),
      limits_(engine.stream_limits()),
      control_{&cancelled_, resumable ? absl::InfiniteFuture() : deadline, session_->account(), FlowOf(*session_)},
      answers_(/*keep=*/resumable, limits_.answer_bytes) {}

CommandStream::Resumed CommandStream::Connect(std::shared_ptr<Outlet> outlet, uint64_t acknowledged) {
  Resumed resumed;
  {
    absl::MutexLock lock(&mutex_);
    outlet_.swap(outlet);
    last_id_ = 0;
    end_.reset();
    parked_ = false;
    answers_.Acknowledge(acknowledged);
    answers_.Rewind();
    resumed = {accepted_, answers_.lost()};
  }
  if (outlet != nullptr) outlet->Wake();
  return resumed;
}

void CommandStream::Disconnect(const Outlet* outlet) {
  // What is dropped here goes when the lock has gone.
  std::shared_ptr<Outlet> gone;
  std::deque<std::unique_ptr<Command>> dropped;
  {
    absl::MutexLock lock(&mutex_);
    if (outlet_.get() != outlet) return;
    gone = std::move(outlet_);
    if (!resumable_) {
      cancelled_.store(true, std::memory_order_relaxed);
      dropped.swap(pending_);
      answers_.Close();
    }
  }
  if (resumable_) return;
  engine_.buffers().table().End(*session_);
  Pump();
}

void CommandStream::OnSessionEnd() {
  std::shared_ptr<Outlet> outlet;
  std::deque<std::unique_ptr<Command>> dropped;
  {
    absl::MutexLock lock(&mutex_);
    session_ended_ = true;
    cancelled_.store(true, std::memory_order_relaxed);
    dropped.swap(pending_);
    answers_.Close();
    outlet = outlet_;
  }
  Pump();
  if (outlet != nullptr) outlet->Wake();
}

SessionStream::Use CommandStream::use() const {
  absl::MutexLock lock(&mutex_);
  return {.connected = outlet_ != nullptr,
          .accepted = accepted_,
          .pending = pending_.size(),
          .under_way = under_way_.size(),
          .payload_bytes = payload_bytes_,
          .answer_bytes = answers_.bytes()};
}

void CommandStream::Accept(const Outlet* outlet, std::unique_ptr<Command> command,
                           const std::shared_ptr<const void>& guard) {
  const uint64_t id = command->request.command_id();
  {
    absl::MutexLock lock(&mutex_);
    if (outlet_.get() != outlet || end_.has_value() || Ended()) return;
    if (command->request.acknowledged() != 0) answers_.Acknowledge(command->request.acknowledged());
    if (id <= last_id_) {
      end_ = OutOfOrder(absl::StrCat("command ", id, " after command ", last_id_, "; ids rise, and begin above 0"));
    } else {
      last_id_ = id;
      if (id <= accepted_) return;  // sent again
      accepted_ = id;
      command->stream = shared_from_this();
      command->guard = guard;
      payload_bytes_ += command->payload_bytes;
      pending_.push_back(std::move(command));
    }
  }
  Pump();
}

void CommandStream::Close(const Outlet* outlet, absl::Status status) {
  std::shared_ptr<Outlet> wake;
  {
    absl::MutexLock lock(&mutex_);
    if (outlet_.get() != outlet || end_.has_value()) return;
    end_ = std::move(status);
    wake = outlet_;
  }
  wake->Wake();
}

bool CommandStream::HasRoom(const Outlet* outlet) const {
  absl::MutexLock lock(&mutex_);
  const bool room = outlet_.get() == outlet && !end_.has_value() && !Ended() && HasRoomLocked();
  parked_ = !room;
  return room;
}

bool CommandStream::HasRoomLocked() const {
  return pending_.empty() && stall_ == Stall::kNone && under_way_.size() < limits_.commands &&
         payload_bytes_ < limits_.payload_bytes && AnswersHaveRoom() && QuotaHasRoom();
}

// Without room, something of the stream's own must be under way: when it ends, this is asked again.
bool CommandStream::QuotaHasRoom() const {
  const Account* const account = control_.account;
  if (account == nullptr || under_way_.empty()) return true;
  return !account->Full(Quota::kInFlight) && !account->Full(Quota::kHostBytes);
}

bool CommandStream::AnswersHaveRoom() const { return answers_.bytes() + coming_bytes_ < limits_.answer_bytes; }

CommandStream::Event CommandStream::Next(const Outlet* outlet) {
  absl::MutexLock lock(&mutex_);
  if (session_ended_) return {nullptr, ExpiredSession()};
  if (outlet_.get() != outlet) return {nullptr, SessionTaken()};
  if (AnswerPtr answer = answers_.Take(); answer != nullptr) return {std::move(answer), absl::nullopt};
  if (end_.has_value() && pending_.empty() && under_way_.empty()) return {nullptr, *end_};
  return {};
}

void CommandStream::Continue() {
  {
    absl::MutexLock lock(&mutex_);
    if (beginning_ || !CanGoOn()) return;
  }
  Pump();
}

// Whether Pump has something to do.
bool CommandStream::CanGoOn() const {
  switch (stall_) {
    case Stall::kNone: return !pending_.empty();
    case Stall::kLast: return false;
    case Stall::kIdle: return idle_;
    case Stall::kAnswers: return AnswersHaveRoom() || Ended() || IsStopped(*stalled_);
  }
  return false;
}

void CommandStream::Pump() {
  mutex_.Lock();
  if (beginning_) {
    mutex_.Unlock();
    return;
  }
  beginning_ = true;
  while (CanGoOn()) {
    Command* command = stalled_;
    if (stall_ == Stall::kNone) {
      under_way_.push_back(std::move(pending_.front()));
      pending_.pop_front();
      command = under_way_.back().get();
    }
    const bool reads_on = stall_ == Stall::kAnswers;
    stall_ = Stall::kNone;
    stalled_ = nullptr;
    mutex_.Unlock();
    reads_on ? ReadOn(*command) : Begin(*command);
    mutex_.Lock();
  }
  beginning_ = false;
  // The connection may have found no room while this went on.
  std::shared_ptr<Outlet> wake;
  if (outlet_ != nullptr && (end_.has_value() || (parked_ && HasRoomLocked()))) wake = outlet_;
  mutex_.Unlock();
  if (wake != nullptr) wake->Wake();
}

void CommandStream::Wait(Command& command, Stall why) {
  absl::MutexLock lock(&mutex_);
  stall_ = why;
  stalled_ = &command;
}

bool CommandStream::WaitForOthers(Command& command) {
  bool alone = false;
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(command.tried, true) || Ended()) return false;
    stall_ = Stall::kIdle;
    stalled_ = &command;
    idle_ = false;
    alone = under_way_.size() == 1;
  }
  if (alone) PassQueues(0);
  return true;
}

void CommandStream::PassQueues(size_t first) {
  const auto devices = engine_.devices(RulesOf(session_.get()));
  if (first < devices.size()) {
    return Lane(engine_.turns(), *devices[first], control_)
        .Pass([self = shared_from_this(), first](const absl::Status&) { self->PassQueues(first + 1); });
  }
  {
    absl::MutexLock lock(&mutex_);
    idle_ = true;
  }
  Pump();
}

void CommandStream::Submitted(uint64_t command_id) {
  {
    absl::MutexLock lock(&mutex_);
    if (stall_ != Stall::kLast || stalled_->request.command_id() != command_id) return;
    stall_ = Stall::kNone;
    stalled_ = nullptr;
    if (beginning_) return;
  }
  Pump();
}

void CommandStream::Complete(Command& command, absl::Status status) {
  const std::shared_ptr<CommandStream> self = command.stream;
  command.ended = SteadyNow();
  Retired retired;
  std::shared_ptr<Outlet> wake;
  bool go_on = false, alone = false;
  {
    absl::MutexLock lock(&mutex_);
    command.status = runtime::hal::WithoutNote(std::move(status));  // what it touches is poisoned, in part or not
    command.done = true;
    if (!command.status.ok() && under_way_.front().get() != &command) {
      // Calls that are no commands of the stream's may come before it retires.
      command.failure = CauseOf(command);
      command.touched.MarkMadePoisoned(command.failure);
    }
    if (stalled_ == &command) {
      stall_ = Stall::kNone;
      stalled_ = nullptr;
    }
    Retire(retired);
    const bool ends = end_.has_value() && under_way_.empty() && pending_.empty();
    if (!answers_.empty() || ends || (parked_ && HasRoomLocked())) wake = outlet_;
    alone = !retired.empty() && stall_ == Stall::kIdle && under_way_.size() == 1;
    go_on = !beginning_ && CanGoOn();
  }
  for (const std::unique_ptr<Command>& each : retired) Trace(*each);
  retired.clear();
  if (wake != nullptr) wake->Wake();
  if (alone) PassQueues(0);
  if (go_on) Pump();
}

void CommandStream::Retire(Retired& retired) {
  while (!under_way_.empty() && under_way_.front()->done) {
    RetireOne(*under_way_.front());
    payload_bytes_ -= under_way_.front()->payload_bytes;
    under_way_.front()->in_flight.Release();
    under_way_.front()->payload.Release();
    retired.push_back(std::move(under_way_.front()));
    under_way_.pop_front();
  }
  // Of a long read, what is there already.
  if (!under_way_.empty() && under_way_.front()->ready > 0 && !IsStopped(*under_way_.front())) {
    Release(*under_way_.front());
  }
}

// Hands on the answers that are ready.
void CommandStream::Release(Command& command) {
  for (int i = 0; i < command.ready; ++i) {
    const uint64_t came = std::min<uint64_t>(command.coming_bytes, command.answers[i]->message.data().size());
    command.coming_bytes -= came;
    coming_bytes_ -= came;
    answers_.Add(std::move(command.answers[i]));
    command.answered = true;
  }
  command.answers.erase(command.answers.begin(), command.answers.begin() + std::exchange(command.ready, 0));
}

void CommandStream::Expect(Command& command, uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  command.coming_bytes += bytes;
  coming_bytes_ += bytes;
}

void CommandStream::RetireOne(Command& command) {
  const v1::SubmitRequest& request = command.request;
  CausePtr cause = command.touched.Cause();
  // It may read what it makes, which its own failure has poisoned: that is no cause from before.
  const bool from_before = cause != nullptr && cause != command.failure;
  if (!from_before && !command.status.ok()) {
    CountFailure(engine_.metrics(), command.status);
    cause = command.failure == nullptr ? CauseOf(command) : command.failure;
  }
  if (cause != nullptr) {
    command.outcome = cause->status.code();
    if (command.failure != nullptr) command.touched.Replace(command.failure, cause);
    command.touched.MarkPoisoned(cause);
    command.answers.clear();
    Answer& answer = command.AddAnswer();
    answer.failure = cause->status;
    answer.message.mutable_failed()->set_tag(cause->tag);
    if (from_before) answer.message.mutable_failed()->set_cause_command_id(cause->command_id);
  } else {
    command.touched.Heal();
    if (command.answers.empty() && request.answer() && !command.answered) command.AddAnswer().message.mutable_done();
  }
  command.ready = static_cast<int>(command.answers.size());
  Release(command);
  coming_bytes_ -= command.coming_bytes;
}

void CommandStream::Trace(const Command& command) {
  Traces& traces = engine_.traces();
  if (!traces.on()) return;
  CallRecord record;
  record.trace = command.trace;
  record.command = static_cast<uint8_t>(command.request.command_case());
  record.owner = OwnerNumber(control_.account);
  record.method = command.method;
  record.status = static_cast<uint16_t>(command.outcome);
  record.time = {absl::ToUnixNanos(command.arrived), absl::ToUnixNanos(command.ended)};
  record.parts = command.parts;
  traces.Keep(record, command.parts.stages.get());
}

}  // namespace kiln::server
