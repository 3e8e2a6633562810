// Whose turn it is at each device: what clients want of a device passes here on its way to the
// device's queue.
//
// Who is alone is handed on at once, within the call. Else it waits until its tenant's part, its
// session and what is with the device allow it (fair_queue.h); then it is called on a thread of
// the device that has just ended something, on that of another caller, or on one of its own. What is of one session is
// handed on in the order in which it came: what that submits to the devices' queues, within its call, keeps that order.
//
// A tenant's run that takes long pauses for other tenants', slice by slice (runtime/hal/interruption.h): what they have
// is their own, so none sees what another has half done.
//
// What is overdue on devices that a tenant has for itself, and so in a process of its own, is set aside while others
// wait: it goes on beside them, and only its tenant waits for it (server/fair/README.md, "Set aside").
//
// What wants several devices waits at each and is called once it is its turn at all of them. From
// its turn at one on, its own session waits there, and others do not. All that want several come
// to their devices in one order, so none waits for one behind it.
#ifndef KILN_SERVER_FAIR_TURNS_H_
#define KILN_SERVER_FAIR_TURNS_H_

#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/account.h"
#include "base/clock.h"
#include "base/digest.h"
#include "runtime/hal/device.h"
#include "runtime/hal/module.h"
#include "server/fair/fair_queue.h"
#include "server/fair/lateness.h"

namespace kiln::server {

class Turns;
struct Waiting;     // one that waits, or has its turn
struct DeviceLine;  // what waits for a device

// One's turn, until End.
class Turn {
 public:
  Turn() = default;
  Turn(Turn&& other) noexcept : waiting_(std::exchange(other.waiting_, nullptr)) {}
  Turn& operator=(Turn&& other) noexcept {
    End();
    waiting_ = std::exchange(other.waiting_, nullptr);
    return *this;
  }
  ~Turn() { End(); }

  // It took so much of each of its devices. Whoever is next may be called within this. Nothing
  // if it has ended.
  void End(uint64_t measured_ns);
  // The time since it began, where nothing is known better.
  void End();

  // Through which the run lets others have the device: for the LaunchControl of a run on one device. Null if what has
  // the turn keeps it. Valid until End. Whoever has asked for it says when it works (Interruption::BeginWork).
  runtime::hal::Interruption* interruption() const;

 private:
  friend class Turns;
  explicit Turn(Waiting* waiting) : waiting_(waiting) {}
  Waiting* waiting_ = nullptr;
};

// The turn; or why there will be none: CANCELLED or DEADLINE_PASSED as of LaunchControl::Check,
// soon after that is so; DEADLINE_PASSED at once if what is there will take longer, as far as is
// known, or as soon as that is so (lateness.h); OUT_OF_MEMORY with the limit "entries waiting for a device" if the
// tenant has too much there. Must not block.
using TurnCallback = absl::AnyInvocable<void(absl::StatusOr<Turn>)>;

// What one wants.
struct TurnRequest {
  runtime::hal::LaunchControl control;                    // who asks, and until when; lives until the turn has ended
  absl::InlinedVector<runtime::hal::Device*, 2> devices;  // each once
  uint64_t estimate_ns = 0;
  // That is a guess: no reason to refuse it, or another.
  bool guessed = false;
  // It may take far longer than that: it is with its device alone.
  bool may_be_long = false;
  // How far its like have been from the estimate.
  uint64_t spread_ns = 0;
  // When its like began; lives until the turn has ended. Null: it is never let try against its estimate.
  Trials* trials = nullptr;
  // For people: the hash of the program's graph, or of a recording its own; all zeros: it is neither.
  Digest program = {};
};

// What is at a device, for people.
struct LineLook {
  struct Run {
    const Account* account = nullptr;  // null: no tenant's
    Digest program;                    // as it was asked for
    absl::Time began;
    size_t devices = 1;
  };
  std::vector<Run> running;           // have their turn; first who has had it longest
  size_t waiting = 0;                 // of all
  std::vector<size_t> waiting_of;     // of each account that was asked about
  uint64_t predicted_wait_ns = 0;     // of somebody new, of weight 1
  std::vector<uint64_t> measured_ns;  // by PayerOf (owner.h): turns that have ended, and what is worked on so far
};

// Safe from any thread.
class Turns {
 public:
  struct Options {
    uint64_t cpu_budget_ns = 500'000;
    // Of other devices.
    uint64_t budget_ns = 1'000'000;
    // Of one tenant, or of one session where there are none, at one device.
    size_t most_waiting = 16'384;
    // What runs in a process of its own is overdue after four times its estimate and this.
    absl::Duration overdue = absl::Milliseconds(100);
    // For so long a tenant's run has a device while another tenant's could have it, and for less where its part is
    // less than a tenth (slice.h).
    absl::Duration slice = absl::Milliseconds(1);
  };
  // The devices outlive this. One that a tenant has for itself is the same place as the server's of its name: both
  // compute on the same cores.
  Turns(const Options& options, absl::Span<const std::unique_ptr<runtime::hal::Device>> devices);
  // Nobody may wait or have a turn.
  ~Turns();
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // `go` is called once.
  void Take(TurnRequest request, TurnCallback go);

