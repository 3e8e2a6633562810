#include "server/engine/executions/recordings.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
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

using SlotNumbers = absl::flat_hash_map<uint32_t, size_t>;

// What a recorded argument is, memory by memory.
std::vector<SequenceStep::Memory> MemoryOf(const v1::RecordedArgument& argument) {
  std::vector<SequenceStep::Memory> memory;
  if (argument.has_memory()) memory.push_back({argument.memory().buffer(), argument.memory().offset()});
  for (const v1::RecordedMemory& share : argument.shards().memory()) memory.push_back({share.buffer(), share.offset()});
  return memory;
}

// How many memories each of the program's parameters is.
std::vector<size_t> SharesOf(const StoredProgram& program) {
  std::vector<size_t> shares;
  for (const runtime::ProgramValue& parameter : program.program->parameters())
    shares.push_back(parameter.slices.size());
  return shares;
}

absl::StatusOr<SequenceStep> ToStep(const v1::RecordedStep& message, const StoredProgram& program) {
  const v1::Signature& signature = program.signature();
  SlotNumbers parameters, variables;
  for (const v1::Signature::Parameter& parameter : signature.parameters())
    parameters.emplace(parameter.slot(), parameters.size());
  SequenceStep step;
  for (const v1::Signature::Variable& variable : signature.variables()) {
    variables.emplace(variable.slot(), variables.size());
    step.variables.push_back({std::nullopt, variable.default_value()});
  }
  std::vector<std::vector<SequenceStep::Memory>> memory(parameters.size());
  const std::vector<size_t> shares = SharesOf(program);
  std::vector<bool> have_parameter(parameters.size()), have_variable(variables.size());
  for (const v1::RecordedArgument& argument : message.arguments()) {
    const auto parameter = parameters.find(argument.slot());
    const auto variable = variables.find(argument.slot());
    const bool is_memory = argument.has_memory() || argument.has_shards();
    if (argument.value_case() == v1::RecordedArgument::VALUE_NOT_SET) {
      return ArgumentError(v1::BAD_ARGUMENT, argument.slot(), "it has no value");
    }
    if (parameter == parameters.end() && variable == variables.end()) {
      return ArgumentError(v1::UNKNOWN_ARGUMENT, argument.slot(),
                           "the program has no such parameter and no such variable");
    }
    if (is_memory != (parameter != parameters.end())) {
      return ArgumentError(
          v1::BAD_ARGUMENT, argument.slot(),
          is_memory ? "a variable is an integer, not memory" : "a parameter is memory, not an integer");
    }
    std::vector<bool>::reference had = is_memory ? have_parameter[parameter->second] : have_variable[variable->second];
    if (had) return ArgumentError(v1::BAD_ARGUMENT, argument.slot(), "given twice");
    had = true;
    if (is_memory) {
      memory[parameter->second] = MemoryOf(argument);
      const size_t wanted = shares[parameter->second];
      if (memory[parameter->second].size() == wanted) continue;
      return ArgumentError(v1::BAD_ARGUMENT, argument.slot(),
                           absl::StrCat(memory[parameter->second].size(), " memories; the parameter is on ", wanted,
                                        wanted == 1 ? " device" : " devices", ", and takes one for each"));
    }
    SequenceStep::Number& number = step.variables[variable->second];
    argument.value_case() == v1::RecordedArgument::kInteger ? void(number.integer = argument.integer())
                                                            : void(number.constant = argument.constant());
  }
  for (size_t i = 0; i < have_parameter.size(); ++i) {
    if (!have_parameter[i])
      return ArgumentError(v1::MISSING_ARGUMENT, signature.parameters(static_cast<int>(i)).slot(), "missing");
    step.parameters.insert(step.parameters.end(), memory[i].begin(), memory[i].end());
  }
  for (size_t i = 0; i < have_variable.size(); ++i) {
    const v1::Signature::Variable& variable = signature.variables(static_cast<int>(i));
    if (have_variable[i] || variable.has_default_value()) continue;
    return ArgumentError(v1::MISSING_ARGUMENT, variable.slot(),
                         absl::StrCat("missing; it is the variable ", variable.name()));
  }
  step.program = program.program->single();
  if (step.program == nullptr) step.multi = program.program;
  return step;
}

}  // namespace

absl::StatusOr<Recordings::Handle> Recordings::Record(const v1::RecordSequenceRequest& request,
                                                      const RecordedPrograms& programs, const TrustDomain& domain,
                                                      const Account* account, PayFn pay) {
  const auto count = static_cast<size_t>(request.steps_size());
  if (count > runtime::kMaxSteps) return runtime::RecordingTooLarge("steps", runtime::kMaxSteps, count);
  size_t arguments = 0;
  double seconds = 0;
  std::vector<SequenceStep> steps;
  for (int i = 0; i < request.steps_size(); ++i) {
    const uint32_t number = request.steps(i).program();
    if (number >= programs.programs.size()) {
      return runtime::AtStep(MakeError(v1::BAD_ARGUMENT, absl::StrCat("there is no program ", number, "; there are ",
                                                                      programs.programs.size())),
                             i);
    }
    seconds += static_cast<double>(programs.programs[number]->cost().run_ns()) / 1e9;
    auto step = ToStep(request.steps(i), *programs.programs[number]);
    if (!step.ok()) return runtime::AtStep(step.status(), i);
    arguments += step->parameters.size() + step->variables.size();
    if (arguments > runtime::kMaxArguments)
      return runtime::RecordingTooLarge("arguments", runtime::kMaxArguments, arguments);
    steps.push_back(*std::move(step));
  }
  if (seconds >= static_cast<double>(max_run_seconds_)) {
    const auto whole = static_cast<uint64_t>(seconds);
    return TooLarge("seconds of one run", max_run_seconds_, whole,
                    absl::StrCat("a replay is estimated to take ", whole,
                                 " seconds on this device; this server takes less than ", max_run_seconds_));
  }
  KILN_RETURN_IF_ERROR(CheckEach(account, Quota::kSecondsOfARun, seconds));
  const Digest id = RecordingKey(programs.keys, request);
  return cache_.GetOrCompute(id, [&]() -> absl::StatusOr<runtime::ProgramCache<Recording>::Entry> {
    KILN_ASSIGN_OR_RETURN(auto sequence, runtime::Sequence::Make(programs.device, std::move(steps)));
    const uint64_t bytes =
        WeightOf(sizeof(Recording) + sequence->memory_bytes(), programs.programs.size(), limit_bytes_);
    // Its programs are paid for already.
    KILN_ASSIGN_OR_RETURN(Charge charge, pay(sizeof(Recording) + sequence->own_bytes()));
    auto recording = std::make_shared<Recording>();
    recording->id = id;
    recording->domain = domain;
    recording->sequence = std::move(sequence);
    recording->programs = programs.programs;
    recording->charge = std::move(charge);
    recording->run_seconds = seconds;
    return {{std::move(recording), bytes}};
  });
}

absl::StatusOr<Recordings::Handle> Recordings::Find(absl::string_view id, const TrustDomain& domain) {
  if (id.size() != sizeof(Digest::bytes)) {
    return BadId(v1::BAD_ARGUMENT, absl::StrCat("a recording's name has 32 bytes; this one has ", id.size()));
  }
  if (Handle found = cache_.Find(Digest::FromBytes(id)); found != nullptr && found->domain == domain) return found;
  return BadId(v1::NEED_GRAPH, absl::StrCat("there is no recording ", absl::BytesToHexString(id), "; record it again"));
}

}  // namespace kiln::server
