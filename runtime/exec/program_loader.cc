// From a Program's message to its tasks. Nothing in the message is taken on trust.
#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/error.h"
#include "runtime/exec/load.h"
#include "runtime/exec/program.h"
#include "runtime/exec/program_values.h"
#include "runtime/exec/task_collective.h"
#include "runtime/hal/stored_bytes.h"
#include "runtime/plan/access_order.h"
#include "runtime/plan/check_executable.h"

namespace kiln::runtime {
namespace {

// More tasks than anyone runs, and few enough to keep.
constexpr size_t kMaxTasks = size_t{1} << 20;

// By executable and device.
using LoadedExecutables = absl::flat_hash_map<std::pair<uint32_t, hal::Device*>, std::shared_ptr<LoadedExecutable>>;

using Value = ProgramValues::Value;

}  // namespace

class ProgramLoader {
 public:
  // With `values` of the variables, or for the greatest sizes. `programs` has what is
  // loaded, and gets what is not.
  ProgramLoader(const v1::MultiProgram& message, absl::Span<hal::Device* const> devices,
                std::optional<VariableValues> values, const Account* account, LoadedExecutables& programs,
                Program& program)
      : message_(message),
        values_of_variables_(values),
        account_(account),
        programs_(programs),
        program_(program),
        values_(message, values, program) {
    program_.devices_.assign(devices.begin(), devices.end());
  }

  absl::Status Run() {
    if (static_cast<size_t>(message_.devices_size()) != program_.devices_.size() ||
        message_.arena_bytes_size() != message_.devices_size() || program_.devices_.empty())
      return ProgramFault("devices", "another number of them");
    for (uint64_t bytes : message_.arena_bytes()) program_.arena_bytes_.push_back(bytes);
    KILN_RETURN_IF_ERROR(AddInterface());
    KILN_RETURN_IF_ERROR(values_.Run());
    for (int i = 0; i < message_.steps_size(); ++i) {
      const v1::MultiStep& step = message_.steps(i);
      KILN_RETURN_IF_ERROR(step.has_segment() ? AddSegment(step.segment(), i) : AddTransfer(step.transfer(), i));
      if (program_.tasks_.size() > kMaxTasks)
        return TooLarge("tasks", kMaxTasks, program_.tasks_.size(), "a program of too many steps on too many devices");
    }
    return absl::OkStatus();
  }

 private:
  absl::Status AddInterface() {
    program_.signature_ = message_.signature();
    program_.cost_ = message_.cost();
    program_.deterministic_order_ = message_.deterministic_order();
    for (const v1::Signature::Variable& variable : message_.signature().variables())
      program_.variables_.push_back({variable.slot(), variable.name(), variable.min_value(), variable.max_value()});
    for (const v1::Signature::Condition& condition : message_.signature().conditions()) {
      const std::string wrong = CheckSizeExpr(condition.size(), message_.signature().variables_size());
      if (!wrong.empty()) return ProgramFault("signature.conditions", wrong);
      program_.conditions_.push_back({SizeExpr(condition.size()), condition.text()});
    }
    program_.checks_ = program_.variables_.size() + program_.conditions_.size();
    return absl::OkStatus();
  }

  absl::Status AddSegment(const v1::SegmentStep& step, int number) {
    const std::string field = absl::StrCat("steps[", number, "]");
    if (step.executable() >= static_cast<uint32_t>(message_.executables_size()))
      return ProgramFault(field, "no executable");
    const v1::Executable& executable = message_.executables(static_cast<int>(step.executable()));
    const v1::Signature& signature = executable.signature();
    if (step.parameters_size() != signature.parameters_size() || step.results_size() != signature.results_size() ||
        step.variables_size() != signature.variables_size())
      return ProgramFault(field, "another number of operands than the executable's");
    for (int share = 0; share < step.device_size(); ++share) {
      ProgramTask task;
      task.kind = ProgramTask::Kind::kSegment;
      task.device = step.device(share);
      task.step = static_cast<uint32_t>(number);
      task.device_number = share;
      if (task.device >= program_.devices_.size()) return ProgramFault(field, "no such device");
      KILN_ASSIGN_OR_RETURN(task.program, Loaded(step.executable(), task.device));
      for (const v1::SegmentStep::VariableValue& value : step.variables()) {
        task.variables.emplace_back(value.device_number() ? std::optional<uint32_t>() : value.variable());
        if (!value.device_number() && value.variable() >= program_.variables_.size())
          return ProgramFault(field, "no variable");
      }
      const Plan& plan = task.program->plan();
      program_.checks_ += plan.variables.size() + plan.conditions.size();
      const auto size_of = [&](const auto& tensor) {
        return values_of_variables_.has_value()
                   ? tensor.shape.BytesAt(Program::VariablesOf(task, *values_of_variables_))
                   : tensor.bytes;
      };
      for (int i = 0; i < step.parameters_size(); ++i) {
        KILN_ASSIGN_OR_RETURN(const uint32_t slice, SliceOf(step.parameters(i), share, task.device, field));
        if (program_.slices_[slice].bytes != size_of(plan.parameters[static_cast<size_t>(i)]))
          return ProgramFault(field, "another size");
        task.parameters.push_back(slice);
        Touch(slice, 0, program_.slices_[slice].bytes, signature.parameters(i).written());
      }
      for (int i = 0; i < step.results_size(); ++i) {
        KILN_ASSIGN_OR_RETURN(const uint32_t slice, SliceOf(step.results(i), share, task.device, field));
        if (program_.slices_[slice].bytes != size_of(plan.results[static_cast<size_t>(i)]) ||
            signature.results(i).has_aliases())
          return ProgramFault(field, "another size");
        task.results.push_back(slice);
        Touch(slice, 0, program_.slices_[slice].bytes, true);
      }
      program_.kernels_ += static_cast<uint32_t>(executable.steps_size());
      AddTask(std::move(task));
    }
    return absl::OkStatus();
  }

