#include "runtime/hal/core_time.h"

#include <pthread.h>

#include <algorithm>

#include "base/clock.h"

namespace kiln::runtime::hal {
namespace {

int64_t NsOf(clockid_t clock) {
  timespec time = {};
  return clock_gettime(clock, &time) == 0 ? time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec : 0;
}

}  // namespace

int64_t CoreTime::ThreadNs() { return NsOf(CLOCK_THREAD_CPUTIME_ID); }

void CoreTime::Begin() {
  began_ = SteadyNow();
  helped_ns_ = 0;
  Forget();
  clockid_t clock = kNone;
  counts_ = pthread_getcpuclockid(pthread_self(), &clock) == 0;
  if (!counts_) return;
  thread_began_ns_.store(ThreadNs(), std::memory_order_relaxed);
  clock_.store(clock, std::memory_order_release);
}

void CoreTime::End() {
  if (!counts_) return;
  counts_ = false;
  const int64_t thread_ns = ThreadNs() - thread_began_ns_.load(std::memory_order_relaxed);
  const absl::Duration passed = SteadyNow() - began_;
  const int64_t passed_ns = std::max<int64_t>(0, absl::ToInt64Nanoseconds(passed));
  const int64_t had_ns = std::clamp<int64_t>(thread_ns + helped_ns_, 0, passed_ns);
  kept_ += absl::Nanoseconds(passed_ns - had_ns);
  had_ns_.store(had_ns, std::memory_order_relaxed);
  clock_.store(kNone, std::memory_order_release);
}

absl::Duration CoreTime::SoFar() const {
  const clockid_t clock = clock_.load(std::memory_order_acquire);
  if (clock == kNone) return absl::Nanoseconds(had_ns_.load(std::memory_order_relaxed));
  const int64_t had_ns = NsOf(clock) - thread_began_ns_.load(std::memory_order_relaxed);
  return absl::Nanoseconds(std::max<int64_t>(0, had_ns));
}

}  // namespace kiln::runtime::hal
