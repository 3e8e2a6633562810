#include "server/engine/arguments.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "base/error.h"
#include "server/engine/tensor_type.h"

namespace kiln::server {
namespace {

using runtime::PlanParameter;
using runtime::hal::BufferSlice;
using Parameter = v1::Signature::Parameter;

absl::Status SlotError(v1::ErrorCode code, uint32_t slot, absl::string_view message, uint64_t handle = 0) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  detail.set_slot(slot);
  detail.set_handle(handle);
  return MakeError(detail, absl::StrCat("argument for slot ", slot, ": ", message));
}

// The signature's parameter for `slot`, by its index.
absl::optional<size_t> IndexOf(const runtime::Program& program, uint32_t slot) {
  const auto& parameters = program.plan().parameters;
  const auto found = std::lower_bound(parameters.begin(), parameters.end(), slot,
                                      [](const PlanParameter& p, uint32_t s) { return p.slot < s; });
  if (found == parameters.end() || found->slot != slot) return absl::nullopt;
  return found - parameters.begin();
}

// A parameter, with its shape in this call.
struct Wanted {
  const Parameter& parameter;
  std::vector<int64_t> shape;
  uint64_t bytes;

  uint32_t slot() const { return parameter.slot(); }
  v1::DType dtype() const { return parameter.dtype(); }
};

std::string TypeName(const Wanted& wanted) { return TensorTypeName(wanted.dtype(), wanted.shape); }

absl::Status BindBuffer(const Wanted& parameter, const BufferAddress& address, const BufferTable& buffers,
                        const Session* caller, BoundParameter& bound, BufferSlice& slice) {
  auto record = buffers.Find(address.handle, caller);
  if (!record.ok()) {
    v1::ErrorDetail detail = DetailOf(record.status()).value_or(v1::ErrorDetail());
    detail.set_slot(parameter.slot());
    return MakeError(detail, absl::StrCat("argument for slot ", parameter.slot(), ": ", record.status().message()));
  }
  const BufferRecord& buffer = **record;
  if (buffer.dtype != v1::DTYPE_UNSPECIFIED && buffer.dtype != parameter.dtype()) {
    return SlotError(v1::BUFFER_DTYPE_MISMATCH, parameter.slot(),
                     absl::StrCat("the parameter is ", TypeName(parameter), ", the buffer holds ",
                                  TensorTypeName(buffer.dtype, buffer.shape)),
                     address.handle);
  }
  if (address.offset > buffer.slice.bytes) {
    return SlotError(v1::OUT_OF_BOUNDS, parameter.slot(),
                     absl::StrCat("offset ", address.offset, " is past the buffer's ", buffer.slice.bytes, " bytes"),
                     address.handle);
  }
  const uint64_t rest = buffer.slice.bytes - address.offset;
  const bool exact = buffer.dtype != v1::DTYPE_UNSPECIFIED && address.offset == 0;
  if (rest < parameter.bytes || (exact && rest != parameter.bytes)) {
    return SlotError(v1::BUFFER_SIZE_MISMATCH, parameter.slot(),
                     absl::StrCat("the parameter, ", TypeName(parameter), ", takes ", parameter.bytes,
                                  " bytes; the buffer has ", rest),
                     address.handle);
  }
  slice = BufferSlice{buffer.slice.buffer, buffer.slice.offset + address.offset, parameter.bytes};
  bound.record = *std::move(record);
  return absl::OkStatus();
}

absl::Status BindTensor(const runtime::Program& program, const Wanted& parameter, const TensorView& tensor,
                        BufferSlice& slice) {
  if (tensor.dtype != parameter.dtype()) {
    return SlotError(v1::BUFFER_DTYPE_MISMATCH, parameter.slot(),
                     absl::StrCat("the parameter is ", TypeName(parameter), ", the tensor ",
                                  TensorTypeName(tensor.dtype, tensor.shape)));
  }
  if (!std::equal(tensor.shape.begin(), tensor.shape.end(), parameter.shape.begin(), parameter.shape.end())) {
    return SlotError(v1::BUFFER_SIZE_MISMATCH, parameter.slot(),
                     absl::StrCat("the parameter is ", TypeName(parameter), ", the tensor ",
                                  TensorTypeName(tensor.dtype, tensor.shape)));
  }
  if (tensor.data.size() != parameter.bytes) {
    return SlotError(v1::BUFFER_SIZE_MISMATCH, parameter.slot(),
                     absl::StrCat(TypeName(parameter), " takes ", parameter.bytes, " bytes; the tensor's data has ",
                                  tensor.data.size()));
  }
  KILN_ASSIGN_OR_RETURN(auto buffer,
                        program.device().allocator().Allocate(parameter.bytes, runtime::hal::MemoryUse::kProgram));
  slice = BufferSlice::Whole(std::move(buffer));
  return absl::OkStatus();
}

// The variables' values; each argument that is one is marked as used.
absl::Status BindVariables(const runtime::Program& program, absl::Span<const Argument> arguments,
                           BoundArguments& bound) {
  const auto& variables = program.signature().variables();
  std::vector<bool> given(static_cast<size_t>(variables.size()), false);
  for (const v1::Signature::Variable& variable : variables) bound.variables.push_back(variable.default_value());
  for (const Argument& argument : arguments) {
    const auto variable = std::find_if(variables.begin(), variables.end(),
                                       [&](const auto& known) { return known.slot() == argument.slot; });
    const auto* value = std::get_if<int64_t>(&argument.value);
    if (variable == variables.end() && value == nullptr) continue;
    if (variable == variables.end()) {
      return SlotError(v1::BAD_ARGUMENT, argument.slot, "an integer, and the program has no variable of this slot");
    }
    if (value == nullptr) {
      return SlotError(v1::BAD_ARGUMENT, argument.slot,
                       absl::StrCat("variable ", variable->name(), " takes an integer, not memory"));
    }
    const auto i = static_cast<size_t>(variable - variables.begin());
    if (given[i]) return SlotError(v1::BAD_ARGUMENT, argument.slot, "given twice");
    given[i] = true;
    bound.variables[i] = *value;
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const v1::Signature::Variable& variable = variables[static_cast<int>(i)];
    if (given[i] || variable.has_default_value()) continue;
    return SlotError(v1::MISSING_ARGUMENT, variable.slot(),
                     absl::StrCat("missing; variable ", variable.name(), " takes an integer from ",
                                  variable.min_value(), " to ", variable.max_value()));
  }
  return runtime::CheckVariables(program.plan().variables, program.plan().conditions, bound.variables);
}

}  // namespace

