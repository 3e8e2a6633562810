// Programs in a row that run as one.
//
// A replay has no time to look at its programs: what can be known beforehand is
// done when the sequence is made. The programs' steps become one list of launches,
// and each operand says where in the replay's own memory its pointer points. What is
// left for a run is to check its few buffers and its integers, to fill one pointer
// table, and to launch kernel after kernel.
//
// A program for several devices is a part of its own. It begins when the steps before it
// have ended; the steps after it begin when it has ended.
#ifndef KILN_RUNTIME_EXEC_SEQUENCE_H_
#define KILN_RUNTIME_EXEC_SEQUENCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/exec/estimate.h"
#include "runtime/exec/loaded_executable.h"
#include "runtime/exec/program.h"
#include "runtime/hal/buffer.h"
#include "runtime/hal/device.h"
#include "runtime/hal/launch_list.h"
#include "runtime/plan/sequence_bytes.h"

namespace kiln::runtime {

// One program of a sequence, and what it takes.
struct SequenceStep {
  // From byte `offset` on of the run's buffer of this number.
  struct Memory {
    uint32_t buffer = 0;
    uint64_t offset = 0;
  };
  // The run's integer of this number; without one, `constant`.
  struct Number {
    std::optional<uint32_t> integer;
    int64_t constant = 0;
  };

  std::shared_ptr<LoadedExecutable> program;       // on the sequence's device
  absl::InlinedVector<Memory, 8> parameters;       // one for each of the program's; or for each share of each
  absl::InlinedVector<Number, 2> variables;        // likewise
  std::shared_ptr<const Program> multi = nullptr;  // instead of `program`
};

// What a run must bring.
struct SequenceBuffer {
  const hal::Device* device = nullptr;  // null: no step says
  uint64_t bytes = 0;                   // at least; for the greatest values of the variables
  uint32_t alignment = 1;
  bool written = false;
  // What it must hold before a run, what a run may change, and what it overwrites: no
  // less, and no more, than it does with any integers.
  SequenceBytes read, changed, overwritten;
  // Of `bytes`, what does not depend on integers of the run.
  uint64_t fixed_bytes = 0;
};

// Steps that follow each other on the sequence's device, linked; or one on several.
struct SequencePart {
  uint32_t step = 0;  // the first
  // In the lists of the sequence.
  uint32_t first_launch = 0, launches = 0;
  uint32_t first_operand = 0, operands = 0;
  // For work of the device's queue; null for a program for several devices.
  std::unique_ptr<hal::LaunchList> list = nullptr;
};

// Where a pointer of the table comes from: kFixed has the value itself, kBuffer both
// fields, kArena the offset, kInteger the index.
struct SequenceOperand {
  enum class Space : uint32_t { kFixed, kBuffer, kArena, kInteger };
  Space space = Space::kFixed;
  uint32_t index = 0;
  uint64_t offset = 0;
};

// What a sequence may be made of: beyond what anyone runs, and below what would hurt
// to keep. Arguments are those of all steps together.
inline constexpr size_t kMaxSteps = size_t{1} << 16;
inline constexpr size_t kMaxArguments = size_t{1} << 20;

// GRAPH_TOO_LARGE: `used` of what `limit` names, of which a sequence may have `limit_value`.
absl::Status RecordingTooLarge(absl::string_view limit, uint64_t limit_value, uint64_t used);

// Adds which step of a sequence a failure is about: to the text, and to the detail's
// `field`, before what that has, as "steps[3]" if it has a detail.
absl::Status AtStep(const absl::Status& status, size_t step);

// Immutable but for its estimate. Safe from any thread. Its programs live as long as
// it does; its device outlives it.
class Sequence {
 public:
  // Each names the step, and the slot where there is one:
  //   BAD_ARGUMENT             no steps; a result that is new memory; a written
  //                            parameter that shares bytes with another of its step;
  //                            an integer that no value of the variable is
  //   OUT_OF_BOUNDS            a condition of the program is not met; an offset that
  //                            no memory has
  //   BUFFER_DTYPE_MISMATCH    an offset that is no multiple of the dtype's size
  //   BUFFER_DEVICE_MISMATCH   a program of another device; a buffer that is to be on two
  //   GRAPH_TOO_LARGE          over a limit on steps, their arguments, numbers of buffers
  //                            or integers, launches, operands, or what is to be
  //                            checked again with each replay
  static absl::StatusOr<std::shared_ptr<Sequence>> Make(hal::Device* device, std::vector<SequenceStep> steps);