  absl::Status AddTransfer(const v1::TransferStep& step, int number) {
    const std::string field = absl::StrCat("steps[", number, "]");
    if (step.from() >= values_.size() || step.to() >= values_.size()) return ProgramFault(field, "no such value");
    const Value &from = values_[step.from()], &to = values_[step.to()];
    const std::optional<collective::ReduceOp> op = ToReduceOp(step.reduce_op());
    const bool reduces = step.reduce_op() != v1::OP_UNSPECIFIED;
    if (from.value.dtype != to.value.dtype || from.value.layout.shape != to.value.layout.shape)
      return ProgramFault(field, "between different values");
    if (reduces && (from.value.layout.axis >= 0 || !op.has_value())) return ProgramFault(field, "no such reduction");
    auto collective = CollectiveOf(step, to.value.dtype, EndOf(from), EndOf(to));
    if (collective.has_value()) {
      AddCollective(*std::move(collective), number);
      return absl::OkStatus();
    }
    for (size_t share = 0; share < to.devices.size(); ++share) {
      ProgramTask task;
      task.kind = ProgramTask::Kind::kTransfer;
      task.device = to.devices[share];
      task.step = static_cast<uint32_t>(number);
      if (reduces) task.arithmetic = collective::ArithmeticOf(to.value.dtype, *op);
      const auto add = [&](size_t source) {
        auto box = MeetShares(from.value.layout, static_cast<int64_t>(source), to.value.layout,
                              static_cast<int64_t>(share), StoredBytes(to.value.dtype));
        if (!box.has_value() || box->run_bytes == 0) return;
        box->from = from.value.slices[source];
        box->to = to.value.slices[share];
        task.copies.push_back(*std::move(box));
      };
      if (reduces) {  // all of them as the first
        task.reduced = from.value.slices;
        add(0);
      } else if (from.value.layout.axis >= 0) {
        for (size_t source = 0; source < from.devices.size(); ++source) add(source);
      } else {  // each has it whole: its own, if it is there
        const auto own = std::find(from.devices.begin(), from.devices.end(), task.device);
        add(own == from.devices.end() ? share % from.devices.size() : static_cast<size_t>(own - from.devices.begin()));
      }
      AddTransferTask(std::move(task));
    }
    return absl::OkStatus();
  }

  TransferEnd EndOf(const Value& value) const {
    TransferEnd end{&value.value.layout, value.value.slices, {}};
    for (uint32_t device : value.devices) end.devices.push_back(program_.devices_[device]);
    return end;
  }

  void AddCollective(TaskCollective collective, int number) {
    ProgramTask task;
    task.kind = ProgramTask::Kind::kCollective;
    task.step = static_cast<uint32_t>(number);
    collective.index = program_.collectives_++;
    for (uint32_t slice : collective.inputs) Touch(slice, 0, program_.slices_[slice].bytes, false);
    for (uint32_t slice : collective.outputs) Touch(slice, 0, program_.slices_[slice].bytes, true);
    task.collective = std::move(collective);
    AddTask(std::move(task));
  }

  void AddTransferTask(ProgramTask task) {
    for (const BoxCopy& box : task.copies) {
      for (uint32_t source : task.arithmetic != nullptr ? task.reduced : std::vector<uint32_t>{box.from}) {
        task.bytes += box.TotalBytes();
        Touch(source, box.from_offset, box.FromEnd(), false);
      }
      Touch(box.to, box.to_offset, box.ToEnd(), true);
    }
    AddTask(std::move(task));
  }

