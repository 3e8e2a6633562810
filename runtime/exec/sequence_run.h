// One run of a sequence, from submission to callback.
#ifndef KILN_RUNTIME_EXEC_SEQUENCE_RUN_H_
#define KILN_RUNTIME_EXEC_SEQUENCE_RUN_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "runtime/exec/executor.h"
#include "runtime/exec/launch_times.h"
#include "runtime/exec/sequence.h"
#include "runtime/hal/queue.h"
#include "runtime/observer.h"

namespace kiln::runtime {

// Belongs to itself from Submit until it has run. What waits in the queue is small: its
// table of pointers it makes when its turn comes. A launch allocates nothing. With programs
// for several devices, its devices are first asked whether they are ready, and each part
// is submitted when the one before has ended.
class SequenceRun final : public hal::Work {
 public:
  // What the sequence takes, checked. Copies the slices and the integers.
  static void Submit(std::shared_ptr<const Sequence> sequence, absl::Span<const hal::BufferSlice> buffers,
                     const RunOptions& options, RuntimeObserver* observer, RunCallback callback);

  // The part at hand, launched from the queue's thread.
  void Run() override;

 private:
  using Clock = std::chrono::steady_clock;

  SequenceRun(std::shared_ptr<const Sequence> sequence, absl::Span<const hal::BufferSlice> buffers,
              const RunOptions& options, RuntimeObserver* observer, RunCallback callback);

  // A part is to begin, or all is over. Whoever ends a part within the call that begins
  // it leaves the next to that call, so however many there are, none nests in another.
  void GoOn();
  void BeginPart();
  void RunOnSeveral(const SequencePart& part);
  void EndPart(const absl::Status& status);
  void Finish();

  const SequencePart& part() const { return sequence_->parts()[part_]; }
  // What is asked before the first part.
  absl::Status Start();
  // What others made of the memory that this run writes is good no longer.
  void MarkChanged();
  absl::Status FillPointers();
  // Runs the launches of the part; counts those that ran.
  absl::Status Walk(uint32_t& launches);
  // For an observer that wants to know of each.
  absl::Status WalkTimed(uint32_t& launches);

  const std::shared_ptr<const Sequence> sequence_;
  const std::vector<hal::BufferSlice> buffers_;
  const std::vector<int64_t> integers_;
  hal::LaunchControl control_;
  RunStart* const start_;
  collective::Collectives* const collectives_;
  RuntimeObserver* const observer_;
  RunCallback callback_;
  Charge arena_charge_;          // while a part runs
  std::vector<void*> pointers_;  // one for each operand of the sequence
  Clock::time_point submitted_, started_;
  LaunchTimes times_;

  // Of the part at hand, or of the last.
  size_t part_ = 0;
  absl::Status status_;
  std::atomic<int> turns_{0};
  uint32_t launches_ = 0;
  double device_seconds_ = 0;
  double own_seconds_ = 0;  // of these, the sequence's own device's
  double seconds_ = 0;      // of what the device's queue ran
};

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_EXEC_SEQUENCE_RUN_H_
