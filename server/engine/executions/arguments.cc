#include "server/engine/executions/arguments.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "base/error.h"
#include "server/engine/executions/slots.h"
#include "server/engine/memory/tensor_type.h"

namespace kiln::server {
namespace {

using runtime::hal::BufferSlice;
using Parameter = v1::Signature::Parameter;

using Wanted = WantedTensor;

std::string TypeName(const Wanted& wanted) { return TensorTypeName(wanted.dtype, wanted.shape); }

}  // namespace

absl::Status BindBuffer(const Wanted& parameter, const BufferAddress& address, const BufferTable& buffers,
                        const Session* caller, BoundParameter& bound, BufferSlice& slice) {
  auto record = buffers.Find(address.handle, caller);
  if (!record.ok()) {
    return WithDetail(Annotate(record.status(), absl::StrCat("argument for slot ", parameter.slot)),
                      [&](v1::ErrorDetail& detail) { detail.set_slot(parameter.slot); });
  }
  const BufferRecord& buffer = **record;
  if (buffer.dtype != v1::DTYPE_UNSPECIFIED && buffer.dtype != parameter.dtype) {
    return ArgumentError(v1::BUFFER_DTYPE_MISMATCH, parameter.slot,
                         absl::StrCat("the parameter is ", TypeName(parameter), ", the buffer holds ",
                                      TensorTypeName(buffer.dtype, buffer.shape)),
                         address.handle);
  }
  if (address.offset > buffer.slice.bytes) {
    return ArgumentError(
        v1::OUT_OF_BOUNDS, parameter.slot,
        absl::StrCat("offset ", address.offset, " is past the buffer's ", buffer.slice.bytes, " bytes"),
        address.handle);
  }
  const uint64_t rest = buffer.slice.bytes - address.offset;
  const bool exact = buffer.dtype != v1::DTYPE_UNSPECIFIED && address.offset == 0;
  if (rest < parameter.bytes || (exact && rest != parameter.bytes)) {
    return ArgumentError(v1::BUFFER_SIZE_MISMATCH, parameter.slot,
                         absl::StrCat("the parameter, ", TypeName(parameter), ", takes ", parameter.bytes,
                                      " bytes; the buffer has ", rest),
                         address.handle);
  }
  if (exact && !std::equal(buffer.shape.begin(), buffer.shape.end(), parameter.shape.begin(), parameter.shape.end())) {
    return ArgumentError(v1::BUFFER_SIZE_MISMATCH, parameter.slot,
                         absl::StrCat("the parameter is ", TypeName(parameter), ", the buffer holds ",
                                      TensorTypeName(buffer.dtype, buffer.shape), "; a view of it may say otherwise"),
                         address.handle);
  }
  slice = BufferSlice{buffer.slice.buffer, buffer.slice.offset + address.offset, parameter.bytes};
  bound.record = *std::move(record);
  return absl::OkStatus();
}

absl::Status CheckTensor(const Wanted& parameter, const TensorView& tensor) {
  if (tensor.dtype != parameter.dtype) {
    return ArgumentError(v1::BUFFER_DTYPE_MISMATCH, parameter.slot,
                         absl::StrCat("the parameter is ", TypeName(parameter), ", the tensor ",
                                      TensorTypeName(tensor.dtype, tensor.shape)));
  }
  if (!std::equal(tensor.shape.begin(), tensor.shape.end(), parameter.shape.begin(), parameter.shape.end())) {
    return ArgumentError(v1::BUFFER_SIZE_MISMATCH, parameter.slot,
                         absl::StrCat("the parameter is ", TypeName(parameter), ", the tensor ",
                                      TensorTypeName(tensor.dtype, tensor.shape)));
  }
  if (tensor.data.size() != parameter.bytes) {
    return ArgumentError(v1::BUFFER_SIZE_MISMATCH, parameter.slot,
                         absl::StrCat(TypeName(parameter), " takes ", parameter.bytes, " bytes; the tensor's data has ",
                                      tensor.data.size()));
  }
  return absl::OkStatus();
}

namespace {

absl::Status BindTensor(const runtime::Program& program, const Wanted& parameter, const TensorView& tensor,
                        BufferSlice& slice) {
  KILN_RETURN_IF_ERROR(CheckTensor(parameter, tensor));
  KILN_ASSIGN_OR_RETURN(auto buffer,
                        program.device().allocator().Allocate(parameter.bytes, runtime::hal::MemoryUse::kProgram));
  slice = BufferSlice::Whole(std::move(buffer));
  return absl::OkStatus();
}

// Gives each argument to the parameter or variable of its slot. Ends at the first
// that has none, or comes second: so no loop is longer than the program's own lists.
absl::Status Distribute(const runtime::Program& program, absl::Span<const Argument> arguments, std::vector<bool>& given,
                        BoundArguments& bound) {
  const runtime::Plan& plan = program.plan();
  for (const Argument& argument : arguments) {
    const auto* integer = std::get_if<int64_t>(&argument.value);
    if (const auto variable = FindSlot(plan.variables, argument.slot); variable.has_value()) {
      if (integer == nullptr) {
        return ArgumentError(
            v1::BAD_ARGUMENT, argument.slot,
            absl::StrCat("variable ", plan.variables[*variable].name, " takes an integer, not memory"));
      }
      if (given[*variable]) return ArgumentError(v1::BAD_ARGUMENT, argument.slot, "given twice");
      given[*variable] = true;
      bound.variables[*variable] = *integer;
      continue;
    }
    const auto index = FindSlot(plan.parameters, argument.slot);
    if (!index.has_value()) {
      return ArgumentError(v1::UNKNOWN_ARGUMENT, argument.slot,
                           absl::StrCat("the program has no such slot; it has ", plan.parameters.size(),
                                        " parameters and ", plan.variables.size(), " variables"));
    }
    if (integer != nullptr)
      return ArgumentError(v1::BAD_ARGUMENT, argument.slot, "the program takes memory, no integer");
    BoundParameter& parameter = bound.parameters[*index];
    if (parameter.argument != nullptr) return ArgumentError(v1::BAD_ARGUMENT, argument.slot, "given twice");
    parameter.argument = &argument;
  }
  return absl::OkStatus();
}

// Those without a value take their default; then they are checked.
absl::Status CompleteVariables(const runtime::Program& program, const std::vector<bool>& given, BoundArguments& bound) {
  for (size_t i = 0; i < given.size(); ++i) {
    const v1::Signature::Variable& variable = program.signature().variables(static_cast<int>(i));
    if (given[i]) continue;
    if (!variable.has_default_value()) {
      return ArgumentError(v1::MISSING_ARGUMENT, variable.slot(),
                           absl::StrCat("missing; variable ", variable.name(), " takes an integer from ",
                                        variable.min_value(), " to ", variable.max_value()));
    }
    bound.variables[i] = variable.default_value();
  }
  return runtime::CheckVariables(program.plan().variables, program.plan().conditions, bound.variables);
}

}  // namespace

absl::Status BindArguments(const runtime::Program& program, absl::Span<const Argument> arguments,
                           const BufferTable& buffers, const Session* caller, BoundArguments& bound) {
  const v1::Signature& signature = program.signature();
  bound.variables.resize(signature.variables_size());
  bound.slices.resize(signature.parameters_size());
  bound.parameters.resize(signature.parameters_size());
  std::vector<bool> given(static_cast<size_t>(signature.variables_size()), false);
  KILN_RETURN_IF_ERROR(Distribute(program, arguments, given, bound));
  KILN_RETURN_IF_ERROR(CompleteVariables(program, given, bound));
  for (int i = 0; i < signature.parameters_size(); ++i) {
    const runtime::PlanShape& shape = program.plan().parameters[static_cast<size_t>(i)].shape;
    const Wanted parameter{signature.parameters(i).slot(), signature.parameters(i).dtype(), shape.At(bound.variables),
                           shape.BytesAt(bound.variables)};
    if (bound.parameters[i].argument == nullptr) {
      return ArgumentError(
          v1::MISSING_ARGUMENT, parameter.slot,
          absl::StrCat("missing; the program takes ", TypeName(parameter), " ", signature.parameters(i).name()));
    }
    const Argument& argument = *bound.parameters[i].argument;
    if (const auto* address = std::get_if<BufferAddress>(&argument.value)) {
      KILN_RETURN_IF_ERROR(BindBuffer(parameter, *address, buffers, caller, bound.parameters[i], bound.slices[i]));
    } else if (std::holds_alternative<ShardAddresses>(argument.value)) {
      return ArgumentError(v1::BAD_ARGUMENT, parameter.slot, "the program is for one device, and takes one buffer");
    } else {
      KILN_RETURN_IF_ERROR(BindTensor(program, parameter, std::get<TensorView>(argument.value), bound.slices[i]));
    }
  }
  return absl::OkStatus();
}

void AddTouched(const runtime::Program& program, const BoundArguments& bound, Touched& touched) {
  for (size_t i = 0; i < bound.parameters.size(); ++i) {
    const BufferRecord* record = bound.parameters[i].record.get();
    if (record == nullptr) continue;
    const runtime::PlanParameter& parameter = program.plan().parameters[i];
    Extent extent = ExtentIn(*record, bound.slices[i].offset - record->slice.offset, bound.slices[i].bytes);
    if (parameter.overwritten) {
      touched.Overwrites(std::move(extent));
    } else if (parameter.written) {
      touched.Writes(extent);
    } else {
      touched.Reads(std::move(extent));
    }
  }
}

}  // namespace kiln::server
