#include "server/fair/turns.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "server/fair/device_line.h"
#include "server/fair/owner.h"
#include "server/metrics/labels.h"

namespace kiln::server {
namespace {

// How soon a cancellation or a deadline is seen while something waits.
constexpr absl::Duration kTick = absl::Milliseconds(5);
// For so many ticks without anything that waits, the watch goes on.
constexpr int kIdleTicks = 20;
// However many wait, looking for those that are not wanted takes no more than this part of the time.
constexpr int kOneIn = 20;
// So many times its estimate what is overdue has taken.
constexpr int kOverdueTimes = 4;
// Who calls has its own caller's work to do: of what is begun within the call (runtime/hal/queue.h) there may be no
// end. So after so many in a row it leaves the others to the watch.
constexpr int kMostInARow = 32;

// The hint when to try again is half of the predicted wait: by then half of the caller's entries should be done.
constexpr uint64_t kMinRetryMillis = 10, kMaxRetryMillis = 10'000;

absl::Status TooMuchWaiting(size_t most, uint64_t wait_ns) {
  v1::ErrorDetail detail;
  detail.set_code(v1::OUT_OF_MEMORY);
  detail.set_limit("entries waiting for a device");
  detail.set_limit_value(most);
  detail.set_used(most + 1);
  detail.set_retry_after_ms(static_cast<uint32_t>(std::clamp(wait_ns / 2'000'000, kMinRetryMillis, kMaxRetryMillis)));
  return MakeError(detail, absl::StrCat("the caller has ", most,
                                        " entries waiting for the device, which is the most; wait for answers "
                                        "before asking for more"));
}

}  // namespace

void Turn::End(uint64_t measured_ns) {
  if (Waiting* const waiting = std::exchange(waiting_, nullptr); waiting != nullptr) {
    waiting->turns->End(waiting, measured_ns);
  }
}

void Turn::End() {
  if (waiting_ == nullptr) return;
  const absl::Duration taken = SteadyNow() - waiting_->began - waiting_->away();
  End(static_cast<uint64_t>(std::max<int64_t>(0, absl::ToInt64Nanoseconds(taken))));
}

runtime::hal::Interruption* Turn::interruption() const {
  if (waiting_ == nullptr || !waiting_->Pauses()) return nullptr;
  waiting_->tells.store(true, std::memory_order_relaxed);
  return waiting_;
}

Turns::Turns(const Options& options, absl::Span<const std::unique_ptr<runtime::hal::Device>> devices)
    : options_(options) {
  for (const auto& device : devices) {
    FairQueue::Options queue;
    queue.budget_ns = device->target().kind() == v1::Target::CPU ? options.cpu_budget_ns : options.budget_ns;
    lines_.push_back(std::make_unique<DeviceLine>(queue, device.get()));
  }
  watch_ = std::thread([this] { SweepUntilStopped(); });
  pthread_setname_np(watch_.native_handle(), "kiln-turns");
}

Turns::~Turns() {
  {
    absl::MutexLock lock(&mutex_);
    KILN_CHECK(first_ == nullptr);
    mutex_.Await(absl::Condition(this, &Turns::NobodyCalls));
    stopping_ = true;
    bell_.Ring();
  }
  watch_.join();
}

DeviceLine& Turns::LineOf(const runtime::hal::Device* device) const {
  for (const auto& line : lines_) {
    if (line->device == device) return *line;
  }
  for (const auto& line : lines_) {
    if (line->device->name() == device->name()) return *line;
  }
  KILN_CHECK(false);
  return *lines_.front();
}

absl::Status Turns::CheckRoom(const DeviceLine& line, const FairOwner& owner) const {
  if (line.queue.waiting(owner.tenant) < options_.most_waiting) return absl::OkStatus();
  return TooMuchWaiting(options_.most_waiting, line.PredictedWait(owner, SteadyNow()));
}

absl::Status Turns::CheckRoom(const runtime::hal::Device& device, const runtime::hal::LaunchControl& control) const {
  const DeviceLine& line = LineOf(&device);
  absl::MutexLock lock(&mutex_);
  return CheckRoom(line, OwnerOf(control));
}

absl::Status Turns::Enqueue(Waiting& waiting) {
  const TurnRequest& request = waiting.request;
  const FairOwner owner = OwnerOf(request.control);
  const absl::Time now = SteadyNow();
  for (const Waiting::Place& place : waiting.places) KILN_RETURN_IF_ERROR(CheckRoom(*place.line, owner));
  KILN_RETURN_IF_ERROR(Admit(waiting, now));
  FairQueue::Kind kind = {waiting.guessed, request.may_be_long};
  if (waiting.Pauses()) kind.slice_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(options_.slice));
  for (Waiting::Place& place : waiting.places) {
    place.line->queue.Push(place.entry, owner, request.estimate_ns, /*joint=*/waiting.places.size() > 1, kind);
    place.line->shares.Begin(NumberOf(TenantOf(request.control.account)), std::max(owner.weight, 1u),
                             absl::ToUnixNanos(now));
  }
  Join(waiting, first_);
  if (asleep_) bell_.Ring();
  return absl::OkStatus();
}

