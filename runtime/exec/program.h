// A program on a tuple of devices, loaded. On one it is that device's executable. On several it is
// tasks, each one entry of one device's queue, and which waits for which.
//
// A segment is a task for each of its devices. A transfer that is one of the known
// collectives is one task of all its devices; any other is one for each device that
// receives, which copies there what it needs of the shares of others. Tasks wait for
// tasks, never for all of a step: so a device that has what it needs goes on, and copies
// run beside what other devices do that does not depend on them.
#ifndef KILN_RUNTIME_EXEC_PROGRAM_H_
#define KILN_RUNTIME_EXEC_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/account.h"
#include "kiln/v1/multi_program.pb.h"
#include "runtime/exec/loaded_executable.h"
#include "runtime/exec/task_collective.h"
#include "runtime/hal/buffer.h"
#include "runtime/hal/device.h"
#include "runtime/plan/box_copy.h"
#include "runtime/plan/sizes.h"

namespace kiln::runtime {

// One device's share of a value. A run has a slice for each.
struct ProgramSlice {
  v1::PlacedValue::Space space = v1::PlacedValue::ARENA;
  uint32_t device = 0;
  // PARAMETER and RESULT: the number of the share among all of the signature's.
  uint32_t index = 0;
  // ARENA: where.
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint32_t alignment = 1;
};

struct ProgramTask {
  enum class Kind : uint8_t {
    kSegment,
    kTransfer,
    kCollective,
  };
  Kind kind = Kind::kSegment;
  uint32_t device = 0;  // not kCollective
  uint32_t step = 0;

  // kSegment. The slices that it takes and gives. For each of its variables, which of the
  // program's it is; none: its value is `device_number`.
  std::shared_ptr<LoadedExecutable> program;
  std::vector<uint32_t> parameters, results;
  std::vector<std::optional<uint32_t>> variables;
  int64_t device_number = 0;

  // kTransfer.
  std::vector<BoxCopy> copies;
  // Or, with this, what stands there in all of `reduced`, in their order.
  const collective::Arithmetic* arithmetic = nullptr;
  std::vector<uint32_t> reduced;
  uint64_t bytes = 0;

  std::optional<TaskCollective> collective;

  uint32_t waits_for = 0;  // so many tasks
  std::vector<uint32_t> dependents;
};

// A parameter or a result, as callers see it.
struct ProgramValue {
  std::vector<uint32_t> slices;  // share by share
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  ValueLayout layout;  // for the greatest sizes
  PlanShape shape;     // of the whole
  uint32_t first = 0;  // the number of its first share among those that are taken, or given

  // In a call with these variables.
  ValueLayout LayoutAt(VariableValues variables) const {
    return shape.is_symbolic() ? ValueLayout{shape.At(variables), layout.axis, layout.shares} : layout;
  }
};

// Immutable but for what At() keeps. Safe from any thread; its devices outlive it.
//
// One whose sizes depend on variables is a family: its layouts are those of the greatest
// values, for which there is room, and it runs as the program At() a call's values, which
// has the same code and, since boxes and shares differ, tasks of its own.
class Program {
 public:
  ~Program();

  // `devices` are those that the message names, in its order; one may be there twice.
  // INTERNAL_FAULT with the field for a message that is not sound, and the errors of
  // Load().
  static absl::StatusOr<std::shared_ptr<const Program>> Load(const v1::MultiProgram& message,
                                                             absl::Span<hal::Device* const> devices,
                                                             const Account* account = nullptr);
  // On a tuple of one.
  static absl::StatusOr<std::shared_ptr<const Program>> Load(const v1::Executable& executable, hal::Device& device,
                                                             const Account* account = nullptr);

  // On one device: the executable that it runs as, without tasks. Null on several.
  const std::shared_ptr<LoadedExecutable>& single() const { return single_; }

  bool is_family() const { return family_ != nullptr; }
  // Of a family, the program for these values, with numbers for all sizes: the errors of
  // CheckValues. The last one is kept; any other takes as long to make as its tasks are many.
  absl::StatusOr<std::shared_ptr<const Program>> At(VariableValues variables) const;

  const v1::Signature& signature() const { return signature_; }
  const v1::Cost& cost() const { return cost_; }
  hal::Device& device(uint32_t index) const { return *devices_[index]; }
  size_t device_count() const { return devices_.size(); }
  // Each once.
  std::vector<hal::Device*> DistinctDevices() const;
  // What a run brings, share by share, parameter by parameter; and on which device.
  const std::vector<PlanParameter>& taken() const { return taken_; }
  hal::Device& device_of_taken(size_t share) const { return *devices_of_taken_[share]; }
  // What a run gives, likewise; the alias is a share that is taken.
  const std::vector<PlanResult>& given() const { return given_; }
  hal::Device& device_of_given(size_t share) const { return *devices_of_given_[share]; }
  // In the order of the signature.
  const std::vector<ProgramValue>& parameters() const { return parameters_; }
  const std::vector<ProgramValue>& results() const { return results_; }
  const std::vector<ProgramSlice>& slices() const { return slices_; }
  // Of one share of that parameter.
  uint64_t share_bytes(size_t parameter) const { return slices_[parameters_[parameter].slices[0]].bytes; }
  const std::vector<ProgramTask>& tasks() const { return tasks_; }
  const std::vector<PlanVariable>& variables() const { return variables_; }
  // Scratch of one run, on each device.
  const std::vector<uint64_t>& arena_bytes() const { return arena_bytes_; }
  // All shares of parameters, and of results that are new memory, parameter by parameter.
  uint32_t parameter_shares() const { return parameter_shares_; }
  uint32_t result_shares() const { return result_shares_; }
  uint32_t kernels() const { return kernels_; }
  uint32_t collectives() const { return collectives_; }
  // Whether reductions go in the order of the devices.
  bool deterministic_order() const { return deterministic_order_; }
  uint64_t memory_bytes() const;
  // How much CheckValues looks at: variables and conditions, those of the segments' tasks too.
  size_t checks() const { return checks_; }

  // Whether a run may have these: CheckVariables (sizes.h), also of what the segments ask.
  absl::Status CheckValues(VariableValues variables) const;
  // The same, and of the rest bind.h; `shares` has one slice for each share of each
  // parameter.
  absl::Status Check(absl::Span<const hal::BufferSlice> shares, VariableValues variables) const;

  // The variables of a segment's task.
  static std::vector<int64_t> VariablesOf(const ProgramTask& task, VariableValues variables);

 private:
  friend class ProgramLoader;
  friend class ProgramValues;
  struct Family;
  Program();

  std::shared_ptr<LoadedExecutable> single_;
  std::unique_ptr<Family> family_;  // null if no size is symbolic
  std::vector<hal::Device*> devices_;
  v1::Signature signature_;
  v1::Cost cost_;
  std::vector<PlanVariable> variables_;
  std::vector<PlanCondition> conditions_;
  std::vector<ProgramSlice> slices_;
  std::vector<ProgramTask> tasks_;
  std::vector<ProgramValue> parameters_, results_;
  std::vector<PlanParameter> taken_;
  std::vector<hal::Device*> devices_of_taken_;
  std::vector<PlanResult> given_;
  std::vector<hal::Device*> devices_of_given_;
  std::vector<uint64_t> arena_bytes_;
  uint32_t parameter_shares_ = 0, result_shares_ = 0, kernels_ = 0, collectives_ = 0;
  bool deterministic_order_ = false;
  uint64_t program_bytes_ = 0;
  size_t checks_ = 0;
};

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_EXEC_PROGRAM_H_
