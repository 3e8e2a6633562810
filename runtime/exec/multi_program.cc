#include "runtime/exec/multi_program.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/exec/bind.h"

namespace kiln::runtime {

uint64_t MultiProgram::memory_bytes() const {
  uint64_t bytes = program_bytes_ + slices_.size() * sizeof(MultiSlice);
  for (const MultiTask& task : tasks_) {
    bytes += sizeof(MultiTask) + task.copies.size() * sizeof(BoxCopy) +
             (task.parameters.size() + task.results.size() + task.reduced.size() + task.dependents.size()) *
                 sizeof(uint32_t);
  }
  return bytes;
}

std::vector<hal::Device*> MultiProgram::DistinctDevices() const {
  std::vector<hal::Device*> distinct;
  for (hal::Device* device : devices_) {
    if (std::find(distinct.begin(), distinct.end(), device) == distinct.end()) distinct.push_back(device);
  }
  return distinct;
}

std::vector<int64_t> MultiProgram::VariablesOf(const MultiTask& task, VariableValues variables) {
  std::vector<int64_t> values;
  for (const auto& variable : task.variables)
    values.push_back(variable.has_value() ? variables[*variable] : task.device_number);
  return values;
}

absl::Status MultiProgram::CheckValues(VariableValues variables) const {
  KILN_RETURN_IF_ERROR(CheckVariables(variables_, {}, variables));
  for (const MultiTask& task : tasks_) {
    if (task.program == nullptr || task.variables.empty()) continue;
    const Plan& plan = task.program->plan();
    KILN_RETURN_IF_ERROR(CheckVariables(plan.variables, plan.conditions, VariablesOf(task, variables)));
  }
  return absl::OkStatus();
}

absl::Status MultiProgram::Check(absl::Span<const hal::BufferSlice> shares, VariableValues variables) const {
  KILN_RETURN_IF_ERROR(CheckValues(variables));
  std::vector<WantedSlice> wanted;
  for (size_t i = 0; i < taken_.size(); ++i) {
    const PlanParameter& share = taken_[i];
    wanted.push_back({share.slot, share.bytes, share.alignment, share.written, devices_of_taken_[i]});
  }
  return CheckSlices(wanted, shares);
}

}  // namespace kiln::runtime
