// A 64-bit number that only rises, on which host and devices meet.
//
// Work says "done up to here" by signalling a value; others wait for a value or
// leave a callback at one. A failure takes the place of all values not yet
// reached.
#ifndef KILN_RUNTIME_HAL_TIMELINE_H_
#define KILN_RUNTIME_HAL_TIMELINE_H_

#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

namespace kiln::runtime::hal {

// Safe from any thread.
class Timeline {
 public:
  virtual ~Timeline() = default;

  // The highest value signalled; 0 at first.
  virtual uint64_t value() const = 0;

  // Raises the value to `value`; a lower one changes nothing. Callbacks that
  // become due run on this thread, in order of their values, before it returns.
  virtual void Signal(uint64_t value) = 0;

  // Ends the timeline: each waiter, now or later, for a value not yet reached
  // gets `status`, which must not be OK. Only the first failure counts.
  virtual void Fail(absl::Status status) = 0;

  // Blocks until `value` is reached. DEADLINE_PASSED if it is not by then.
  virtual absl::Status Wait(uint64_t value, absl::Time deadline) = 0;

  // Calls `callback` exactly once when `value` is reached: at once, on this
  // thread, if it is already; else on the thread that signals or fails. The
  // callback must not block.
  virtual void OnReached(uint64_t value, absl::AnyInvocable<void(absl::Status)> callback) = 0;
};

}  // namespace kiln::runtime::hal

#endif  // KILN_RUNTIME_HAL_TIMELINE_H_
