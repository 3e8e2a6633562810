// The threads of a queue, of which one works at any time.
//
// Work that pauses keeps its thread and its stack, and another thread works from then on, in its place. What has paused
// goes on as an entry of the queue: the thread that comes to that entry waits until the paused one has paused again, or
// has done its work. So whoever works passes it on, and two never do.
#ifndef KILN_RUNTIME_DRIVERS_HOST_RUNNERS_H_
#define KILN_RUNTIME_DRIVERS_HOST_RUNNERS_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "runtime/hal/queue.h"

namespace kiln::runtime::host {

class Runners;

// One of the threads. As an entry of the queue, it is the work that has paused on it.
class Runner final : public hal::Work {
 public:
  // On the thread that works: returns when the paused work has paused again, or is done.
  void Run() override;

  // Below Runners::kMax, and of no other while this has work.
  size_t number() const { return number_; }
  // Whether another thread waits for this one, so that its work done it must not take more. For its own thread.
  bool is_guest() const { return host_ != nullptr; }

 private:
  friend class Runners;
  Runner(Runners* runners, size_t number) : runners_(runners), number_(number) {}

  Runners* const runners_;
  const size_t number_;
  Runner* host_ = nullptr;  // the one that waits for it; passed on with the turn
  std::thread thread_;
};

class Runners {
 public:
  // So many threads at most: of what has paused there is one less.
  static constexpr size_t kMax = 17;

  // Called on a runner's thread when it begins to work: the first at once, the others in place of one that pauses. True:
  // all is done, and the queue ends. False: it was a guest when its work was done.
  using Main = absl::AnyInvocable<bool(Runner& self, bool first) const>;

  explicit Runners(Main main);
  // The one that works returns true; nothing has paused.
  ~Runners();
  Runners(const Runners&) = delete;
  Runners& operator=(const Runners&) = delete;

  // That whose thread this is; null on other threads.
  Runner* Here() const;
  // Whether there is one to take the place of `self`, which works.
  bool MayPause(const Runner& self);
  // Of the one that works, if it may: returns when its turn has come again.
  void Pause(Runner& self);
  // The number of the one that works. For it, and for whoever has the queue while it waits.
  size_t working() const { return working_.load(std::memory_order_relaxed); }

 private:
  friend class Runner;
  void Lend(Runner& host, Runner& guest);
  // Its work is done, and its host works again.
  void GiveBack(Runner& guest);
  void PassOn(const Runner& next) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False if the queue ends before.
  bool AwaitTurn(const Runner& self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Start() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ThreadMain(Runner& self);

  const Main main_;
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<Runner>> all_ ABSL_GUARDED_BY(mutex_);
  std::vector<Runner*> idle_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<size_t> working_{0};  // written under the mutex
};

}  // namespace kiln::runtime::host

#endif  // KILN_RUNTIME_DRIVERS_HOST_RUNNERS_H_
