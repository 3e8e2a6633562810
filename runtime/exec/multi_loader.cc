// From a MultiProgram's message to its tasks. Nothing in the message is taken on trust.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/exec/load.h"
#include "runtime/exec/multi_collective.h"
#include "runtime/exec/multi_program.h"
#include "runtime/hal/stored_bytes.h"
#include "runtime/plan/access_order.h"
#include "runtime/plan/check_executable.h"

namespace kiln::runtime {
namespace {

// More tasks than anyone runs, and few enough to keep.
constexpr size_t kMaxTasks = size_t{1} << 20;
constexpr int64_t kMaxBytes = int64_t{1} << 60;

absl::Status Fault(absl::string_view field, absl::string_view why) {
  v1::ErrorDetail detail;
  detail.set_code(v1::INTERNAL_FAULT);
  detail.set_field(std::string(field));
  return MakeError(std::move(detail), absl::StrCat("program for several devices: ", field, ": ", why));
}

// A PlacedValue, checked.
struct Value {
  MultiValue value;
  std::vector<uint32_t> devices;
};

}  // namespace

class MultiLoader {
 public:
  MultiLoader(const v1::MultiProgram& message, absl::Span<hal::Device* const> devices, MultiProgram& program)
      : message_(message), program_(program) {
    program_.devices_.assign(devices.begin(), devices.end());
  }

  absl::Status Run() {
    if (static_cast<size_t>(message_.devices_size()) != program_.devices_.size() ||
        message_.arena_bytes_size() != message_.devices_size() || program_.devices_.empty())
      return Fault("devices", "another number of them");
    for (uint64_t bytes : message_.arena_bytes()) program_.arena_bytes_.push_back(bytes);
    KILN_RETURN_IF_ERROR(AddInterface());
    for (int i = 0; i < message_.values_size(); ++i) KILN_RETURN_IF_ERROR(AddValue(message_.values(i), i));
    KILN_RETURN_IF_ERROR(Expose(message_.parameter_values(), message_.signature().parameters_size(), "parameter_values",
                                program_.parameters_));
    KILN_RETURN_IF_ERROR(
        Expose(message_.result_values(), message_.signature().results_size(), "result_values", program_.results_));
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
    if (message_.parameter_values_size() != message_.signature().parameters_size() ||
        message_.result_values_size() != message_.signature().results_size())
      return Fault("signature", "another number of values");
    return absl::OkStatus();
  }

  absl::Status AddValue(const v1::PlacedValue& message, int number) {
    const std::string field = absl::StrCat("values[", number, "]");
    Value made;
    made.value.dtype = message.dtype();
    made.value.layout.shape.assign(message.shape().begin(), message.shape().end());
    made.value.layout.shares = message.placement().device_size();
    if (made.value.layout.shares == 0) return Fault(field, "on no device");
    const uint32_t item = StoredBytes(message.dtype());
    if (item == 0) return Fault(field, "of no dtype");
    if (message.placement().has_axis()) {
      const uint32_t axis = message.placement().axis();
      if (axis >= made.value.layout.shape.size() || made.value.layout.shape[axis] % made.value.layout.shares != 0)
        return Fault(field, "split into unequal shares");
      made.value.layout.axis = static_cast<int>(axis);
    }
    __int128 bytes = item;
    for (size_t axis = 0; axis < made.value.layout.shape.size(); ++axis) {
      if (made.value.layout.shape[axis] < 0) return Fault(field, "of a negative size");
      bytes = std::min<__int128>(bytes * made.value.layout.shape[axis], __int128{1} << 100);
      if (bytes > __int128{kMaxBytes} * made.value.layout.shares) return Fault(field, "too large");
    }
    const uint64_t share_bytes = static_cast<uint64_t>(made.value.layout.Elements()) * item;
    for (int share = 0; share < message.placement().device_size(); ++share) {
      MultiSlice slice;
      slice.space = message.space();
      slice.device = message.placement().device(share);
      slice.bytes = share_bytes;
      slice.alignment = item;
      if (slice.device >= program_.devices_.size()) return Fault(field, "on a device that there is not");
      KILN_RETURN_IF_ERROR(PlaceSlice(message, share, field, slice));
      made.value.slices.push_back(static_cast<uint32_t>(program_.slices_.size()));
      made.devices.push_back(slice.device);
      program_.slices_.push_back(slice);
    }
    values_.push_back(std::move(made));
    return absl::OkStatus();
  }

