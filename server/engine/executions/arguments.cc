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

using runtime::Program;
using runtime::ProgramValue;
using runtime::hal::BufferSlice;

// A parameter, with its shape in this call; or one device's share of one.
struct Wanted {
  uint32_t slot = 0;
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
  uint64_t bytes = 0;
};

std::string TypeName(const Wanted& wanted) { return TensorTypeName(wanted.dtype, wanted.shape); }

// The bytes of the record that are wanted; `address` is its handle's.
absl::Status BindRecord(const Wanted& parameter, const BufferAddress& address, BufferTable::Record record,
                        BoundArguments& bound) {
  const BufferRecord& buffer = *record;
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
  bound.slices.push_back({buffer.slice.buffer, buffer.slice.offset + address.offset, parameter.bytes});
  bound.records.push_back(std::move(record));
  return absl::OkStatus();
}

absl::Status BindBuffer(const Wanted& parameter, const BufferAddress& address, const BufferTable& buffers,
                        const Session* caller, BoundArguments& bound) {
  auto record = buffers.Find(address.handle, caller);
  if (record.ok()) return BindRecord(parameter, address, *std::move(record), bound);
  return WithDetail(Annotate(record.status(), absl::StrCat("argument for slot ", parameter.slot)),
                    [&](v1::ErrorDetail& detail) { detail.set_slot(parameter.slot); });
}

absl::Status CheckFits(const Wanted& parameter, const TensorView& tensor) {
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

// Slots ascend; each has as many shares as devices.
std::optional<size_t> FindParameter(const Program& program, uint32_t slot) {
  const std::vector<ProgramValue>& parameters = program.parameters();
  const auto slot_of = [&](const ProgramValue& value) { return program.taken()[value.first].slot; };
  const auto found =
      std::lower_bound(parameters.begin(), parameters.end(), slot,
                       [&](const ProgramValue& value, uint32_t wanted) { return slot_of(value) < wanted; });
  if (found == parameters.end() || slot_of(*found) != slot) return std::nullopt;
  return found - parameters.begin();
}

// Gives each argument to the parameter or variable of its slot. Ends at the first
// that has none, or comes second: so no loop is longer than the program's own lists.
absl::Status Distribute(const Program& program, absl::Span<const Argument> arguments, std::vector<bool>& given,
                        BoundArguments& bound) {
  const std::vector<runtime::PlanVariable>& variables = program.variables();
  for (const Argument& argument : arguments) {
    const auto* integer = std::get_if<int64_t>(&argument.value);
    if (const auto variable = FindSlot(variables, argument.slot); variable.has_value()) {
      if (integer == nullptr) {
        return ArgumentError(v1::BAD_ARGUMENT, argument.slot,
                             absl::StrCat("variable ", variables[*variable].name, " takes an integer, not memory"));
      }
      if (given[*variable]) return ArgumentError(v1::BAD_ARGUMENT, argument.slot, "given twice");
      given[*variable] = true;
      bound.variables[*variable] = *integer;
      continue;
    }
    const std::optional<size_t> index = FindParameter(program, argument.slot);
    if (!index.has_value()) {
      return ArgumentError(v1::UNKNOWN_ARGUMENT, argument.slot,
                           absl::StrCat("the program has no such slot; it has ", bound.arguments.size(),
                                        " parameters and ", variables.size(), " variables"));
    }
    if (integer != nullptr)
      return ArgumentError(v1::BAD_ARGUMENT, argument.slot, "the program takes memory, no integer");
    if (bound.arguments[*index] != nullptr) return ArgumentError(v1::BAD_ARGUMENT, argument.slot, "given twice");
    bound.arguments[*index] = &argument;
  }
  return absl::OkStatus();
}

// Those without a value take their default; then they are checked.
absl::Status CompleteVariables(const Program& program, const std::vector<bool>& given, BoundArguments& bound) {
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
  return program.CheckValues(bound.variables);
}

// One buffer a device.
absl::Span<const BufferAddress> AddressesOf(const Argument& argument) {
  if (const auto* one = std::get_if<BufferAddress>(&argument.value)) return {one, 1};
  return std::get<ShardAddresses>(argument.value).shards;
}

Wanted WantedBy(const Program& program, size_t parameter, runtime::VariableValues variables) {
  const ProgramValue& value = program.parameters()[parameter];
  return {program.taken()[value.first].slot, value.dtype, value.shape.At(variables), value.shape.BytesAt(variables)};
}

absl::Status BindParameter(const Program& program, size_t index, const BufferTable& buffers, const Session* caller,
                           MemoryDomain domain, BoundArguments& bound) {
  const ProgramValue& value = program.parameters()[index];
  const runtime::PlanParameter& first = program.taken()[value.first];
  const size_t shares = value.slices.size();
  Wanted whole = WantedBy(program, index, bound.variables);
  if (bound.arguments[index] == nullptr) {
    return ArgumentError(v1::MISSING_ARGUMENT, first.slot,
                         absl::StrCat("missing; the program takes ", TypeName(whole), " ",
                                      program.signature().parameters(static_cast<int>(index)).name()));
  }
  const Argument& argument = *bound.arguments[index];
  if (const auto* tensor = std::get_if<TensorView>(&argument.value)) {
    KILN_RETURN_IF_ERROR(CheckFits(whole, *tensor));
    const uint64_t bytes = first.shape.BytesAt(bound.variables);
    for (size_t share = 0; share < shares; ++share) {
      runtime::hal::Allocator& allocator = program.device_of_taken(value.first + share).allocator();
      KILN_ASSIGN_OR_RETURN(auto buffer, runtime::hal::AllocateFor(AccountOf(caller), allocator, bytes,
                                                                   runtime::hal::MemoryUse::kProgram, domain));
      bound.slices.push_back(BufferSlice::Whole(std::move(buffer)));
      bound.records.push_back(nullptr);
    }
    return absl::OkStatus();
  }
  if (const auto* record = std::get_if<BufferTable::Record>(&argument.value)) {
    if (shares != 1) return ArgumentError(v1::BAD_ARGUMENT, first.slot, "the parameter is on several devices");
    return BindRecord(whole, {}, *record, bound);
  }
  const absl::Span<const BufferAddress> addresses = AddressesOf(argument);
  if (addresses.size() != shares) {
    return ArgumentError(v1::BAD_ARGUMENT, first.slot,
                         shares == 1 ? absl::StrCat(addresses.size(),
                                                    " buffers; the parameter is on one device, and "
                                                    "takes one buffer")
                                     : absl::StrCat(addresses.size(), " buffers; the parameter is on ", shares,
                                                    " devices, and takes one for each"));
  }
  if (value.layout.axis >= 0) {
    whole.shape[static_cast<size_t>(value.layout.axis)] /= value.layout.shares;
    whole.bytes = first.shape.BytesAt(bound.variables);
  }
  for (const BufferAddress& address : addresses)
    KILN_RETURN_IF_ERROR(BindBuffer(whole, address, buffers, caller, bound));
  return absl::OkStatus();
}

}  // namespace

