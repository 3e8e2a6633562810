#include "server/services/requests/open_calls.h"

#include "absl/time/clock.h"

namespace kiln::server {
namespace {

constexpr absl::Duration kPeriod = absl::Milliseconds(200);
// How long a client may take to take what it was sent before it is told why its call ends.
constexpr absl::Duration kPatience = absl::Milliseconds(500);

}  // namespace

OpenCalls::~OpenCalls() {
  stopping_.store(true);
  bell_.Ring();
  thread_.join();
}

void OpenCalls::Add(Call* call, absl::Time until, absl::FunctionRef<bool()> stale) {
  Shard& shard = ShardOf(call);
  absl::MutexLock lock(&shard.mutex);
  shard.calls.insert(call);
  call->until_ = until;
  if (until < absl::InfiniteFuture()) CountTimed();
  if (stale()) Look(*call, /*anew=*/true);
}

void OpenCalls::Remove(Call* call) {
  Shard& shard = ShardOf(call);
  absl::MutexLock lock(&shard.mutex);
  shard.calls.erase(call);
  if (call->revoked_ || call->until_ < absl::InfiniteFuture()) timed_.fetch_sub(1);
}

void OpenCalls::LookAtAll() { Look(/*anew=*/true); }

// Under the lock of its shard.
void OpenCalls::Look(Call& call, bool anew) {
  if (call.revoked_) {
    if (SteadyNow() < call.cut_off_at_) return;
    call.cut_off_at_ = absl::InfiniteFuture();
    return call.CutOff();
  }
  // What a calendar says, such as the end of a token, is the system's time.
  const absl::Time now = absl::Now();
  if (!anew && now < call.until_) return;
  const Call::Let let = call.LookAgain(now);
  const bool was_timed = call.until_ < absl::InfiniteFuture();
  call.revoked_ = !let.status.ok();
  if (let.status.ok()) call.until_ = let.until;
  const bool is_timed = call.revoked_ || call.until_ < absl::InfiniteFuture();
  if (is_timed && !was_timed) CountTimed();
  if (was_timed && !is_timed) timed_.fetch_sub(1);
  if (!call.revoked_) return;
  call.cut_off_at_ = SteadyNow() + kPatience;
  call.Revoke(let.status);
}

void OpenCalls::Look(bool anew) {
  for (Shard& shard : shards_) {
    absl::MutexLock lock(&shard.mutex);
    for (Call* const call : shard.calls) Look(*call, anew);
  }
}

void OpenCalls::CountTimed() {
  timed_.fetch_add(1);
  if (idle_.load()) bell_.Ring();
}

void OpenCalls::LookUntilStopped() {
  // Waits for the bell only after a whole period without any: a caller that makes one call after the other rings once.
  bool none = true;
  while (!stopping_.load()) {
    idle_.store(none);
    bell_.Wait(none && timed_.load() == 0 ? absl::InfiniteDuration() : kPeriod);
    idle_.store(false);
    none = timed_.load() == 0;
    Look(/*anew=*/false);
  }
}

}  // namespace kiln::server
