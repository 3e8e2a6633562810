// The calls under way of a server that knows its callers: whose caller is not known any more, or has lost the right to
// it, is ended, however long it would have lasted.
//
// Who asks is looked at as a call comes in. A stream may stand for days after that, and a token may be stolen, or
// expire, or its tenant leave. So all calls that are not answered at once are listed here, and are looked at again when
// what their caller brought has its end, and when something else is in force.
#ifndef KILN_SERVER_SERVICES_REQUESTS_OPEN_CALLS_H_
#define KILN_SERVER_SERVICES_REQUESTS_OPEN_CALLS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace kiln::server {

// Safe from any thread. Destroyed when no call is left.
class OpenCalls {
 public:
  // What is asked of a call, by one thread at a time, between Add and Remove. None of it may come back here, or wait
  // for whoever does.
  class Call {
   public:
    virtual ~Call() = default;

   protected:
    struct Let {
      absl::Status status;    // OK, or why its caller may not make it any more
      absl::Time until = {};  // it counts
    };

   private:
    friend class OpenCalls;
    virtual Let LookAgain(absl::Time now) = 0;
    // It is to end with `why`, as if its client had gone.
    virtual void Revoke(const absl::Status& why) = 0;
    // It still has not: its client takes nothing. It is to be cut off.
    virtual void CutOff() = 0;

    absl::Time until_ = absl::InfiniteFuture();
    absl::Time cut_off_at_ = absl::InfiniteFuture();  // SteadyNow()'s
    bool revoked_ = false;
  };

  OpenCalls() : thread_([this] { LookUntilStopped(); }) {}
  ~OpenCalls();
  OpenCalls(const OpenCalls&) = delete;
  OpenCalls& operator=(const OpenCalls&) = delete;

  // A call that was let in until then. Looks at it at once if `stale` says, now that LookAtAll would find it, that
  // something else has come into force since.
  void Add(Call* call, absl::Time until, absl::FunctionRef<bool()> stale);
  // Waits for what is being asked of it.
  void Remove(Call* call);

  // Something else is in force: looks at all of them.
  void LookAtAll();

 private:
  // Each with its own lock, so that calls do not wait for each other.
  static constexpr size_t kShards = 32;
  struct alignas(64) Shard {
    absl::Mutex mutex;
    absl::flat_hash_set<Call*> calls ABSL_GUARDED_BY(mutex);
  };

  Shard& ShardOf(const Call* call) { return shards_[(reinterpret_cast<uintptr_t>(call) >> 8) % kShards]; }
  void Look(Call& call, bool anew);
  void Look(bool anew);
  void CountTimed();
  void LookUntilStopped();

  std::array<Shard, kShards> shards_;
  // Of calls with an end, or that were told to end: only they are looked at from time to time.
  std::atomic<int64_t> timed_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> idle_{false};  // waits for the bell alone
  Bell bell_;                      // rings for the first of those, and the end
  std::thread thread_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_REQUESTS_OPEN_CALLS_H_