absl::Status BindArguments(const runtime::Program& program, absl::Span<const Argument> arguments,
                           const BufferTable& buffers, const Session* caller, BoundArguments& bound) {
  const v1::Signature& signature = program.signature();
  KILN_RETURN_IF_ERROR(BindVariables(program, arguments, bound));
  bound.slices.resize(signature.parameters_size());
  bound.parameters.resize(signature.parameters_size());
  for (const Argument& argument : arguments) {
    if (std::holds_alternative<int64_t>(argument.value)) continue;
    const auto index = IndexOf(program, argument.slot);
    if (!index.has_value()) {
      return SlotError(v1::UNKNOWN_ARGUMENT, argument.slot,
                       absl::StrCat("the program has no such parameter; it has ", signature.parameters_size()));
    }
    BoundParameter& parameter = bound.parameters[*index];
    if (parameter.argument != nullptr) return SlotError(v1::BAD_ARGUMENT, argument.slot, "given twice");
    parameter.argument = &argument;
  }
  for (int i = 0; i < signature.parameters_size(); ++i) {
    const runtime::PlanShape& shape = program.plan().parameters[static_cast<size_t>(i)].shape;
    const Wanted parameter{signature.parameters(i), shape.At(bound.variables), shape.BytesAt(bound.variables)};
    if (bound.parameters[i].argument == nullptr) {
      return SlotError(
          v1::MISSING_ARGUMENT, parameter.slot(),
          absl::StrCat("missing; the program takes ", TypeName(parameter), " ", parameter.parameter.name()));
    }
    const Argument& argument = *bound.parameters[i].argument;
    if (const auto* address = std::get_if<BufferAddress>(&argument.value)) {
      KILN_RETURN_IF_ERROR(BindBuffer(parameter, *address, buffers, caller, bound.parameters[i], bound.slices[i]));
    } else {
      KILN_RETURN_IF_ERROR(BindTensor(program, parameter, std::get<TensorView>(argument.value), bound.slices[i]));
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln::server
