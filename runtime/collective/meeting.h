// Where the queues of several devices meet.
//
// Work that concerns several devices, such as a copy from one to another, has an
// entry in the queue of each. An entry that is reached waits for the others; once
// all are there, each does its part, on its queue's thread, at the same time, and stays
// until all have: some may work in the memory of others. So whatever was submitted to any of the devices before the
// meeting has ended when it begins, and what comes after sees what it did.
//
// Two meetings over the same devices must stand in the same order in all their
// queues, or each would wait for the other for ever. One lock, held while entries are
// submitted, ensures that; no thread waits for a device while it holds the lock.
//
// While an entry waits, its queue does nothing else, for nobody. So the queues are probed
// first (probe.h): an entry in each that waits for nothing. Only when all of these have been
// reached do the queues meet; and if something long has slipped in between, they part after a
// while and are asked again. So a meeting has no place in the queues until it has ended:
// what is to come after it is submitted then.
//
// A queue that does not come in time, because it is busy with something long, fails
// the meeting. No participant has done anything by then; the late entry finds the meeting
// over and goes on. Until then it holds what the meeting would have used.
#ifndef KILN_RUNTIME_COLLECTIVE_MEETING_H_
#define KILN_RUNTIME_COLLECTIVE_MEETING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/hal/device.h"
#include "runtime/hal/module.h"
#include "runtime/hal/queue.h"

namespace kiln::runtime::collective {

struct MeetingRequest {
  // All different; each outlives the meeting.
  std::vector<hal::Device*> devices;
  // Called once for each device, by its place in the list, on its queue's thread; all
  // at the same time, so it is called from several threads at once, and a call may
  // wait for another. Destroyed once every queue has passed its entry. Without work the devices are only asked whether
  // they come.
  std::function<void(uint32_t rank)> work;
  // How long the first to come waits for the last.
  absl::Duration timeout = absl::Seconds(30);
  // Looked at until all are there, a few times a second.
  hal::LaunchControl control;
};

class ProbeWatch;

// Safe from any thread. All meetings over a device go through one of these.
class Meetings {
 public:
  Meetings();
  ~Meetings();

  // Does not block. `done` gets OK once all work has ended, or, before any has begun,
  // PARTICIPANT_MISSING naming the devices that did not come (the first of them in
  // `field`), CANCELLED or DEADLINE_PASSED. It is called once, on this thread, a
  // queue's or one of this class's, and must not block. This outlives all calls.
  void Submit(MeetingRequest request, hal::DoneCallback done);

 private:
  friend class Probe;
  // Into the queues.
  void Enter(MeetingRequest request, hal::DoneCallback done);

  absl::Mutex order_;
  const std::unique_ptr<ProbeWatch> watch_;
};

// PARTICIPANT_MISSING with the names of those devices that are not `here`.
absl::Status MissingParticipants(const std::vector<hal::Device*>& devices, const std::vector<bool>& here,
                                 absl::Duration timeout);

}  // namespace kiln::runtime::collective

#endif  // KILN_RUNTIME_COLLECTIVE_MEETING_H_