  // MISSING_ARGUMENT or UNKNOWN_ARGUMENT for another number of them than the sequence takes.
  absl::Status CheckCounts(size_t buffers, size_t integers) const;

  // Whether a run may have these: the errors of CheckCounts; the errors of bind.h for buffers, with `field`
  // "buffers[2]", and for integers those of CheckVariables.
  absl::Status Check(absl::Span<const hal::BufferSlice> buffers, absl::Span<const int64_t> integers) const;

  // For what has passed Check: BAD_ARGUMENT if two of the buffers share memory in which
  // a step writes what it also has under another name. May look at every step, so it is
  // for the queue's thread.
  absl::Status CheckSharing(absl::Span<const hal::BufferSlice> buffers, absl::Span<const int64_t> integers) const;

  hal::Device& device() const { return *device_; }
  absl::Span<const SequenceStep> steps() const { return steps_; }
  absl::Span<const SequenceBuffer> buffers() const { return buffers_; }
  uint32_t integers() const { return integers_; }
  absl::Span<const hal::Launch> launches() const { return launches_; }
  // Which step that launch is of.
  uint32_t StepOf(size_t launch) const { return steps_of_[launch]; }
  // What runs one after the other. At least one.
  absl::Span<const SequencePart> parts() const { return parts_; }
  // Whether a run is one entry of the device's queue.
  bool is_one_entry() const { return parts_.size() == 1 && parts_[0].list != nullptr; }
  // Where it runs; each once.
  absl::Span<hal::Device* const> devices() const { return devices_; }
  // Launched by one run.
  uint32_t kernels() const { return kernels_; }
  absl::Span<const SequenceOperand> operands() const { return operands_; }
  uint64_t arena_bytes() const { return arena_bytes_; }
  Estimate& estimate() const { return estimate_; }
  // Roughly, its programs included.
  uint64_t memory_bytes() const;
  // Without them.
  uint64_t own_bytes() const;

 private:
  Sequence(hal::Device* device, std::vector<SequenceStep> steps)
      : device_(device), steps_(std::move(steps)), devices_({device}) {}

  // Adds what one step needs, and its launches. BUFFER_DEVICE_MISMATCH.
  absl::Status Need(const SequenceStep& step, uint32_t number);
  void Use(const SequenceStep& step, std::vector<SequenceUse>& uses) const;
  void Link(const SequenceStep& step, uint32_t number);

  // The steps for which it depends on the run's integers what is right.
  absl::Status CheckNumbered(absl::Span<const hal::BufferSlice> buffers, absl::Span<const int64_t> integers) const;

  hal::Device* const device_;
  const std::vector<SequenceStep> steps_;
  std::vector<hal::Device*> devices_;
  std::vector<SequenceBuffer> buffers_;
  uint32_t integers_ = 0;
  std::vector<uint32_t> numbered_;  // steps with an integer of the run's
  size_t checks_ = 0;               // what there is to look at in these
  size_t tasks_ = 0;                // of the programs for several devices
  std::vector<hal::Launch> launches_;
  std::vector<uint32_t> steps_of_;   // of the launches
  std::vector<SequencePart> parts_;  // before their programs go, their lists do
  std::vector<SequenceOperand> operands_;
  uint32_t kernels_ = 0;
  uint64_t arena_bytes_ = 0;
  mutable Estimate estimate_;
};

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_EXEC_SEQUENCE_H_