  absl::Status PlaceSlice(const v1::PlacedValue& message, int share, const std::string& field, MultiSlice& slice) {
    if (message.space() == v1::PlacedValue::ARENA) {
      if (message.offset_size() != message.placement().device_size()) return Fault(field, "another number of offsets");
      slice.offset = message.offset(share);
      const uint64_t arena = program_.arena_bytes_[slice.device];
      if (slice.offset > arena || slice.bytes > arena - slice.offset) return Fault(field, "outside the arena");
      if (slice.offset % hal::kBufferAlignment != 0) return Fault(field, "not aligned");
      return absl::OkStatus();
    }
    const bool is_parameter = message.space() == v1::PlacedValue::PARAMETER;
    if (!is_parameter && message.space() != v1::PlacedValue::RESULT) return Fault(field, "nowhere");
    const int known = is_parameter ? message_.signature().parameters_size() : message_.signature().results_size();
    if (message.index() >= static_cast<uint32_t>(known)) return Fault(field, "no such parameter or result");
    // The first value that is it says how many shares it has.
    auto& shares = is_parameter ? parameter_shares_ : result_shares_;
    uint32_t& count = is_parameter ? program_.parameter_shares_ : program_.result_shares_;
    const auto [found, is_new] = shares.emplace(message.index(), Owned{count, {}, slice.bytes});
    if (is_new) {
      count += static_cast<uint32_t>(message.placement().device_size());
      found->second.devices.assign(message.placement().device().begin(), message.placement().device().end());
    }
    const Owned& owned = found->second;
    if (static_cast<int>(owned.devices.size()) != message.placement().device_size() || owned.bytes != slice.bytes ||
        owned.devices[static_cast<size_t>(share)] != slice.device)
      return Fault(field, "another layout than the parameter or result has");
    slice.index = owned.first + static_cast<uint32_t>(share);
    return absl::OkStatus();
  }

  template <typename Indices>
  absl::Status Expose(const Indices& indices, int count, absl::string_view field, std::vector<MultiValue>& values) {
    for (int i = 0; i < count; ++i) {
      if (indices[i] >= values_.size()) return Fault(field, "no such value");
      values.push_back(values_[indices[i]].value);
      const bool is_parameter = field == "parameter_values";
      const MultiSlice& slice = program_.slices_[values.back().slices[0]];
      if (slice.space == v1::PlacedValue::ARENA || (is_parameter && slice.space != v1::PlacedValue::PARAMETER))
        return Fault(field, "in other memory than its own");
    }
    return absl::OkStatus();
  }

  absl::Status AddSegment(const v1::SegmentStep& step, int number) {
    const std::string field = absl::StrCat("steps[", number, "]");
    if (step.executable() >= static_cast<uint32_t>(message_.executables_size())) return Fault(field, "no executable");
    const v1::Executable& executable = message_.executables(static_cast<int>(step.executable()));
    const v1::Signature& signature = executable.signature();
    if (step.parameters_size() != signature.parameters_size() || step.results_size() != signature.results_size() ||
        step.variables_size() != signature.variables_size())
      return Fault(field, "another number of operands than the executable's");
    for (int share = 0; share < step.device_size(); ++share) {
      MultiTask task;
      task.kind = MultiTask::Kind::kSegment;
      task.device = step.device(share);
      task.step = static_cast<uint32_t>(number);
      task.device_number = share;
      if (task.device >= program_.devices_.size()) return Fault(field, "no such device");
      KILN_ASSIGN_OR_RETURN(task.program, Loaded(step.executable(), task.device));
      for (int i = 0; i < step.parameters_size(); ++i) {
        KILN_ASSIGN_OR_RETURN(const uint32_t slice, SliceOf(step.parameters(i), share, task.device, field));
        if (program_.slices_[slice].bytes != signature.parameters(i).bytes()) return Fault(field, "another size");
        task.parameters.push_back(slice);
        Touch(slice, 0, program_.slices_[slice].bytes, signature.parameters(i).written());
      }
      for (int i = 0; i < step.results_size(); ++i) {
        KILN_ASSIGN_OR_RETURN(const uint32_t slice, SliceOf(step.results(i), share, task.device, field));
        if (program_.slices_[slice].bytes != signature.results(i).bytes() || signature.results(i).has_aliases())
          return Fault(field, "another size");
        task.results.push_back(slice);
        Touch(slice, 0, program_.slices_[slice].bytes, true);
      }
      for (const v1::SegmentStep::VariableValue& value : step.variables()) {
        task.variables.emplace_back(value.device_number() ? std::optional<uint32_t>() : value.variable());
        if (!value.device_number() && value.variable() >= program_.variables_.size())
          return Fault(field, "no variable");
      }
      program_.kernels_ += static_cast<uint32_t>(executable.steps_size());
      AddTask(std::move(task));
    }
    return absl::OkStatus();
  }