uint64_t BoundArguments::HandleOf(size_t parameter, size_t share) const {
  return AddressesOf(*arguments[parameter])[share].handle;
}

absl::Status MatchArguments(const Program& program, absl::Span<const Argument> arguments, BoundArguments& bound) {
  bound.variables.resize(program.variables().size());
  bound.arguments.resize(program.parameters().size(), nullptr);
  std::vector<bool> given(bound.variables.size(), false);
  KILN_RETURN_IF_ERROR(Distribute(program, arguments, given, bound));
  return CompleteVariables(program, given, bound);
}

absl::Status CheckTensor(const Program& program, size_t parameter, runtime::VariableValues variables,
                         const TensorView& tensor) {
  return CheckFits(WantedBy(program, parameter, variables), tensor);
}

absl::Status BindArguments(const Program& program, absl::Span<const Argument> arguments, const BufferTable& buffers,
                           const Session* caller, MemoryDomain domain, BoundArguments& bound) {
  bound.slices.reserve(program.taken().size());
  bound.records.reserve(program.taken().size());
  KILN_RETURN_IF_ERROR(MatchArguments(program, arguments, bound));
  for (size_t i = 0; i < bound.arguments.size(); ++i)
    KILN_RETURN_IF_ERROR(BindParameter(program, i, buffers, caller, domain, bound));
  return absl::OkStatus();
}

void AddTouched(const Program& program, const BoundArguments& bound, Touched& touched) {
  for (size_t share = 0; share < bound.records.size(); ++share) {
    const BufferRecord* record = bound.records[share].get();
    if (record == nullptr) continue;
    const runtime::PlanParameter& parameter = program.taken()[share];
    Extent extent = ExtentIn(*record, bound.slices[share].offset - record->slice.offset, bound.slices[share].bytes);
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