  // Why this caller could not wait at that device now, whatever it wants: as Take says. OK: there is room.
  absl::Status CheckRoom(const runtime::hal::Device& device, const runtime::hal::LaunchControl& control) const;

  // How long it would wait now, in seconds, at the one of its devices where that is longest.
  double PredictedWait(const TurnRequest& request) const;
  // How long, in seconds, by all that is known, until that device has done all that waits there now: nobody's next
  // waits longer.
  double LongestWait(const runtime::hal::Device& device) const;
  // Who had how much of it lately, over what they were entitled to (shares.h). `seen` must not call this.
  void ReadShares(const runtime::hal::Device& device, absl::FunctionRef<void(size_t tenant, double ratio)> seen) const;
  // At that device.
  size_t waiting(const runtime::hal::Device& device) const;
  // Of runs there, ever.
  uint64_t pauses(const runtime::hal::Device& device) const;
  // The same and more, for people. Holds up who wants a turn for some microseconds.
  LineLook Look(const runtime::hal::Device& device, absl::Span<const Account* const> accounts = {}) const;

 private:
  friend class Turn;
  friend struct Waiting;
  using Lines = absl::InlinedVector<DeviceLine*, 2>;

  DeviceLine& LineOf(const runtime::hal::Device* device) const;
  absl::Status CheckRoom(const DeviceLine& line, const FairOwner& owner) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Enqueue(Waiting& waiting) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Calls whoever's turn it is at these, and at what that opens.
  void Pump(Lines lines);
  // Why one that comes cannot be done by its deadline; OK if it can.
  absl::Status Admit(Waiting& waiting, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same of one that has come, if it began now; `others_wait`: who could begin instead.
  absl::Status StillInTime(Waiting& waiting, absl::Time now, bool others_wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Serves the next of a line; null if it is nobody's turn. It has its turn, or is too late: then `too_late` says so,
  // and it is in no list any more.
  Waiting* Next(DeviceLine& line, absl::Status& too_late) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // It is to be served no more.
  void Withdraw(Waiting& waiting, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(Waiting* waiting, uint64_t measured_ns);
  // How long one of it has the device before it gives way.
  absl::Duration SliceFor(const Waiting& waiting) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Within its run, whose slice is over. Returns once the device is its own again.
  void GiveWay(Waiting& waiting);
  // What has one that has paused go on; null if it has not. Once.
  runtime::hal::Work* TakeContinuation(Waiting& waiting) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those that have paused, and are not wanted any more, go on: they see it, and end.
  void Rush();
  // So much of its device has been measured since the last time.
  void Measured(const Waiting& waiting, uint64_t ns, absl::Time now, bool ended) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Into and out of one of the two lists.
  void Join(Waiting& waiting, Waiting*& first) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave(Waiting& waiting, Waiting*& first) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those that are not wanted any more are told; those that are overdue are set aside.
  void Sweep();
  void SetAside(absl::Time now, Lines& lines) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool NobodyCalls() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return pumps_ == 0; }
  void SweepUntilStopped();

  const Options options_;
  std::vector<std::unique_ptr<DeviceLine>> lines_;

  mutable absl::Mutex mutex_;
  Bell bell_;
  Waiting* first_ ABSL_GUARDED_BY(mutex_) = nullptr;    // of those that have not been called
  Waiting* running_ ABSL_GUARDED_BY(mutex_) = nullptr;  // the last of those that have, and have not ended
  size_t paused_ ABSL_GUARDED_BY(mutex_) = 0;
  // Threads that call: one may do so for others after its own is answered.
  int pumps_ ABSL_GUARDED_BY(mutex_) = 0;
  bool asleep_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Lines left_ ABSL_GUARDED_BY(mutex_);  // to the watch: whoever's turn it is there, it calls
  std::thread watch_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_FAIR_TURNS_H_
