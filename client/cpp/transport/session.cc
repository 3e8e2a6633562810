// Tested by tests/clients/cases/session.json and tests/clients/cases/stream.json, through
// tests/clients/cpp_client_test.py.
#include "client/cpp/transport/session.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "base/error.h"
#include "client/cpp/transport/stubs.h"

namespace kiln::client {
namespace {

// Between two renewals at least, however often calls find the session gone; and where no other could be opened.
constexpr absl::Duration kRest = absl::Milliseconds(100);
constexpr absl::Duration kRestFailed = absl::Seconds(1);
// For one call; whoever ends the session waits no longer for what is under way.
constexpr absl::Duration kPatience = absl::Seconds(5);

}  // namespace

Session::~Session() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  if (!keeper_.joinable()) return;
  keeper_.join();
  v1::CloseSessionRequest request;
  request.set_token(token());
  v1::CloseSessionResponse response;
  // If it fails, the lease's end does it.
  Call(connection_, connection_.stubs().sessions, &v1::SessionService::Stub::Close, "Close", request, &response,
       absl::Now() + kPatience)
      .IgnoreError();
}

absl::Status Session::Begin(absl::Time deadline) {
  KILN_RETURN_IF_ERROR(Open(deadline));
  keeper_ = std::thread([this] { KeepOn(); });
  return absl::OkStatus();
}

absl::Status Session::Open(absl::Time deadline) {
  v1::OpenSessionRequest request;
  const int64_t seconds = absl::ToInt64Seconds(absl::Ceil(wanted_, absl::Seconds(1)));
  request.set_lease_seconds(static_cast<uint32_t>(std::clamp<int64_t>(seconds, 1, UINT32_MAX)));
  v1::OpenSessionResponse opened;
  KILN_RETURN_IF_ERROR(Call(connection_, connection_.stubs().sessions, &v1::SessionService::Stub::Open, "Open", request,
                            &opened, deadline));
  absl::MutexLock lock(&mutex_);
  token_ = opened.token();
  granted_ = absl::Seconds(opened.lease_seconds());
  return absl::OkStatus();
}

absl::Status Session::Renew(absl::Time deadline) {
  v1::RenewSessionRequest request;
  request.set_token(token());
  v1::RenewSessionResponse response;
  return Call(connection_, connection_.stubs().sessions, &v1::SessionService::Stub::Renew, "Renew", request, &response,
              deadline);
}

std::string Session::token() const {
  absl::MutexLock lock(&mutex_);
  return token_;
}

absl::Duration Session::lease() const {
  absl::MutexLock lock(&mutex_);
  return granted_;
}

void Session::Heed(const absl::Status& failure) {
  const auto detail = DetailOf(failure);
  if (!detail.has_value()) return;
  const bool unknown = absl::IsNotFound(failure) && detail->field() == kSessionHeader;
  if (!unknown && detail->code() != v1::SESSION_EXPIRED) return;
  absl::MutexLock lock(&mutex_);
  due_ = true;
}

bool Session::Wait(absl::Duration time, bool unless_due) {
  absl::MutexLock lock(&mutex_);
  const absl::Condition condition = unless_due ? absl::Condition(this, &Session::IsDue) : absl::Condition(&closing_);
  mutex_.AwaitWithTimeout(condition, time);
  if (unless_due) looking_ = std::exchange(due_, false);
  return !closing_;
}

void Session::Looked() {
  absl::MutexLock lock(&mutex_);
  looking_ = false;
}

void Session::KeepOn() {
  for (;;) {
    const absl::Duration third = std::max(lease() / 3, kRest);  // one call that is lost leaves time for a second
    if (!Wait(third, true)) return;
    absl::Duration pause = kRest;
    const absl::Time deadline = absl::Now() + std::min(third, kPatience);
    // A server that does not answer may come back: the next renewal tries again.
    if (absl::IsNotFound(Renew(deadline)) && !Open(deadline).ok()) pause = kRestFailed;
    Looked();
    if (!Wait(pause, false)) return;
  }
}

absl::StatusOr<Session::Commands> Session::TakeCommands() {
  absl::MutexLock lock(&mutex_);
  // Who has just been told that the session is gone wants a stream of the next one.
  mutex_.AwaitWithTimeout(absl::Condition(this, &Session::IsSettled), kPatience);
  if (streaming_) {
    return absl::FailedPreconditionError(
        "under its session a client has one stream at a time; end the other, or make a client without a lease");
  }
  streaming_ = true;
  if (commands_.token != token_) commands_ = {token_, 0, absl::OkStatus()};
  return std::exchange(commands_, {});
}

void Session::GiveCommands(Commands commands) {
  absl::MutexLock lock(&mutex_);
  streaming_ = false;
  commands_ = std::move(commands);
}

}  // namespace kiln::client