void Turns::Take(TurnRequest request, TurnCallback go) {
  const std::atomic<bool>& others = LineOf(request.devices.front()).asked;
  auto waiting = std::make_unique<Waiting>(this, std::move(request), std::move(go), others);
  waiting->missing = waiting->places.size();
  Lines lines;
  for (size_t i = 0; i < waiting->places.size(); ++i) {
    Waiting::Place& place = waiting->places[i];
    place.waiting = waiting.get();
    place.line = &LineOf(waiting->request.devices[i]);
    waiting->apart &= place.line->device != waiting->request.devices[i];
    lines.push_back(place.line);
  }
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    status = Enqueue(*waiting);
  }
  if (!status.ok()) return waiting->go(std::move(status));
  waiting.release();
  Pump(std::move(lines));
}

void Turns::Join(Waiting& waiting, Waiting*& first) {
  waiting.previous = nullptr;
  waiting.next = first;
  if (first != nullptr) first->previous = &waiting;
  first = &waiting;
}

void Turns::Leave(Waiting& waiting, Waiting*& first) {
  (waiting.previous == nullptr ? first : waiting.previous->next) = waiting.next;
  if (waiting.next != nullptr) waiting.next->previous = waiting.previous;
}

void Turns::Withdraw(Waiting& waiting, absl::Time now) {
  Leave(waiting, first_);
  for (Waiting::Place& place : waiting.places) {
    place.session = place.line->queue.Remove(place.entry);
    place.line->shares.End(NumberOf(TenantOf(waiting.request.control.account)), 0, absl::ToUnixNanos(now));
  }
}

Waiting* Turns::Next(DeviceLine& line, absl::Status& too_late) {
  for (;;) {
    const FairQueue::Served served = line.queue.Pop();
    line.asked.store(line.queue.contended(), std::memory_order_relaxed);
    if (served.entry == nullptr) return nullptr;
    auto& place = *reinterpret_cast<Waiting::Place*>(served.entry);
    place.session = served.session;
    place.served = true;
    Waiting& waiting = *place.waiting;
    if (--waiting.missing != 0) continue;
    const absl::Time now = SteadyNow();
    if (waiting.continuation == nullptr) {
      if (too_late = StillInTime(waiting, now, line.queue.waiting() > 0); !too_late.ok()) {
        Withdraw(waiting, now);
        return &waiting;
      }
      if (waiting.places.size() > 1) {
        for (Waiting::Place& each : waiting.places) each.line->queue.Begin(each.entry);
      }
      Leave(waiting, first_);
      Join(waiting, running_);
      waiting.began = now;
      if (waiting.request.trials != nullptr) waiting.request.trials->Began(now);
    }
    waiting.BeginSlice(now, SliceFor(waiting));
    for (Waiting::Place& each : waiting.places) {
      if (each.line->queue.in_flight() == 1) each.line->worked_since = now;
    }
    return &waiting;
  }
}

void Turns::Pump(Lines lines) {
  // A turn that ends within the call that it gets leaves the next to this loop: so however many
  // are called, none is called within another.
  static thread_local std::pair<Turns*, Lines*> pumping = {};
  if (pumping.first == this) {
    for (DeviceLine* line : lines) Add(line, *pumping.second);
    return;
  }
  const auto outer = std::exchange(pumping, {this, &lines});
  mutex_.Lock();
  ++pumps_;
  for (int calls = 0; !lines.empty();) {
    if (calls == kMostInARow) {
      for (DeviceLine* line : lines) Add(line, left_);
      bell_.Ring();
      break;
    }
    absl::Status too_late;
    Waiting* const waiting = Next(*lines.back(), too_late);
    if (waiting == nullptr) {
      lines.pop_back();
      continue;
    }
    ++calls;
    absl::InlinedVector<std::pair<DeviceLine*, FairQueue::Session*>, 2> closed;
    for (const Waiting::Place& place : waiting->places) closed.emplace_back(place.line, place.session);
    runtime::hal::Work* const continuation = TakeContinuation(*waiting);
    mutex_.Unlock();
    if (continuation != nullptr) {
      waiting->request.devices.front()->queue().Submit(continuation, kNotOnThisThread);
    } else {
      TurnCallback go = std::move(waiting->go);
      if (too_late.ok()) {
        go(Turn(waiting));  // may have ended, and be gone
      } else {
        delete waiting;
        go(std::move(too_late));
      }
    }
    mutex_.Lock();
    for (const auto& [line, session] : closed) {
      line->queue.Open(session);
      Add(line, lines);
    }
  }
  --pumps_;
  mutex_.Unlock();
  pumping = outer;
}

