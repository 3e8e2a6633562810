// An in-order queue of host work, without a lock.
//
// At any time the queue has at most one owner: a thread that runs its work. A
// submitter that finds it idle becomes the owner and, if the work is small, runs
// it there and then, which saves the two thread switches that would cost more
// than the work itself. Other submitters meanwhile leave their work in the inbox.
// An owner that is not the queue's own thread does a bounded amount: what is
// left over goes to that thread, ownership with it.
// Work that pauses keeps its thread, and another is the queue's own from then on (runners.h).
#ifndef KILN_RUNTIME_DRIVERS_HOST_HOST_QUEUE_H_
#define KILN_RUNTIME_DRIVERS_HOST_HOST_QUEUE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "runtime/drivers/host/runners.h"
#include "runtime/hal/device.h"
#include "runtime/hal/queue.h"

namespace kiln::runtime::host {

class HostQueue final : public hal::Queue {
 public:
  // Work of up to `inline_limit_ns`, alone or together, runs on a submitting
  // thread. Transfers accept the buffers of `device`. Work may pause if there is `done`: it is called when work that
  // had paused is over, with its runner(), on its thread, before anything else runs. `after` is called so behind all
  // other work.
  using OnEnd = absl::AnyInvocable<void(size_t runner) const>;
  HostQueue(const hal::Device* device, uint64_t inline_limit_ns, OnEnd done = nullptr, OnEnd after = nullptr);
  ~HostQueue() override;

  using hal::Queue::Submit;
  void Submit(hal::Work* work, uint64_t estimate_ns) override;
  void Copy(hal::BufferSlice from, hal::BufferSlice to, hal::DoneCallback done) override;
  void Write(const void* from, hal::BufferSlice to, hal::DoneCallback done) override;
  void WritePieces(std::vector<absl::string_view> pieces, hal::BufferSlice to, hal::DoneCallback done) override;
  void Read(hal::BufferSlice from, void* to, hal::DoneCallback done) override;
  void Fill(hal::BufferSlice to, absl::string_view pattern, hal::DoneCallback done) override;
  bool may_pause() const override { return done_ != nullptr; }
  hal::Work* Continuation() override;
  void Pause() override;
  uint64_t depth() const override { return depth_.load(std::memory_order_relaxed); }

  // Within work: a number below Runners::kMax that no other has until it has ended, however often it pauses.
  size_t runner() const { return runners_.working(); }

 private:
  // Stands in the inbox for "owned, nothing waiting".
  class Mark final : public hal::Work {
    void Run() override {}
  };

  // Runs what is left, then the inbox, until the queue is idle or, on a submitting
  // thread (null), the limit is used up. The caller is the owner. False if `self` was a guest as its work was done: its
  // host has the queue now.
  bool Own(const Runner* self);
  void HandOver();
  bool WorkOn(const Runner& self, bool first);

  const hal::Device* const device_;
  const uint64_t inline_limit_ns_;
  Mark mark_;
  // Null: idle. &mark_: owned. Else: owned, and the newest of a list of work
  // that ends in &mark_.
  alignas(64) std::atomic<hal::Work*> inbox_{nullptr};
  // Work, oldest first, whose ownership waits for the queue's thread.
  alignas(64) std::atomic<hal::Work*> handed_over_{nullptr};
  std::atomic<uint64_t> depth_{0};
  hal::Work* left_ = nullptr;  // to run before the inbox, oldest first; the owner's
  bool stop_ = false;          // for the thread that works
  const OnEnd done_;
  const OnEnd after_;
  Runners runners_;  // last, as its first thread begins at once
};

}  // namespace kiln::runtime::host

#endif  // KILN_RUNTIME_DRIVERS_HOST_HOST_QUEUE_H_
