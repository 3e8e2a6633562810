#include "client/cpp/transport/stream_link.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "client/cpp/transport/status.h"
#include "client/cpp/transport/stubs.h"

namespace kiln::client {
namespace {

constexpr uint32_t kProtocol = 1;
// What an answer is asked for after, as a part of what may be unconfirmed.
constexpr uint64_t kAsks = 4;
constexpr absl::Duration kAgain = absl::Milliseconds(100);
constexpr absl::Duration kFarewell = absl::Seconds(5);

// A stream that ended so may be taken up again: nobody has said why, so it is the
// connection that was lost.
bool MayPass(const absl::Status& status) {
  return !DetailOf(status).has_value() && (absl::IsUnavailable(status) || absl::IsInternal(status) ||
                                           absl::IsUnknown(status) || absl::IsCancelled(status));
}

absl::Status Lost(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat("the connection was lost", what));
}

// Of a command that failed, or used what another had failed to make: that one's tag.
absl::Status FailureOf(const v1::CommandFailed& failed) {
  const absl::Status failure = FromDetails(failed.status());
  if (failed.tag().empty()) return failure;
  return WithDetail(failure, [&failed](v1::ErrorDetail& detail) { detail.set_tag(failed.tag()); });
}

// Nothing that such a server says of the stream is to be believed.
absl::Status Lie(absl::string_view what) { return MakeError(v1::INTERNAL_FAULT, absl::StrCat("the server ", what)); }

}  // namespace

struct StreamLink::Call {
  // Why it has ended. A message that cannot be parsed ends the reading, and not the call: then it is given up, and
  // `unreadable` is set.
  grpc::Status Finish() {
    absl::Notification finished;
    std::thread gives_up([this, &finished] {
      if (finished.WaitForNotificationWithTimeout(kFarewell)) return;
      unreadable = true;
      context.TryCancel();
    });
    const grpc::Status status = stream->Finish();
    finished.Notify();
    gives_up.join();
    return status;
  }

  std::string shown;  // who asks, as it was said
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<v1::SubmitRequest, v1::SubmitResponse>> stream;
  bool unreadable = false;  // after Finish()
};

StreamLink::StreamLink(std::shared_ptr<Connection> connection, Session::Commands commands, Limits limits)
    : connection_(std::move(connection)),
      token_(std::move(commands.token)),
      limits_(limits),
      failure_(std::move(commands.failure)),
      last_(commands.last),
      seen_(commands.last),
      reader_([this] { ReadOn(); }),
      writer_([this] { WriteOn(); }) {}

StreamLink::~StreamLink() { Close(); }

void StreamLink::Close() {
  if (!reader_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    mutex_.AwaitWithTimeout(absl::Condition(&done_), kFarewell);
    given_up_ = !done_;
    if (given_up_ && call_ != nullptr) call_->context.TryCancel();
  }
  reader_.join();
  writer_.join();
}

Session::Commands StreamLink::Leave() {
  absl::MutexLock lock(&mutex_);
  return {token_, last_, std::exchange(failure_, absl::OkStatus())};
}

absl::Status StreamLink::status() const {
  absl::MutexLock lock(&mutex_);
  return ended_;
}

void StreamLink::Send(v1::SubmitRequest request, Answered answered) {
  absl::Status ended;
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &StreamLink::HasRoom));
    ended = ended_;
    if (ended.ok()) {
      ++unasked_;
      unasked_bytes_ += request.ByteSizeLong();
      if (answered != nullptr || kAsks * unasked_ > limits_.commands || kAsks * unasked_bytes_ > limits_.bytes) {
        request.set_answer(true);
        unasked_ = unasked_bytes_ = 0;
      }
      request.set_command_id(++last_);
      request.set_acknowledged(seen_);
      if (answered != nullptr) asked_[last_] = {std::move(answered), ""};
      kept_bytes_ += request.ByteSizeLong();
      kept_.push_back(std::make_shared<const v1::SubmitRequest>(std::move(request)));
    }
  }
  if (!ended.ok() && answered != nullptr) answered(ended);
}

absl::Status StreamLink::TakeFailure() {
  absl::MutexLock lock(&mutex_);
  if (!failure_.ok()) return std::exchange(failure_, absl::OkStatus());
  return ended_;
}

// -- What goes out

void StreamLink::WriteOn() {
  for (;;) {
    std::shared_ptr<Call> call;
    Kept next;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &StreamLink::HasWork));
      if (done_) return;
      call = call_;
      if (unsent_ < kept_.size()) {
        next = kept_[unsent_++];
      } else {
        broken_ = true;  // nothing comes after the last
      }
    }
    if (next == nullptr) {
      call->stream->WritesDone();
    } else if (!call->stream->Write(*next)) {
      absl::MutexLock lock(&mutex_);
      broken_ |= call == call_;
    }
  }
}