  // For the task that is added next.
  void Touch(uint32_t slice_index, uint64_t begin, uint64_t end, bool writes) {
    const ProgramSlice& slice = program_.slices_[slice_index];
    // By device for arenas, by share for the rest.
    const uint64_t memory = slice.space == v1::PlacedValue::ARENA
                                ? slice.device
                                : (uint64_t{1} << 62) | (static_cast<uint64_t>(slice.space) << 40) | slice.index;
    accesses_.push_back({memory, slice.offset + begin, slice.offset + end, writes});
  }

  void AddTask(ProgramTask task) {
    std::vector<uint32_t> waits;
    const auto number = static_cast<uint32_t>(program_.tasks_.size());
    for (const Accessed& access : accesses_)
      order_.Access(access.memory, access.begin, access.end, access.writes, number, waits);
    accesses_.clear();
    std::sort(waits.begin(), waits.end());
    waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    std::erase(waits, number);
    task.waits_for = static_cast<uint32_t>(waits.size());
    for (uint32_t other : waits) program_.tasks_[other].dependents.push_back(number);
    program_.tasks_.push_back(std::move(task));
  }

  absl::StatusOr<uint32_t> SliceOf(uint32_t value, int share, uint32_t device, const std::string& field) const {
    if (value >= values_.size()) return ProgramFault(field, "no such value");
    if (static_cast<size_t>(share) >= values_[value].devices.size() ||
        values_[value].devices[static_cast<size_t>(share)] != device)
      return ProgramFault(field, "a value on another device");
    return values_[value].value.slices[static_cast<size_t>(share)];
  }

  absl::StatusOr<std::shared_ptr<LoadedExecutable>> Loaded(uint32_t executable, uint32_t device) {
    const std::pair<uint32_t, hal::Device*> key = {executable, program_.devices_[device]};
    if (const auto found = programs_.find(key); found != programs_.end()) return found->second;
    KILN_ASSIGN_OR_RETURN(std::shared_ptr<LoadedExecutable> program,
                          runtime::Load(message_.executables(static_cast<int>(executable)), *key.second, account_));
    program_.program_bytes_ += program->memory_bytes();
    programs_.emplace(key, program);
    return program;
  }

  struct Accessed {
    uint64_t memory, begin, end;
    bool writes;
  };

  const v1::MultiProgram& message_;
  const std::optional<VariableValues> values_of_variables_;
  const Account* const account_;
  LoadedExecutables& programs_;
  Program& program_;
  ProgramValues values_;
  std::vector<Accessed> accesses_;
  AccessOrder order_;
};

struct Program::Family {
  v1::MultiProgram message;  // but for the code
  LoadedExecutables programs;
  absl::Mutex mutex;
  std::vector<int64_t> values ABSL_GUARDED_BY(mutex);  // of `last`
  std::shared_ptr<const Program> last ABSL_GUARDED_BY(mutex);
};

Program::Program() = default;
Program::~Program() = default;

absl::StatusOr<std::shared_ptr<const Program>> Program::Load(const v1::MultiProgram& message,
                                                             absl::Span<hal::Device* const> devices,
                                                             const Account* account) {
  auto program = std::shared_ptr<Program>(new Program());
  LoadedExecutables programs;
  KILN_RETURN_IF_ERROR(ProgramLoader(message, devices, std::nullopt, account, programs, *program).Run());
  const auto& values = message.values();
  if (std::all_of(values.begin(), values.end(), [](const v1::PlacedValue& value) { return value.symbolic().empty(); }))
    return program;
  program->family_ = std::make_unique<Family>();
  program->family_->message = message;
  for (v1::Executable& executable : *program->family_->message.mutable_executables()) {
    executable.clear_object();
    executable.clear_constants();
  }
  program->family_->programs = std::move(programs);
  program->program_bytes_ += program->family_->message.ByteSizeLong();
  return program;
}

absl::StatusOr<std::shared_ptr<const Program>> Program::At(VariableValues variables) const {
  KILN_RETURN_IF_ERROR(CheckValues(variables));
  {
    absl::MutexLock lock(&family_->mutex);
    if (family_->last != nullptr && variables == absl::MakeConstSpan(family_->values)) return family_->last;
  }
  auto program = std::shared_ptr<Program>(new Program());
  // All is loaded, so the map is read alone: others may do the same.
  KILN_RETURN_IF_ERROR(
      ProgramLoader(family_->message, devices_, variables, /*account=*/nullptr, family_->programs, *program).Run());
  absl::MutexLock lock(&family_->mutex);
  family_->values.assign(variables.begin(), variables.end());
  family_->last = program;
  return program;
}

}  // namespace kiln::runtime
