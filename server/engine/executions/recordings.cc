#include "server/engine/executions/recordings.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "server/engine/executions/slots.h"
#include "server/engine/programs/program_key.h"

namespace kiln::server {
namespace {

using runtime::SequenceStep;

absl::Status BadId(v1::ErrorCode code, absl::string_view message) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  detail.set_field("recording");
  return MakeError(detail, message);
}

absl::StatusOr<SequenceStep> ToStep(const v1::RecordedStep& message, std::shared_ptr<runtime::Program> program) {
  const runtime::Plan& plan = program->plan();
  const auto& variables = program->signature().variables();
  SequenceStep step;
  step.parameters.resize(plan.parameters.size());
  for (const v1::Signature::Variable& variable : variables) {
    step.variables.push_back({std::nullopt, variable.default_value()});
  }
  std::vector<bool> have_parameter(plan.parameters.size()), have_variable(plan.variables.size());
  for (const v1::RecordedArgument& argument : message.arguments()) {
    const auto parameter = FindSlot(plan.parameters, argument.slot());
    const auto variable = FindSlot(plan.variables, argument.slot());
    const bool memory = argument.value_case() == v1::RecordedArgument::kMemory;
    if (argument.value_case() == v1::RecordedArgument::VALUE_NOT_SET) {
      return ArgumentError(v1::BAD_ARGUMENT, argument.slot(), "it has no value");
    }
    if (!parameter.has_value() && !variable.has_value()) {
      return ArgumentError(v1::UNKNOWN_ARGUMENT, argument.slot(),
                           "the program has no such parameter and no such variable");
    }
    if (memory != parameter.has_value()) {
      return ArgumentError(
          v1::BAD_ARGUMENT, argument.slot(),
          parameter.has_value() ? "a parameter is memory, not an integer" : "a variable is an integer, not memory");
    }
    std::vector<bool>::reference had = memory ? have_parameter[*parameter] : have_variable[*variable];
    if (had) return ArgumentError(v1::BAD_ARGUMENT, argument.slot(), "given twice");
    had = true;
    switch (argument.value_case()) {
      case v1::RecordedArgument::kMemory:
        step.parameters[*parameter] = {argument.memory().buffer(), argument.memory().offset()};
        break;
      case v1::RecordedArgument::kInteger: step.variables[*variable].integer = argument.integer(); break;
      default: step.variables[*variable].constant = argument.constant(); break;
    }
  }
  for (size_t i = 0; i < have_parameter.size(); ++i) {
    if (!have_parameter[i]) return ArgumentError(v1::MISSING_ARGUMENT, plan.parameters[i].slot, "missing");
  }
  for (size_t i = 0; i < have_variable.size(); ++i) {
    const v1::Signature::Variable& variable = variables[static_cast<int>(i)];
    if (have_variable[i] || variable.has_default_value()) continue;
    return ArgumentError(v1::MISSING_ARGUMENT, variable.slot(),
                         absl::StrCat("missing; it is the variable ", variable.name()));
  }
  step.program = std::move(program);
  return step;
}

}  // namespace

absl::StatusOr<Recordings::Handle> Recordings::Record(const v1::RecordSequenceRequest& request,
                                                      const RecordedPrograms& programs) {
  const auto count = static_cast<size_t>(request.steps_size());
  if (count > runtime::kMaxSteps) return runtime::RecordingTooLarge("steps", runtime::kMaxSteps, count);
  size_t arguments = 0;
  std::vector<SequenceStep> steps;
  for (int i = 0; i < request.steps_size(); ++i) {
    const uint32_t number = request.steps(i).program();
    if (number >= programs.programs.size()) {
      return runtime::AtStep(MakeError(v1::BAD_ARGUMENT, absl::StrCat("there is no program ", number, "; there are ",
                                                                      programs.programs.size())),
                             i);
    }
    auto step = ToStep(request.steps(i), programs.programs[number]);
    if (!step.ok()) return runtime::AtStep(step.status(), i);
    arguments += step->parameters.size() + step->variables.size();
    if (arguments > runtime::kMaxArguments)
      return runtime::RecordingTooLarge("arguments", runtime::kMaxArguments, arguments);
    steps.push_back(*std::move(step));
  }
  const Digest id = RecordingKey(programs.keys, request);
  return cache_.GetOrCompute(id, [&]() -> absl::StatusOr<runtime::ProgramCache<Recording>::Entry> {
    KILN_ASSIGN_OR_RETURN(auto sequence, runtime::Sequence::Make(programs.device, std::move(steps)));
    const uint64_t bytes = sizeof(Recording) + sequence->memory_bytes();
    return {{std::make_shared<Recording>(Recording{id, std::move(sequence)}), bytes}};
  });
}

absl::StatusOr<Recordings::Handle> Recordings::Find(absl::string_view id) {
  if (id.size() != sizeof(Digest::bytes)) {
    return BadId(v1::BAD_ARGUMENT, absl::StrCat("a recording's name has 32 bytes; this one has ", id.size()));
  }
  if (Handle found = cache_.Find(Digest::FromBytes(id)); found != nullptr) return found;
  return BadId(v1::NEED_GRAPH, absl::StrCat("there is no recording ", absl::BytesToHexString(id), "; record it again"));
}

}  // namespace kiln::server