std::shared_ptr<StreamLink::Call> StreamLink::Connect() {
  auto call = std::make_shared<Call>();
  call->shown = connection_->Authorize(call->context);
  call->context.AddMetadata(kSessionHeader, token_);
  call->stream = connection_->stubs().kernels->Submit(&call->context);
  v1::SubmitRequest hello;
  hello.mutable_hello()->set_protocol_min(kProtocol);
  hello.mutable_hello()->set_protocol_max(kProtocol);
  {
    absl::MutexLock lock(&mutex_);
    hello.set_acknowledged(seen_);
    for (auto& [command, asked] : asked_) asked.data.clear();  // it comes again, from its beginning
  }
  call->stream->Write(hello);
  absl::MutexLock lock(&mutex_);
  call_ = call;
  broken_ = false;
  unsent_ = 0;
  if (given_up_) call->context.TryCancel();
  return call;
}

// -- What comes in

void StreamLink::ReadOn() {
  absl::Time deadline = absl::InfiniteFuture();
  for (;;) {
    const std::shared_ptr<Call> call = Connect();
    v1::SubmitResponse response;
    absl::Status lie;
    while (lie.ok() && call->stream->Read(&response)) {
      deadline = absl::InfiniteFuture();
      lie = Take(std::move(response));
    }
    if (!lie.ok()) call->context.TryCancel();
    absl::Status status = connection_->Convert(call->Finish());
    // It would come again.
    if (lie.ok() && call->unreadable) lie = Lie("sends an answer that cannot be read");
    if (!lie.ok()) return End(lie);
    if (status.ok()) {
      ConfirmSent();
      status = absl::UnavailableError("the stream has ended");
    }
    if (deadline == absl::InfiniteFuture()) deadline = absl::Now() + limits_.timeout;
    if ((!MayPass(status) && !IsKnownAnew(status, *call)) || !WaitForServer(deadline)) return End(status);
  }
}

bool StreamLink::IsKnownAnew(const absl::Status& status, const Call& call) const {
  const std::optional<v1::ErrorDetail> detail = DetailOf(status);
  return detail.has_value() && detail->code() == v1::NOT_AUTHENTICATED && connection_->NewestBearer() != call.shown;
}

bool StreamLink::WaitForServer(absl::Time deadline) {
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&closing_), kAgain)) return false;
    }
    if (absl::Now() > deadline) return false;
    if (connection_->IsReachable(kAgain)) return true;
  }
}

absl::Status StreamLink::Take(v1::SubmitResponse response) {
  if (response.has_welcome()) return GiveUp(response.welcome().answers_lost());
  const uint64_t command = response.command_id();
  Answered answered;
  absl::Status failure;
  if (response.has_failed()) failure = FailureOf(response.failed());
  {
    absl::MutexLock lock(&mutex_);
    if (command <= seen_) return absl::OkStatus();  // it comes a second time
    if (command > last_) return Lie(absl::StrCat("answers command ", command, " of ", last_));
    // Answers come in order: who waits for one that was passed over would wait for ever.
    if (!asked_.empty() && asked_.begin()->first < command) {
      return Lie(absl::StrCat("answers command ", command, " before ", asked_.begin()->first));
    }
    const auto found = asked_.find(command);
    if (found != asked_.end()) found->second.data += response.data();
    if (response.more()) return absl::OkStatus();
    Confirm(command);
    if (found != asked_.end()) {
      answered = std::move(found->second.answered);
      if (!response.data().empty()) response.set_data(std::move(found->second.data));
      asked_.erase(found);
    } else if (!failure.ok() && failure_.ok()) {
      failure_ = failure;
    }
  }
  if (answered == nullptr) return absl::OkStatus();
  failure.ok() ? answered(std::move(response)) : answered(failure);
  return absl::OkStatus();
}

void StreamLink::Confirm(uint64_t command) {
  seen_ = command;
  while (!kept_.empty() && kept_.front()->command_id() <= command) {
    kept_bytes_ -= kept_.front()->ByteSizeLong();
    kept_.pop_front();
    if (unsent_ > 0) --unsent_;
  }
}

// The server ends a stream well when all that was sent on it has ended, answered or not.
void StreamLink::ConfirmSent() {
  absl::MutexLock lock(&mutex_);
  if (closing_ && unsent_ == kept_.size()) Confirm(last_);
}

absl::Status StreamLink::GiveUp(uint64_t lost) {
  const absl::Status why = Lost(" with an answer; ask again");
  std::vector<Answered> given_up;
  {
    absl::MutexLock lock(&mutex_);
    if (lost <= seen_) return absl::OkStatus();
    if (lost > last_) return Lie(absl::StrCat("has lost the answers to ", lost, " commands of ", last_));
    while (!asked_.empty() && asked_.begin()->first <= lost) {
      given_up.push_back(std::move(asked_.begin()->second.answered));
      asked_.erase(asked_.begin());
    }
    // Whether all the others went well nobody knows, and the next fence says that.
    if (failure_.ok()) failure_ = why;
    Confirm(lost);
  }
  for (const Answered& answered : given_up) answered(why);
  return absl::OkStatus();
}

void StreamLink::End(const absl::Status& why) {
  std::map<uint64_t, Asked> asked;
  {
    absl::MutexLock lock(&mutex_);
    ended_ = why;
    done_ = true;
    // Commands that nobody waits for may be lost: a link that follows tells it.
    if (asked_.empty() && !kept_.empty() && failure_.ok()) failure_ = why;
    asked.swap(asked_);
  }
  for (auto& [command, waiting] : asked) waiting.answered(why);
}

}  // namespace kiln::client
