#include "tests/support/ptx/machine.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "tests/support/ptx/group.h"
#include "tests/support/ptx/program.h"
#include "tests/support/ptx/syntax/inline_calls.h"
#include "tests/support/ptx/syntax/syntax.h"

namespace kiln::testing::ptx {

Module::Module(std::unique_ptr<Program> program) : program_(std::move(program)) {}
Module::~Module() = default;

absl::StatusOr<std::unique_ptr<Module>> Module::Parse(absl::string_view ptx) {
  KILN_ASSIGN_OR_RETURN(ModuleText text, ParseText(ptx));
  KILN_RETURN_IF_ERROR(InlineCalls(text));
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<Program> program, Decode(text));
  return std::unique_ptr<Module>(new Module(std::move(program)));
}

const Module::Entry* Module::Find(absl::string_view name) const {
  const auto found = program_->functions.find(std::string(name));
  return found == program_->functions.end() ? nullptr : &found->second->entry;
}

std::vector<const Module::Entry*> Module::entries() const {
  std::vector<const Entry*> all;
  for (const auto& [name, function] : program_->functions) all.push_back(&function->entry);
  return all;
}

Range Module::Variable(absl::string_view name) const {
  const auto found = program_->variables.find(std::string(name));
  return found == program_->variables.end() ? Range{} : found->second.range;
}

absl::Status Module::Launch(const Entry& entry, const LaunchShape& shape, absl::Span<const void* const> params,
                            absl::Span<const Range> memory, const LaunchLimits& limits) const {
  const auto wrong = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("kernel ", entry.name, ": ", what));
  };
  const auto found = program_->functions.find(entry.name);
  if (found == program_->functions.end() || &found->second->entry != &entry) return wrong("is not of this module");
  const Function& function = *found->second;
  if (params.size() != entry.parameter_bytes.size())
    return wrong(absl::StrCat("has ", entry.parameter_bytes.size(), " parameters, not ", params.size()));
  uint64_t items = 1;
  for (size_t axis = 0; axis < 3; ++axis) {
    if (shape.groups[axis] == 0 || shape.items[axis] == 0) return wrong("a launch of nothing");
    if (axis > 0 && shape.groups[axis] > 65535) return wrong("at most 65535 groups along y and z");
    if (shape.items[axis] > (axis == 2 ? 64U : 1024U)) return wrong("at most 1024, 1024 and 64 items along x, y and z");
    items *= shape.items[axis];
  }
  uint64_t most = 1024;
  if (entry.max_items[0] != 0) most = uint64_t{entry.max_items[0]} * entry.max_items[1] * entry.max_items[2];
  if (items > most) return wrong(absl::StrCat("has at most ", most, " items in a group, not ", items));

  std::vector<char> parameters(function.parameter_bytes);
  for (size_t n = 0; n < params.size(); ++n)
    std::memcpy(parameters.data() + function.parameter_offsets[n], params[n], entry.parameter_bytes[n]);
  std::vector<Range> ranges(memory.begin(), memory.end());
  for (const auto& [name, variable] : program_->variables) ranges.push_back(variable.range);
  Memory all(std::move(ranges));

  Group group;
  group.function = &function;
  group.shape = &shape;
  group.parameters = parameters.data();
  group.memory = &all;
  group.budget = limits.instructions;
  group.shared.resize(entry.static_shared_bytes + shape.dynamic_shared_bytes);
  group.threads.resize(items);
  group.slots.resize(items * function.slots.size());
  group.local.resize(items * function.local_bytes);
  constexpr uint64_t kMaxWatched = uint64_t{4} << 20;  // bytes of global memory
  group.races.Watch(limits.detect_races ? group.shared.size() : 0, false);
  if (limits.detect_global_races) group.global_races.Watch(memory, kMaxWatched);
  std::array<uint32_t, 3> number = {};
  for (number[2] = 0; number[2] < shape.groups[2]; ++number[2]) {
    for (number[1] = 0; number[1] < shape.groups[1]; ++number[1]) {
      for (number[0] = 0; number[0] < shape.groups[0]; ++number[0]) {
        BeginGroup(group, number);
        KILN_RETURN_IF_ERROR(RunGroup(group));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln::testing::ptx
