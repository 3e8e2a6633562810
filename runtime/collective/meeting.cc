#include "runtime/collective/meeting.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/clock.h"
#include "base/error.h"
#include "runtime/collective/probe.h"

namespace kiln::runtime::collective {
namespace {

// How often a waiting participant looks whether the meeting is still wanted.
constexpr absl::Duration kLook = absl::Milliseconds(5);

// Longer than any submitting thread would stay for: an entry waits, so it belongs on
// the queue's own thread.
constexpr uint64_t kNeverInline = ~uint64_t{0};

// Shared by the entries of one meeting.
class Meeting {
 public:
  Meeting(MeetingRequest request, hal::DoneCallback done)
      : request_(std::move(request)), done_(std::move(done)), here_(request_.devices.size()) {}

  const std::vector<hal::Device*>& devices() const { return request_.devices; }

  // One entry's whole life, on its queue's thread.
  void Attend(uint32_t rank) {
    if (!Gather(rank)) return;
    request_.work(rank);
    uint32_t left = working_.fetch_sub(1, std::memory_order_acq_rel) - 1;
    if (left == 0) {
      working_.notify_all();
      return std::move(done_)(absl::OkStatus());
    }
    // Whoever still works may do so in this one's memory.
    for (; left != 0; left = working_.load(std::memory_order_acquire)) working_.wait(left, std::memory_order_acquire);
  }

 private:
  enum class State { kGathering, kComplete, kFailed };

  // Whether the meeting takes place.
  bool Gather(uint32_t rank) {
    absl::Status failure = Wait(rank);
    if (failure.ok()) return true;
    // Of those who are here, the one who gave up tells.
    if (failure.code() != absl::StatusCode::kAborted) std::move(done_)(std::move(failure));
    return false;
  }

  // OK once all are here; ABORTED if another gave up; else why this one does.
  absl::Status Wait(uint32_t rank) {
    absl::MutexLock lock(&mutex_);
    if (state_ != State::kGathering) return absl::AbortedError("too late");
    here_[rank] = true;
    if (++arrived_ == here_.size()) {
      working_.store(static_cast<uint32_t>(arrived_), std::memory_order_relaxed);
      state_ = State::kComplete;
      return absl::OkStatus();
    }
    const absl::Time until = SteadyNow() + request_.timeout;
    const auto settled = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return state_ != State::kGathering; };
    while (!mutex_.AwaitWithTimeout(absl::Condition(&settled), std::min(until - SteadyNow(), kLook))) {
      absl::Status failure = request_.control.Check();
      if (failure.ok() && SteadyNow() >= until)
        failure = MissingParticipants(request_.devices, here_, request_.timeout);
      if (failure.ok()) continue;
      state_ = State::kFailed;
      return failure;
    }
    return state_ == State::kComplete ? absl::OkStatus() : absl::AbortedError("another gave up");
  }

  const MeetingRequest request_;
  hal::DoneCallback done_;
  std::atomic<uint32_t> working_{0};
  absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kGathering;
  size_t arrived_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<bool> here_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::Status MissingParticipants(const std::vector<hal::Device*>& devices, const std::vector<bool>& here,
                                 absl::Duration timeout) {
  std::vector<std::string> names;
  for (size_t i = 0; i < here.size(); ++i) {
    if (!here[i]) names.emplace_back(devices[i]->name());
  }
  v1::ErrorDetail detail;
  detail.set_code(v1::PARTICIPANT_MISSING);
  detail.set_field(names.front());
  detail.set_limit("milliseconds to wait for a participant");
  detail.set_limit_value(static_cast<uint64_t>(absl::ToInt64Milliseconds(timeout)));
  return MakeError(detail,
                   absl::StrCat(absl::StrJoin(names, ", "), " did not come within ", absl::FormatDuration(timeout),
                                ": still busy with what was submitted before; nothing was written"));
}

Meetings::Meetings() : watch_(std::make_unique<ProbeWatch>()) {}

Meetings::~Meetings() = default;

void Meetings::Submit(MeetingRequest request, hal::DoneCallback done) {
  Probe::Start(*this, *watch_, std::move(request), std::move(done));
}

void Meetings::Enter(MeetingRequest request, hal::DoneCallback done) {
  const auto meeting = std::make_shared<Meeting>(std::move(request), std::move(done));
  absl::MutexLock lock(&order_);
  for (uint32_t rank = 0; rank < meeting->devices().size(); ++rank) {
    meeting->devices()[rank]->queue().Submit([meeting, rank] { meeting->Attend(rank); }, kNeverInline);
  }
}

}  // namespace kiln::runtime::collective