void Turns::End(Waiting* ended, uint64_t measured_ns) {
  const std::unique_ptr<Waiting> waiting(ended);
  measured_ns -= std::min(measured_ns, static_cast<uint64_t>(absl::ToInt64Nanoseconds(waiting->cores().kept())));
  Lines lines;
  if (Account* const account = waiting->request.control.account; account != nullptr) {
    account->AddDeviceTime(measured_ns * waiting->places.size());
  }
  {
    const absl::Time now = SteadyNow();
    const uint64_t left_ns = measured_ns - std::min(measured_ns, waiting->settled_ns);
    absl::MutexLock lock(&mutex_);
    Leave(*waiting, running_);
    Measured(*waiting, left_ns, now, /*ended=*/true);
    for (Waiting::Place& place : waiting->places) {
      place.line->queue.End(place.entry, left_ns);
      if (!waiting->aside) place.line->worked_since = now;
      lines.push_back(place.line);
    }
  }
  Pump(std::move(lines));
}

void Turns::SetAside(absl::Time now, Lines& lines) {
  for (Waiting* waiting = running_; waiting != nullptr; waiting = waiting->next) {
    if (!waiting->apart) continue;
    const absl::Duration taken = now - waiting->began;
    const absl::Duration due = options_.overdue + kOverdueTimes * absl::Nanoseconds(waiting->request.estimate_ns);
    if (waiting->aside || taken < due) continue;
    waiting->aside = true;
    for (Waiting::Place& place : waiting->places) {
      place.line->queue.SetAside(place.entry);
      place.line->worked_since = now;
      Add(place.line, lines);
    }
  }
}

void Turns::Sweep() {
  std::vector<std::pair<std::unique_ptr<Waiting>, absl::Status>> gone;
  Lines lines;
  const absl::Time now = SteadyNow();
  {
    absl::MutexLock lock(&mutex_);
    SetAside(now, lines);
    for (Waiting *waiting = first_, *next = nullptr; waiting != nullptr; waiting = next) {
      next = waiting->next;
      const runtime::hal::LaunchControl& control = waiting->request.control;
      const bool cancelled = control.cancelled != nullptr && control.cancelled->load(std::memory_order_relaxed);
      absl::Status wanted =
          cancelled || now >= control.deadline ? control.Check() : StillInTime(*waiting, now, /*others_wait=*/false);
      if (wanted.ok()) continue;
      Withdraw(*waiting, now);
      for (const Waiting::Place& place : waiting->places) Add(place.line, lines);
      gone.emplace_back(waiting, std::move(wanted));
    }
  }
  for (auto& [waiting, status] : gone) {
    waiting->go(std::move(status));
    waiting->go = nullptr;
    absl::MutexLock lock(&mutex_);
    for (const Waiting::Place& place : waiting->places) place.line->queue.Open(place.session);
  }
  if (!lines.empty()) Pump(std::move(lines));
  Rush();
}

void Turns::SweepUntilStopped() {
  using Clock = std::chrono::steady_clock;
  Clock::time_point next;  // that it looks
  for (int idle = 0;;) {
    Lines left;
    absl::Duration wait = absl::ZeroDuration();
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return;
      if (left_.empty()) {
        idle = first_ == nullptr && paused_ == 0 ? idle + 1 : 0;
        asleep_ = idle > kIdleTicks;
        wait = asleep_ ? absl::InfiniteDuration() : kTick;
      }
    }
    if (wait > absl::ZeroDuration()) bell_.Wait(wait);
    {
      absl::MutexLock lock(&mutex_);
      asleep_ = false;
      if (stopping_) return;
      left.swap(left_);
      if (first_ == nullptr && paused_ == 0 && left.empty()) continue;
    }
    if (!left.empty()) Pump(std::move(left));
    const Clock::time_point begin = Clock::now();
    if (begin < next) continue;
    Sweep();
    const Clock::time_point end = Clock::now();
    next = end + std::max(absl::ToChronoNanoseconds(kTick / 2), kOneIn * std::chrono::nanoseconds(end - begin));
  }
}

}  // namespace kiln::server
