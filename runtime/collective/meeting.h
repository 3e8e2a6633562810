// Where the queues of several devices meet.
//
// Work that concerns several devices, such as a copy from one to another, has an
// entry in the queue of each. An entry that is reached waits for the others; once
// all are there, each does its part, on its queue's thread, at the same time. So
// whatever was submitted to any of the devices before the meeting has ended when it
// begins, and what comes after sees what it did.
//
// Two meetings over the same devices must stand in the same order in all their
// queues, or each would wait for the other for ever. One lock, held while entries are
// submitted, sees to that; nobody waits for a device under it.
//
// A queue that does not come in time, because it is busy with something long, fails
// the meeting. Nobody has done anything by then; the late entry finds the meeting
// over and goes on. It holds what the meeting would have used until it has.
#ifndef KILN_RUNTIME_COLLECTIVE_MEETING_H_
#define KILN_RUNTIME_COLLECTIVE_MEETING_H_

#include <cstdint>
#include <functional>
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
  // wait for another. Destroyed once every queue has passed its entry.
  std::function<void(uint32_t rank)> work;
  // How long the first to come waits for the last.
  absl::Duration patience = absl::Seconds(30);
  // Looked at until all are there, a few times a second.
  hal::LaunchControl control;
};

// Safe from any thread. All meetings over a device go through one of these.
class Meetings {
 public:
  // Does not block. `done` gets OK once all work has ended, or, before any has begun,
  // PARTICIPANT_MISSING naming the devices that did not come (the first of them in
  // `field`), CANCELLED or DEADLINE_PASSED. It is called once, on a queue's thread,
  // and must not block.
  void Submit(MeetingRequest request, hal::DoneCallback done);

 private:
  absl::Mutex order_;
};

// Copies between buffers of two devices, ordered by both queues. The slices have one
// size, lie inside their buffers, and the host can see both: BUFFER_SIZE_MISMATCH,
// OUT_OF_BOUNDS, NOT_IMPLEMENTED. Then as Meetings::Submit.
void CopyBetween(Meetings& meetings, hal::Device* from_device, hal::BufferSlice from, hal::Device* to_device,
                 hal::BufferSlice to, absl::Duration patience, const hal::LaunchControl& control,
                 hal::DoneCallback done);

}  // namespace kiln::runtime::collective

#endif  // KILN_RUNTIME_COLLECTIVE_MEETING_H_
