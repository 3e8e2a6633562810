#include "server/engine/session_table.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/error.h"

namespace kiln::server {
namespace {

absl::Status TooMany(size_t most, size_t used) {
  v1::ErrorDetail detail;
  detail.set_code(v1::OUT_OF_MEMORY);
  detail.set_limit("sessions");
  detail.set_limit_value(most);
  detail.set_used(used);
  return MakeError(detail, absl::StrCat(most, " sessions are open, as many as this server keeps"));
}

uint32_t SecondsOf(LeaseClock::duration length) {
  return static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::seconds>(length).count());
}

}  // namespace

SessionTable::SessionTable(SessionOptions options, BufferTable* buffers)
    : options_(std::move(options)), buffers_(buffers) {}

const SessionTable::Lease* SessionTable::Live(absl::string_view token) const {
  const auto found = leases_.find(token);
  return found == leases_.end() || found->second.end <= options_.now() ? nullptr : &found->second;
}

void SessionTable::Begin(Lease& lease) {
  lease.end = options_.now() + lease.length;
  if (lease.end >= next_end_) return;
  next_end_ = lease.end;
  wake_.Signal();
}

absl::StatusOr<SessionTable::Opened> SessionTable::Open(absl::string_view resume_token, uint32_t lease_seconds) {
  const uint32_t wanted = lease_seconds == 0 ? options_.default_lease_seconds : lease_seconds;
  Opened opened;
  opened.lease_seconds = std::min(wanted, options_.longest_lease_seconds);
  const uint64_t name[] = {names_.Next(), names_.Next()};
  absl::MutexLock lock(&mutex_);
  opened.resumed = Live(resume_token) != nullptr;
  if (!opened.resumed && leases_.size() >= options_.most_sessions) {
    return TooMany(options_.most_sessions, leases_.size() + 1);
  }
  opened.token =
      opened.resumed ? std::string(resume_token) : std::string(reinterpret_cast<const char*>(name), sizeof(name));
  Lease& lease = leases_[opened.token];
  if (!opened.resumed) lease.session = std::make_shared<Session>();
  lease.length = std::chrono::seconds(opened.lease_seconds);
  Begin(lease);
  return opened;
}

absl::StatusOr<uint32_t> SessionTable::Renew(absl::string_view token) {
  absl::MutexLock lock(&mutex_);
  if (Live(token) == nullptr) return UnknownSession();
  Lease& lease = leases_.find(token)->second;
  Begin(lease);
  return SecondsOf(lease.length);
}

absl::Status SessionTable::Close(absl::string_view token) {
  SessionPtr closed;
  {
    absl::MutexLock lock(&mutex_);
    if (Live(token) == nullptr) return UnknownSession();
    const auto found = leases_.find(token);
    closed = std::move(found->second.session);
    leases_.erase(found);
  }
  Free(*closed);
  return absl::OkStatus();
}

absl::StatusOr<SessionPtr> SessionTable::Find(absl::string_view token) const {
  absl::ReaderMutexLock lock(&mutex_);
  const Lease* lease = Live(token);
  if (lease == nullptr) return UnknownSession();
  return lease->session;
}

size_t SessionTable::size() const {
  absl::ReaderMutexLock lock(&mutex_);
  return leases_.size();
}

// A handle that is not there was freed by its client in this moment.
void SessionTable::Free(Session& session) {
  for (const uint64_t handle : session.End()) buffers_->Free({handle}, &session).IgnoreError();
}

void SessionTable::Expire() {
  std::vector<SessionPtr> ended;
  {
    absl::MutexLock lock(&mutex_);
    const LeaseClock::time_point now = options_.now();
    next_end_ = LeaseClock::time_point::max();
    for (auto at = leases_.begin(); at != leases_.end();) {
      const auto lease = at++;
      if (lease->second.end > now) {
        next_end_ = std::min(next_end_, lease->second.end);
      } else {
        ended.push_back(std::move(lease->second.session));
        leases_.erase(lease);
      }
    }
  }
  for (const SessionPtr& session : ended) Free(*session);
}

void SessionTable::ExpireUntilStopped() {
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      for (;;) {
        if (stopped_) return;
        if (next_end_ == LeaseClock::time_point::max()) {
          wake_.Wait(&mutex_);
          continue;
        }
        const LeaseClock::duration left = next_end_ - LeaseClock::now();
        if (left <= LeaseClock::duration::zero()) break;
        wake_.WaitWithTimeout(&mutex_, absl::FromChrono(left));
      }
    }
    Expire();
  }
}

void SessionTable::Stop() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
  wake_.Signal();
}

}  // namespace kiln::server
