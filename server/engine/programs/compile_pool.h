// The threads that compile, so that no thread of gRPC ever does.
//
// Where that is wanted, a job that takes long while others wait is set aside: it goes on, a further thread takes its
// place, and its caller is served nothing more until it has ended. So who has graphs compiled that take minutes waits
// for itself.
#ifndef KILN_SERVER_ENGINE_PROGRAMS_COMPILE_POOL_H_
#define KILN_SERVER_ENGINE_PROGRAMS_COMPILE_POOL_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/account.h"
#include "base/clock.h"
#include "runtime/hal/module.h"
#include "server/fair/fair_queue.h"

namespace kiln::server {

// A place among those that wait for a compile thread, or are on it, given back once that is over:
// QUOTA_EXCEEDED if the account has no more, or owes seconds of compiling.
inline absl::StatusOr<Charge> PlaceToCompile(Account* account) {
  if (absl::Status paid = CheckRate(account, Quota::kCompileSeconds); !paid.ok()) return paid;
  return Hold(account, Quota::kCompiles, 1);
}
// Whether there is one now. Takes none: a look must not keep another call from it.
inline absl::Status CheckPlaceToCompile(Account* account) {
  if (account == nullptr) return absl::OkStatus();
  if (absl::Status paid = CheckRate(account, Quota::kCompileSeconds); !paid.ok()) return paid;
  return account->CheckRoom(Quota::kCompiles, 1);
}

// Safe from any thread.
class CompilePool {
 public:
  // After so long a job is set aside for others that wait, if fewer than `most_aside` are.
  static constexpr absl::Duration kLong = absl::Milliseconds(250);
  static constexpr size_t kMostAside = 32;

  explicit CompilePool(uint32_t threads, size_t most_aside = 0);
  // Runs all that was scheduled, then ends its threads.
  ~CompilePool();
  CompilePool(const CompilePool&) = delete;
  CompilePool& operator=(const CompilePool&) = delete;

  // Calls `job` once, on a thread of the pool: callers share its time by their weights (fair_queue.h),
  // and of one session jobs begin in the order of scheduling. One that is not wanted any more while it waits is called
  // soon, whatever is before it: it looks at `control` before all else.
  void Schedule(const runtime::hal::LaunchControl& control, absl::AnyInvocable<void()> job);
  // The server's own, which are one caller together.
  void Schedule(absl::AnyInvocable<void()> job) { Schedule(runtime::hal::LaunchControl(), std::move(job)); }

  // Somebody who waits for what a job makes that cannot be stopped, or not by it: `off` is called once, on a thread of
  // the pool's, soon after `control` does not want it any more, unless it is forgotten before. No job: it waits for no
  // thread.
  struct Watched;
  using Waiting = std::shared_ptr<Watched>;
  Waiting Watch(const runtime::hal::LaunchControl& control, absl::AnyInvocable<void()> off);
  // Its control is looked at no more. Of one whose `off` has been called, or is, nothing.
  void Forget(const Waiting& waiting);

  // For people.
  struct Running {
    uint64_t tenant = 0;  // FairOwner's
    absl::Time since;
  };
  struct Look {
    size_t threads = 0;  // beside those of what is set aside
    size_t waiting = 0;
    size_t joined = 0;             // wait for another's job, or for their program to be loaded (Watch)
    std::vector<Running> running;  // first who runs longest
  };
  Look look() const;
  // Nothing waits, and nothing is under way.
  bool idle() const;

 private:
  struct Job;
  void StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Work(size_t thread);
  // The next job, when there is one and a place for it; null at the end.
  std::unique_ptr<Job> Next(size_t thread);
  // Until the end: calls those that are not wanted any more, and sets aside what takes long.
  void WatchAll();
  // They must be called without the lock.
  std::vector<absl::AnyInvocable<void()>> TakeUnwanted() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetAsideWhatIsLong(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t places_, most_aside_;
  mutable absl::Mutex mutex_;
  absl::CondVar changed_;  // what may be served, or the end
  FairQueue jobs_ ABSL_GUARDED_BY(mutex_);
  std::list<Job*> stoppable_ ABSL_GUARDED_BY(mutex_);  // of those that wait
  std::list<Waiting> watched_ ABSL_GUARDED_BY(mutex_);
  std::vector<Job*> running_ ABSL_GUARDED_BY(mutex_);  // by thread; null: it has none
  size_t aside_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool watch_ends_ ABSL_GUARDED_BY(mutex_) = false;
  Bell bell_;  // of the watch: there is one that waits
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
  std::thread watch_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_PROGRAMS_COMPILE_POOL_H_
