// The order in which a device does things.
//
// A device has one queue. Work begins in the order of its submission and ends
// before the next begins, so a program sees all that was written before it.
// Nothing here blocks for the device: completion comes by callback. Work that pauses
// lets what comes after it run before it ends: whoever has it pause knows that they
// share nothing.
#ifndef KILN_RUNTIME_HAL_QUEUE_H_
#define KILN_RUNTIME_HAL_QUEUE_H_

#include <cstdint>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "runtime/hal/buffer.h"

namespace kiln::runtime::hal {

// One entry of a queue, linked through itself so that submitting it allocates
// nothing. The owner keeps it alive until Run() is called; from then on the
// queue does not touch it again, so Run() may delete or recycle it.
class Work {
 public:
  virtual ~Work() = default;
  // Called exactly once per submission, on the submitting thread or the
  // queue's. Must not throw, and must not wait for the same queue.
  virtual void Run() = 0;

  // The queue's own, from Submit until Run.
  struct Link {
    Work* next = nullptr;
    uint64_t estimate_ns = 0;
  } link;
};

// Gets the outcome of a transfer on the thread that did it; must not block.
using DoneCallback = absl::AnyInvocable<void(absl::Status)>;

// Safe from any thread.
class Queue {
 public:
  // Waits until all submitted work has run.
  virtual ~Queue() = default;

  // Work that is estimated small may run on this thread, inside this call, if
  // the queue is idle; anything else runs on a thread of the queue.
  virtual void Submit(Work* work, uint64_t estimate_ns) = 0;

  // The same for a function object, at the price of an allocation.
  void Submit(absl::AnyInvocable<void()> function, uint64_t estimate_ns);

  // Transfers. A slice that is out of bounds, on another device, or of another
  // size than its partner is an error through `done`, as is everything else.
  // Slices keep their buffers alive; host memory must stay until `done`.
  // Overlapping copies behave as if the source were read first.
  virtual void Copy(BufferSlice from, BufferSlice to, DoneCallback done) = 0;
  virtual void Write(const void* from, BufferSlice to, DoneCallback done) = 0;
  // The same from several places, one after the other; together they have the
  // slice's size. However many they are, it is one entry of the queue.
  virtual void WritePieces(std::vector<absl::string_view> pieces, BufferSlice to, DoneCallback done) = 0;
  // Lets go of its slice before `done`: who is told there that it has an answer may ask for as much memory.
  virtual void Read(BufferSlice from, void* to, DoneCallback done) = 0;
  // Repeats `pattern` (copied) over the slice from its start; a last repetition
  // is cut short. An empty pattern means one zero byte.
  virtual void Fill(BufferSlice to, absl::string_view pattern, DoneCallback done) = 0;

  // Whether work that takes long may pause for what comes after it.
  virtual bool may_pause() const { return false; }
  // Within Run() of work, on its thread: what has it go on after Pause(); null if it cannot
  // pause, since a submitting thread runs it, too many have paused, or the driver has no
  // means. The queue's; to be submitted once for each Pause(), before or after it, from any
  // thread, as what must not run on that.
  virtual Work* Continuation() { return nullptr; }
  // Within Run() of work that has a continuation: returns when that has come to its turn.
  virtual void Pause() {}

  // Blocks until everything submitted before has ended, or paused. DEADLINE_PASSED if it
  // has not by then. Never from within work of this queue.
  absl::Status Drain(absl::Time deadline);

  // Entries submitted and not yet ended.
  virtual uint64_t depth() const = 0;
};

// For drivers: the errors of transfers that a queue of `device` must refuse (see Queue).
absl::Status CheckOn(const Device* device, const BufferSlice& slice);
absl::Status CheckCopy(const Device* device, const BufferSlice& from, const BufferSlice& to);
absl::Status CheckPieces(const Device* device, const std::vector<absl::string_view>& pieces, const BufferSlice& to);

}  // namespace kiln::runtime::hal

#endif  // KILN_RUNTIME_HAL_QUEUE_H_
