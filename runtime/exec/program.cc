#include "runtime/exec/program.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/exec/bind.h"
#include "runtime/exec/load.h"

namespace kiln::runtime {

absl::StatusOr<std::shared_ptr<const Program>> Program::Load(const v1::Executable& executable, hal::Device& device,
                                                             const Account* account) {
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<LoadedExecutable> loaded, runtime::Load(executable, device, account));
  std::shared_ptr<Program> made(new Program());
  const Plan& plan = loaded->plan();
  made->devices_ = {&device};
  made->signature_ = loaded->signature();
  made->cost_ = loaded->cost();
  made->variables_ = plan.variables;
  made->conditions_ = plan.conditions;
  made->checks_ = plan.variables.size() + plan.conditions.size();
  made->taken_ = plan.parameters;
  made->given_ = plan.results;
  made->devices_of_taken_.assign(plan.parameters.size(), &device);
  made->devices_of_given_.assign(plan.results.size(), &device);
  const auto add = [&](const auto& type, const PlanShape& shape, v1::PlacedValue::Space space, uint32_t index,
                       uint32_t alignment) {
    ProgramValue value = {{static_cast<uint32_t>(made->slices_.size())}, type.dtype(), {}, shape, index};
    value.layout.shape.assign(type.shape().begin(), type.shape().end());
    made->slices_.push_back({space, 0, index, 0, type.bytes(), alignment});
    return value;
  };
  for (uint32_t i = 0; i < plan.parameters.size(); ++i) {
    made->parameters_.push_back(add(made->signature_.parameters(static_cast<int>(i)), plan.parameters[i].shape,
                                    v1::PlacedValue::PARAMETER, i, plan.parameters[i].alignment));
  }
  for (uint32_t i = 0; i < plan.results.size(); ++i)
    made->results_.push_back(
        add(made->signature_.results(static_cast<int>(i)), plan.results[i].shape, v1::PlacedValue::RESULT, i, 1));
  made->parameter_shares_ = static_cast<uint32_t>(plan.parameters.size());
  made->result_shares_ = static_cast<uint32_t>(plan.results.size());
  made->kernels_ = static_cast<uint32_t>(plan.steps.size());
  made->program_bytes_ = loaded->memory_bytes();
  made->single_ = std::move(loaded);
  return made;
}

uint64_t Program::memory_bytes() const {
  // Of each value, two vectors or three are pieces of the heap, of 32 bytes at the least.
  uint64_t bytes = slices_.size() * sizeof(ProgramSlice) + taken_.size() * (sizeof(PlanParameter) + 32) +
                   given_.size() * (sizeof(PlanResult) + 32) +
                   (parameters_.size() + results_.size()) * (sizeof(ProgramValue) + 3 * 32) +
                   signature_.SpaceUsedLong();
  for (const ProgramTask& task : tasks_) {
    bytes += sizeof(ProgramTask) + task.copies.size() * sizeof(BoxCopy) +
             (task.parameters.size() + task.results.size() + task.reduced.size() + task.dependents.size()) *
                 sizeof(uint32_t);
  }
  if (is_family()) bytes *= 2;  // with the one that At keeps
  return program_bytes_ + bytes;
}

std::vector<hal::Device*> Program::DistinctDevices() const {
  std::vector<hal::Device*> distinct;
  for (hal::Device* device : devices_) {
    if (std::find(distinct.begin(), distinct.end(), device) == distinct.end()) distinct.push_back(device);
  }
  return distinct;
}

std::vector<int64_t> Program::VariablesOf(const ProgramTask& task, VariableValues variables) {
  std::vector<int64_t> values;
  for (const auto& variable : task.variables)
    values.push_back(variable.has_value() ? variables[*variable] : task.device_number);
  return values;
}

absl::Status Program::CheckValues(VariableValues variables) const {
  KILN_RETURN_IF_ERROR(CheckVariables(variables_, conditions_, variables));
  for (const ProgramTask& task : tasks_) {
    if (task.program == nullptr || task.variables.empty()) continue;
    const Plan& plan = task.program->plan();
    KILN_RETURN_IF_ERROR(CheckVariables(plan.variables, plan.conditions, VariablesOf(task, variables)));
  }
  return absl::OkStatus();
}

absl::Status Program::Check(absl::Span<const hal::BufferSlice> shares, VariableValues variables) const {
  KILN_RETURN_IF_ERROR(CheckValues(variables));
  std::vector<WantedSlice> wanted;
  for (size_t i = 0; i < taken_.size(); ++i) {
    const PlanParameter& share = taken_[i];
    wanted.push_back({share.slot, share.bytes, share.alignment, share.written, devices_of_taken_[i]});
  }
  return CheckSlices(wanted, shares);
}

}  // namespace kiln::runtime
