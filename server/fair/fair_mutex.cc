#include "server/fair/fair_mutex.h"

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace kiln::server {
namespace {

// What one is charged until it gives it back.
constexpr uint64_t kGuessNs = 10'000'000;
// How often one that waits is asked whether it is wanted.
constexpr absl::Duration kLook = absl::Milliseconds(5);

}  // namespace

void FairMutex::Serve() {
  const FairQueue::Served served = queue_.Pop();
  if (served.entry == nullptr) return;
  queue_.Open(served.session);
  reinterpret_cast<Holder::Place*>(served.entry)->has = true;
}

absl::Status FairMutex::Holder::Lock() {
  if (held_) return absl::OkStatus();
  const absl::Time came = SteadyNow();
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_.mutex_);
    mutex_.queue_.Push(place_.entry, owner_, kGuessNs);
    mutex_.Serve();
    while (status.ok() && !mutex_.mutex_.AwaitWithTimeout(absl::Condition(&place_.has), kLook)) status = wanted_();
    if (!status.ok() && !place_.has) mutex_.queue_.Open(mutex_.queue_.Remove(place_.entry));
    held_ = place_.has;
  }
  since_ = SteadyNow();
  waited_ += since_ - came;
  if (!status.ok()) Unlock();  // it came at the last moment
  return status;
}

void FairMutex::Holder::Unlock() {
  if (!held_) return;
  held_ = false;
  const int64_t used_ns = std::max<int64_t>(0, absl::ToInt64Nanoseconds(SteadyNow() - since_));
  absl::MutexLock lock(&mutex_.mutex_);
  place_.has = false;
  mutex_.queue_.End(place_.entry, static_cast<uint64_t>(used_ns));
  mutex_.Serve();
}

absl::Status FairMutex::Holder::Yield(absl::Duration slice) {
  if (held_ && SteadyNow() - since_ < slice) return absl::OkStatus();
  if (held_ && mutex_.waiting() > 0) Unlock();
  return Lock();
}

}  // namespace kiln::server