  absl::Status AddTransfer(const v1::TransferStep& step, int number) {
    const std::string field = absl::StrCat("steps[", number, "]");
    if (step.from() >= values_.size() || step.to() >= values_.size()) return Fault(field, "no such value");
    const Value &from = values_[step.from()], &to = values_[step.to()];
    const std::optional<collective::ReduceOp> op = ToReduceOp(step.fold());
    const bool reduces = step.fold() != v1::OP_UNSPECIFIED;
    if (from.value.dtype != to.value.dtype || from.value.layout.shape != to.value.layout.shape)
      return Fault(field, "between different values");
    if (reduces && (from.value.layout.axis >= 0 || !op.has_value())) return Fault(field, "no such reduction");
    auto collective = CollectiveOf(step, to.value.dtype, EndOf(from), EndOf(to));
    if (collective.has_value()) {
      AddCollective(*std::move(collective), number);
      return absl::OkStatus();
    }
    for (size_t share = 0; share < to.devices.size(); ++share) {
      MultiTask task;
      task.kind = MultiTask::Kind::kTransfer;
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

  void AddCollective(MultiCollective collective, int number) {
    MultiTask task;
    task.kind = MultiTask::Kind::kCollective;
    task.step = static_cast<uint32_t>(number);
    collective.index = program_.collectives_++;
    for (uint32_t slice : collective.inputs) Touch(slice, 0, program_.slices_[slice].bytes, false);
    for (uint32_t slice : collective.outputs) Touch(slice, 0, program_.slices_[slice].bytes, true);
    task.collective = std::move(collective);
    AddTask(std::move(task));
  }

  void AddTransferTask(MultiTask task) {
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
    const MultiSlice& slice = program_.slices_[slice_index];
    // By device for arenas, by share for the rest.
    const uint64_t memory = slice.space == v1::PlacedValue::ARENA
                                ? slice.device
                                : (uint64_t{1} << 62) | (static_cast<uint64_t>(slice.space) << 40) | slice.index;
    accesses_.push_back({memory, slice.offset + begin, slice.offset + end, writes});
  }

  void AddTask(MultiTask task) {
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
    if (value >= values_.size()) return Fault(field, "no such value");
    if (static_cast<size_t>(share) >= values_[value].devices.size() ||
        values_[value].devices[static_cast<size_t>(share)] != device)
      return Fault(field, "a value on another device");
    return values_[value].value.slices[static_cast<size_t>(share)];
  }

  absl::StatusOr<std::shared_ptr<Program>> Loaded(uint32_t executable, uint32_t device) {
    std::shared_ptr<Program>& program = programs_[{executable, program_.devices_[device]}];
    if (program == nullptr) {
      KILN_ASSIGN_OR_RETURN(
          program, runtime::Load(message_.executables(static_cast<int>(executable)), *program_.devices_[device]));
      program_.program_bytes_ += program->memory_bytes();
    }
    return program;
  }

  struct Owned {
    uint32_t first = 0;
    std::vector<uint32_t> devices;
    uint64_t bytes = 0;
  };
  struct Accessed {
    uint64_t memory, begin, end;
    bool writes;
  };

  const v1::MultiProgram& message_;
  MultiProgram& program_;
  std::vector<Value> values_;
  absl::flat_hash_map<uint32_t, Owned> parameter_shares_, result_shares_;
  absl::flat_hash_map<std::pair<uint32_t, hal::Device*>, std::shared_ptr<Program>> programs_;
  std::vector<Accessed> accesses_;
  AccessOrder order_;
};

absl::StatusOr<std::shared_ptr<const MultiProgram>> MultiProgram::Load(const v1::MultiProgram& message,
                                                                       absl::Span<hal::Device* const> devices) {
  auto program = std::shared_ptr<MultiProgram>(new MultiProgram());
  KILN_RETURN_IF_ERROR(MultiLoader(message, devices, *program).Run());
  return program;
}

}  // namespace kiln::runtime
