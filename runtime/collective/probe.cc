#include "runtime/collective/probe.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "base/error.h"

namespace kiln::runtime::collective {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(5);

// Of the first meeting; each further one has twice as much. Longer than what usually
// slips in between a probe and its meeting.
constexpr absl::Duration kFirstTimeout = absl::Milliseconds(50);

bool IsMissing(const absl::Status& status) {
  const auto detail = DetailOf(status);
  return detail.has_value() && detail->code() == v1::PARTICIPANT_MISSING;
}

}  // namespace

Probe::Probe(Meetings& meetings, ProbeWatch& watch, MeetingRequest request, hal::DoneCallback done)
    : meetings_(meetings), watch_(watch), request_(std::move(request)), done_(std::move(done)) {}

void Probe::Start(Meetings& meetings, ProbeWatch& watch, MeetingRequest request, hal::DoneCallback done) {
  std::shared_ptr<Probe>(new Probe(meetings, watch, std::move(request), std::move(done)))->Ask();
}

void Probe::Ask() {
  uint32_t round = 0;
  {
    absl::MutexLock lock(&mutex_);
    round = ++round_;
    here_.assign(request_.devices.size(), false);
    arrived_ = 0;
    state_ = State::kAsking;
  }
  // On idle queues all have been reached when this ends, and the meeting is submitted.
  for (uint32_t rank = 0; rank < request_.devices.size(); ++rank) {
    request_.devices[rank]->queue().Submit([self = shared_from_this(), round, rank] { self->Reached(round, rank); },
                                           /*estimate_ns=*/0);
  }
  {
    absl::MutexLock lock(&mutex_);
    if (state_ != State::kAsking || round_ != round) return;
  }
  watch_.Add(shared_from_this());
}

void Probe::Reached(uint32_t round, uint32_t rank) {
  {
    absl::MutexLock lock(&mutex_);
    if (state_ != State::kAsking || round_ != round) return;
    if (until_ == absl::InfiniteFuture()) until_ = absl::Now() + request_.timeout;
    here_[rank] = true;
    if (++arrived_ < here_.size()) return;
    state_ = request_.work == nullptr ? State::kEnded : State::kMeeting;
  }
  request_.work == nullptr ? End(absl::OkStatus()) : Meet();
}

void Probe::Meet() {
  MeetingRequest meeting = request_;
  {
    absl::MutexLock lock(&mutex_);
    meeting.timeout = std::min(request_.timeout, kFirstTimeout * (int64_t{1} << std::min(round_ - 1, 20u)));
  }
  meetings_.Enter(std::move(meeting),
                  [self = shared_from_this()](absl::Status status) { self->OnMet(std::move(status)); });
}

void Probe::OnMet(absl::Status status) {
  bool again = false;
  {
    absl::MutexLock lock(&mutex_);
    again = IsMissing(status) && absl::Now() < until_;
    if (!again) state_ = State::kEnded;
  }
  again ? Ask() : End(std::move(status));
}

bool Probe::Look() {
  absl::Status failure;
  {
    absl::MutexLock lock(&mutex_);
    if (state_ != State::kAsking) return true;
    failure = request_.control.Check();  // whose flag lives until the probe has ended
    if (failure.ok() && absl::Now() >= until_) failure = MissingParticipants(request_.devices, here_, request_.timeout);
    if (failure.ok()) return false;
    state_ = State::kEnded;
  }
  End(std::move(failure));
  return true;
}

// Entries that are still to be reached, and the watch, may keep the probe itself for a
// while yet.
void Probe::End(absl::Status status) {
  request_.work = nullptr;
  hal::DoneCallback done = std::move(done_);
  done(std::move(status));
}

ProbeWatch::~ProbeWatch() {
  std::thread thread;
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

void ProbeWatch::Add(std::shared_ptr<Probe> probe) {
  absl::MutexLock lock(&mutex_);
  probes_.push_back(std::move(probe));
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
}

void ProbeWatch::Run() {
  const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stop_ || !probes_.empty(); };
  const auto stopped = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stop_; };
  for (;;) {
    std::list<std::shared_ptr<Probe>> probes;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&has_work));
      if (mutex_.AwaitWithTimeout(absl::Condition(&stopped), kLook)) return;
      probes.swap(probes_);
    }
    probes.remove_if([](const std::shared_ptr<Probe>& probe) { return probe->Look(); });
    absl::MutexLock lock(&mutex_);
    probes_.splice(probes_.end(), probes);
  }
}

}  // namespace kiln::runtime::collective
