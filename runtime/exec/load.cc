#include "runtime/exec/load.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "runtime/hal/stored_bytes.h"
#include "runtime/plan/check_executable.h"

namespace kiln::runtime {
namespace {

PlanOperand::Space SpaceOf(v1::Operand::Space space) {
  switch (space) {
    case v1::Operand::PARAMETER: return PlanOperand::Space::kParameter;
    case v1::Operand::RESULT: return PlanOperand::Space::kResult;
    case v1::Operand::ARENA: return PlanOperand::Space::kArena;
    case v1::Operand::CONSTANTS: return PlanOperand::Space::kConstants;
    case v1::Operand::VARIABLE: return PlanOperand::Space::kVariable;
    case v1::Operand::PREPARED: return PlanOperand::Space::kPrepared;
    default: KILN_CHECK(false && "CheckExecutable lets no other space pass"); return PlanOperand::Space::kParameter;
  }
}

PlanStep AddStep(const v1::Step& step, Plan& plan) {
  const PlanStep added = {step.kernel(), static_cast<uint32_t>(plan.operands.size()),
                          static_cast<uint32_t>(step.operands_size())};
  for (const v1::Operand& operand : step.operands())
    plan.operands.push_back({SpaceOf(operand.space()), operand.index(), operand.offset()});
  return added;
}

// `executable` is checked.
Plan MakePlan(const v1::Executable& executable) {
  Plan plan;
  for (const v1::Step& step : executable.steps()) plan.steps.push_back(AddStep(step, plan));
  for (const v1::Preparation& preparation : executable.preparations()) {
    PlanPreparation& made = plan.preparations.emplace_back();
    made.parameter = preparation.parameter();
    made.bytes = preparation.bytes();
    made.step = AddStep(preparation.step(), plan);
    std::copy(preparation.key().begin(), preparation.key().end(), made.how.begin());
  }
  for (const v1::Signature::Parameter& parameter : executable.signature().parameters()) {
    const uint32_t item = StoredBytes(parameter.dtype());
    plan.parameters.push_back({parameter.slot(), PlanShape(parameter, item), parameter.bytes(), item,
                               parameter.written(), parameter.overwritten()});
  }
  for (const v1::Signature::Result& result : executable.signature().results()) {
    plan.results.push_back({PlanShape(result, StoredBytes(result.dtype())), result.bytes(),
                            result.has_aliases() ? result.aliases() : PlanResult::kFresh});
  }
  for (const v1::Signature::Variable& variable : executable.signature().variables())
    plan.variables.push_back({variable.slot(), variable.name(), variable.min_value(), variable.max_value()});
  for (const v1::Signature::Condition& condition : executable.signature().conditions())
    plan.conditions.push_back({SizeExpr(condition.size()), condition.text()});
  for (const v1::Kernel& kernel : executable.kernels()) {
    plan.kernel_names.push_back(kernel.name().empty() ? kernel.symbol() : kernel.name());
  }
  plan.arena_bytes = executable.arena_bytes();
  plan.constants_bytes = executable.constants().size();
  plan.code_bytes = executable.object().size();
  return plan;
}

absl::StatusOr<std::shared_ptr<hal::Buffer>> LoadConstants(const std::string& constants, hal::Device& device,
                                                           const Account* account) {
  if (constants.empty()) return nullptr;
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<hal::Buffer> buffer,
                        device.allocator().guarantees().Allocate(account, device.allocator(), constants.size(),
                                                                 hal::MemoryUse::kProgram));
  // Not by the queue, in which a long kernel may stand: nobody else knows the buffer.
  KILN_RETURN_IF_ERROR(device.Store(constants.data(), constants.size(), buffer->device_data()));
  return buffer;
}

}  // namespace

absl::StatusOr<std::shared_ptr<LoadedExecutable>> Load(const v1::Executable& executable, hal::Device& device,
                                                       const Account* account) {
  KILN_RETURN_IF_ERROR(CheckExecutable(executable, device.target()));
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<hal::Module> module, device.LoadModule(executable));
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<hal::Buffer> constants, LoadConstants(executable.constants(), device, account));
  return std::make_shared<LoadedExecutable>(&device, MakePlan(executable), executable.signature(), executable.cost(),
                                            std::move(module), std::move(constants));
}

}  // namespace kiln::runtime
