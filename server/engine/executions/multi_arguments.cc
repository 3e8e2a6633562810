#include "server/engine/executions/multi_arguments.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "server/engine/memory/tensor_type.h"

namespace kiln::server {
namespace {

using runtime::MultiProgram;
using runtime::MultiSlice;
using runtime::MultiValue;
using runtime::hal::BufferSlice;

absl::Status Bad(v1::ErrorCode code, uint32_t slot, absl::string_view why) {
  return SlotError(code, slot, absl::StrCat("argument for slot ", slot, ": ", why));
}

// Gives each argument to the parameter or variable of its slot.
absl::Status Distribute(const MultiProgram& program, absl::Span<const Argument> arguments, MultiArguments& bound) {
  const v1::Signature& signature = program.signature();
  absl::flat_hash_map<uint32_t, int> parameters, variables;
  for (int i = 0; i < signature.parameters_size(); ++i) parameters[signature.parameters(i).slot()] = i;
  for (int i = 0; i < signature.variables_size(); ++i) variables[signature.variables(i).slot()] = i;
  std::vector<bool> given(static_cast<size_t>(signature.variables_size()), false);
  for (const Argument& argument : arguments) {
    const auto* integer = std::get_if<int64_t>(&argument.value);
    if (const auto variable = variables.find(argument.slot); variable != variables.end()) {
      if (integer == nullptr) return Bad(v1::BAD_ARGUMENT, argument.slot, "a variable takes an integer, not memory");
      const auto index = static_cast<size_t>(variable->second);
      if (given[index]) return Bad(v1::BAD_ARGUMENT, argument.slot, "given twice");
      given[index] = true;
      bound.variables[index] = *integer;
      continue;
    }
    const auto parameter = parameters.find(argument.slot);
    if (parameter == parameters.end()) return Bad(v1::UNKNOWN_ARGUMENT, argument.slot, "the program has no such slot");
    if (integer != nullptr) return Bad(v1::BAD_ARGUMENT, argument.slot, "the program takes memory, no integer");
    const Argument*& place = bound.arguments[static_cast<size_t>(parameter->second)];
    if (place != nullptr) return Bad(v1::BAD_ARGUMENT, argument.slot, "given twice");
    place = &argument;
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const v1::Signature::Variable& variable = signature.variables(static_cast<int>(i));
    if (given[i]) continue;
    if (!variable.has_default_value()) {
      return Bad(v1::MISSING_ARGUMENT, variable.slot(),
                 absl::StrCat("missing; variable ", variable.name(), " takes an integer from ", variable.min_value(),
                              " to ", variable.max_value()));
    }
    bound.variables[i] = variable.default_value();
  }
  return absl::OkStatus();
}

absl::Status BindParameter(const MultiProgram& program, int index, const BufferTable& buffers, const Session* caller,
                           MultiArguments& bound) {
  const v1::Signature::Parameter& parameter = program.signature().parameters(index);
  const MultiValue& value = program.parameters()[static_cast<size_t>(index)];
  WantedTensor whole = {parameter.slot(), parameter.dtype(), value.layout.shape, parameter.bytes()};
  const Argument* argument = bound.arguments[static_cast<size_t>(index)];
  if (argument == nullptr) {
    return Bad(
        v1::MISSING_ARGUMENT, parameter.slot(),
        absl::StrCat("missing; the program takes ", TensorTypeName(whole.dtype, whole.shape), " ", parameter.name()));
  }
  const auto* tensor = std::get_if<TensorView>(&argument->value);
  if (tensor != nullptr) KILN_RETURN_IF_ERROR(CheckTensor(whole, *tensor));
  std::vector<BufferAddress> addresses;
  if (const auto* one = std::get_if<BufferAddress>(&argument->value)) addresses.push_back(*one);
  if (const auto* many = std::get_if<ShardAddresses>(&argument->value)) addresses = many->shards;
  if (tensor == nullptr && addresses.size() != value.slices.size()) {
    return Bad(v1::BAD_ARGUMENT, parameter.slot(),
               absl::StrCat(addresses.size(), " buffers; the parameter is on ", value.slices.size(),
                            " devices, and takes one for each"));
  }
  WantedTensor share = whole;
  if (value.layout.axis >= 0) share.shape[static_cast<size_t>(value.layout.axis)] /= value.layout.shares;
  for (size_t i = 0; i < value.slices.size(); ++i) {
    const MultiSlice& wanted = program.slices()[value.slices[i]];
    share.bytes = wanted.bytes;
    BufferSlice slice;
    BoundParameter record;
    if (tensor != nullptr) {
      KILN_ASSIGN_OR_RETURN(
          auto buffer,
          program.device(wanted.device).allocator().Allocate(wanted.bytes, runtime::hal::MemoryUse::kProgram));
      slice = BufferSlice::Whole(std::move(buffer));
    } else {
      KILN_RETURN_IF_ERROR(BindBuffer(share, addresses[i], buffers, caller, record, slice));
    }
    bound.slices.push_back(std::move(slice));
    bound.records.push_back(std::move(record.record));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BindMultiArguments(std::shared_ptr<const MultiProgram> program, absl::Span<const Argument> arguments,
                                const BufferTable& buffers, const Session* caller, MultiArguments& bound) {
  bound.program = std::move(program);
  const int parameters = bound.program->signature().parameters_size();
  bound.variables.resize(static_cast<size_t>(bound.program->signature().variables_size()));
  bound.arguments.resize(static_cast<size_t>(parameters));
  KILN_RETURN_IF_ERROR(Distribute(*bound.program, arguments, bound));
  if (bound.program->is_symbolic()) {
    KILN_ASSIGN_OR_RETURN(bound.program, bound.program->At(bound.variables));
  }
  for (int i = 0; i < parameters; ++i) KILN_RETURN_IF_ERROR(BindParameter(*bound.program, i, buffers, caller, bound));
  return absl::OkStatus();
}

void AddTouched(const MultiArguments& bound, Touched& touched) {
  const MultiProgram& program = *bound.program;
  size_t next = 0;
  for (int i = 0; i < program.signature().parameters_size(); ++i) {
    const v1::Signature::Parameter& parameter = program.signature().parameters(i);
    for (size_t share = 0; share < program.parameters()[static_cast<size_t>(i)].slices.size(); ++share, ++next) {
      const BufferRecord* record = bound.records[next].get();
      if (record == nullptr) continue;
      const BufferSlice& slice = bound.slices[next];
      Extent extent = ExtentIn(*record, slice.offset - record->slice.offset, slice.bytes);
      if (parameter.overwritten()) {
        touched.Overwrites(std::move(extent));
      } else if (parameter.written()) {
        touched.Writes(extent);
      } else {
        touched.Reads(std::move(extent));
      }
    }
  }
}

}  // namespace kiln::server
