// Poison: which bytes of device memory a failed command would have made or written.
//
// A client that sends commands without waiting has sent many more by the time one of
// them fails. Those that use what it left undone must not run on stale bytes, and must
// say what went wrong first rather than what came of it. So memory knows which of its
// bytes are poisoned, and by which command. All handles of a memory share that.
//
// Poison ends with the bytes that it is of: whatever overwrites them wholly and succeeds
// (a write, a fill, a copy, a collective's output, a result, a parameter that a program
// overwrites without reading it) heals them. What overwrites only some of a range, or
// reads any of it first, does not.
#ifndef KILN_SERVER_ENGINE_MEMORY_POISON_H_
#define KILN_SERVER_ENGINE_MEMORY_POISON_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace kiln::server {

// The command that went wrong first; 0 for a call that is no command of a stream's.
struct Cause {
  uint64_t command_id = 0;
  std::string tag;
  absl::Status status;
};
using CausePtr = std::shared_ptr<const Cause>;

// How many poisoned ranges one memory keeps apart. Where there would be more, the two
// that lie closest become one, with what is between them: an error too many, and never
// one too few.
inline constexpr size_t kMaxPoisonedRanges = 64;

// Of one memory. Bytes are counted as its hal::Buffer does. Safe from any thread; while
// nothing is poisoned, which is nearly always, nothing here takes a lock.
class Poison {
 public:
  // Of a name that stands for no memory yet.
  static constexpr uint64_t kEnd = std::numeric_limits<uint64_t>::max();

  // The earliest cause that poisons any of these bytes; null if they are healthy.
  CausePtr In(uint64_t begin, uint64_t end) const;
  // What is poisoned already keeps its cause.
  void MarkPoisoned(uint64_t begin, uint64_t end, const CausePtr& cause);
  void Heal(uint64_t begin, uint64_t end);
  // What `before` poisons, `cause` does.
  void Replace(const CausePtr& before, const CausePtr& cause);

 private:
  struct Range {
    uint64_t begin, end;
    CausePtr cause;
  };
  void Keep(std::vector<Range> ranges) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<bool> any_{false};
  mutable absl::Mutex mutex_;
  // In ascending order, disjoint, not empty.
  std::vector<Range> ranges_ ABSL_GUARDED_BY(mutex_);
};
using PoisonPtr = std::shared_ptr<Poison>;

// Bytes of a memory; of none if `poison` is null.
struct Extent {
  PoisonPtr poison;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// The memory that a call reads and writes: of which the one decides whether it fails, and
// the other fails with it, or is healed. Not for several threads at once.
class Touched {
 public:
  void Reads(Extent extent) { inputs_.push_back(std::move(extent)); }
  // Some of it, or after it was read: what it held counts.
  void Writes(const Extent& extent) {
    inputs_.push_back(extent);
    outputs_.push_back({extent});
  }
  // All of it, whatever it held.
  void Overwrites(Extent extent) { outputs_.push_back({.extent = std::move(extent), .whole = true}); }
  // Some of it, which was there before; what it held does not count.
  void Changes(Extent extent) { outputs_.push_back({.extent = std::move(extent)}); }
  // Something that is not there before.
  void Makes(Extent extent) { outputs_.push_back({.extent = std::move(extent), .made = true}); }

  void ForgetReads() { inputs_.clear(); }

  // The earliest cause among what is read; null if that is healthy.
  CausePtr Cause() const;

  absl::Status Check() const;

  // The call has failed so, or met that cause.
  void MarkPoisoned(const CausePtr& cause) const;
  // The same of what it makes alone, which has somebody's old bytes in it.
  void MarkMadePoisoned(const CausePtr& cause) const;
  // What it has marked so with `before` is now poisoned by `cause`.
  void Replace(const CausePtr& before, const CausePtr& cause) const;
  // It has succeeded.
  void Heal() const;
  // One or the other, for a call that is no command of a stream's.
  void Settle(const absl::Status& status) const;

  // Of such a call that has done its work: its own failure, which left all as it was, unless
  // it says that it was stopped in the middle (runtime/hal/wanted_copy.h); or that of what it read, if what was before
  // it in its device's queue has poisoned that after the call was accepted. Outputs are healed, or poisoned.
  absl::Status Finish(const absl::Status& status) const;

  // What the call makes or writes, in the order in which it was said.
  const Extent& output(size_t index) const { return outputs_[index].extent; }

 private:
  struct Output {
    Extent extent;
    bool whole = false;
    bool made = false;
  };
  absl::InlinedVector<Extent, 4> inputs_;
  absl::InlinedVector<Output, 4> outputs_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_MEMORY_POISON_H_
