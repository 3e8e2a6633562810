#include "runtime/exec/program_values.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/hal/stored_bytes.h"

namespace kiln::runtime {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 60;

// In a program of a family, sizes are numbers.
template <typename Tensor>
void SetNumbers(const ProgramValue& value, Tensor* tensor) {
  uint64_t bytes = StoredBytes(value.dtype);
  tensor->clear_shape();
  for (const int64_t size : value.layout.shape) {
    tensor->add_shape(size);
    bytes *= static_cast<uint64_t>(size);
  }
  tensor->set_bytes(bytes);
  tensor->clear_symbolic();
}

}  // namespace

absl::Status ProgramFault(absl::string_view field, absl::string_view why) {
  v1::ErrorDetail detail;
  detail.set_code(v1::INTERNAL_FAULT);
  detail.set_field(std::string(field));
  return MakeError(std::move(detail), absl::StrCat("program for several devices: ", field, ": ", why));
}

absl::Status ProgramValues::Run() {
  for (int i = 0; i < message_.values_size(); ++i) KILN_RETURN_IF_ERROR(AddValue(message_.values(i), i));
  const v1::Signature& signature = message_.signature();
  if (message_.parameter_values_size() != signature.parameters_size() ||
      message_.result_values_size() != signature.results_size())
    return ProgramFault("signature", "another number of values");
  KILN_RETURN_IF_ERROR(
      Expose(message_.parameter_values(), signature.parameters_size(), "parameter_values", program_.parameters_));
  KILN_RETURN_IF_ERROR(Expose(message_.result_values(), signature.results_size(), "result_values", program_.results_));
  if (variables_.has_value()) FixSignature();
  for (int i = 1; i < signature.parameters_size(); ++i) {
    if (signature.parameters(i - 1).slot() >= signature.parameters(i).slot())
      return ProgramFault("signature", "slots that do not ascend");
  }
  for (size_t number = 0; number < program_.results_.size(); ++number) {
    const v1::Signature::Result& result = signature.results(static_cast<int>(number));
    if (!result.has_aliases()) continue;
    if (result.aliases() >= program_.parameters_.size())
      return ProgramFault("signature", "a result that is no parameter");
    if (program_.parameters_[result.aliases()].slices.size() != program_.results_[number].slices.size())
      return ProgramFault("signature", "a result of other shares than the parameter that it is");
  }
  AddTaken();
  AddGiven();
  return absl::OkStatus();
}

absl::Status ProgramValues::AddValue(const v1::PlacedValue& message, int number) {
  const std::string field = absl::StrCat("values[", number, "]");
  Value made;
  made.value.dtype = message.dtype();
  made.value.layout.shape.assign(message.shape().begin(), message.shape().end());
  made.value.layout.shares = message.placement().device_size();
  if (made.value.layout.shares == 0) return ProgramFault(field, "on no device");
  const uint32_t item = StoredBytes(message.dtype());
  if (item == 0) return ProgramFault(field, "of no dtype");
  KILN_RETURN_IF_ERROR(SetSizes(message, field, made.value.layout.shape));
  if (message.placement().has_axis()) {
    const uint32_t axis = message.placement().axis();
    if (axis >= made.value.layout.shape.size() || made.value.layout.shape[axis] % made.value.layout.shares != 0)
      return ProgramFault(field, "split into unequal shares");
    made.value.layout.axis = static_cast<int>(axis);
  }
  __int128 bytes = item;
  for (size_t axis = 0; axis < made.value.layout.shape.size(); ++axis) {
    if (made.value.layout.shape[axis] < 0) return ProgramFault(field, "of a negative size");
    bytes = std::min<__int128>(bytes * made.value.layout.shape[axis], __int128{1} << 100);
    if (bytes > __int128{kMaxBytes} * made.value.layout.shares) return ProgramFault(field, "too large");
  }
  const uint64_t share_bytes = static_cast<uint64_t>(made.value.layout.Elements()) * item;
  for (int share = 0; share < message.placement().device_size(); ++share) {
    ProgramSlice slice;
    slice.space = message.space();
    slice.device = message.placement().device(share);
    slice.bytes = share_bytes;
    slice.alignment = item;
    if (slice.device >= program_.devices_.size()) return ProgramFault(field, "on a device that there is not");
    KILN_RETURN_IF_ERROR(PlaceSlice(message, share, field, slice));
    made.value.slices.push_back(static_cast<uint32_t>(program_.slices_.size()));
    made.devices.push_back(slice.device);
    program_.slices_.push_back(slice);
  }
  values_.push_back(std::move(made));
  return absl::OkStatus();
}

absl::Status ProgramValues::PlaceSlice(const v1::PlacedValue& message, int share, const std::string& field,
                                       ProgramSlice& slice) {
  if (message.space() == v1::PlacedValue::ARENA) {
    if (message.offset_size() != message.placement().device_size())
      return ProgramFault(field, "another number of offsets");
    slice.offset = message.offset(share);
    const uint64_t arena = program_.arena_bytes_[slice.device];
    if (slice.offset > arena || slice.bytes > arena - slice.offset) return ProgramFault(field, "outside the arena");
    if (slice.offset % hal::kBufferAlignment != 0) return ProgramFault(field, "not aligned");
    return absl::OkStatus();
  }
  const bool is_parameter = message.space() == v1::PlacedValue::PARAMETER;
  if (!is_parameter && message.space() != v1::PlacedValue::RESULT) return ProgramFault(field, "nowhere");
  const int known = is_parameter ? message_.signature().parameters_size() : message_.signature().results_size();
  if (message.index() >= static_cast<uint32_t>(known)) return ProgramFault(field, "no such parameter or result");
  // The first value that is it says how many shares it has.
  auto& shares = is_parameter ? parameter_shares_ : result_shares_;
  uint32_t& count = is_parameter ? program_.parameter_shares_ : program_.result_shares_;
  const auto [found, is_new] = shares.emplace(message.index(), Owned{count, {}, slice.bytes});
  if (is_new) {
    count += static_cast<uint32_t>(message.placement().device_size());
    found->second.devices.assign(message.placement().device().begin(), message.placement().device().end());
  }
  const Owned& owned = found->second;
  if (static_cast<int>(owned.devices.size()) != message.placement().device_size() || owned.bytes != slice.bytes ||
      owned.devices[static_cast<size_t>(share)] != slice.device)
    return ProgramFault(field, "another layout than the parameter or result has");
  slice.index = owned.first + static_cast<uint32_t>(share);
  return absl::OkStatus();
}

template <typename Indices>
absl::Status ProgramValues::Expose(const Indices& indices, int count, absl::string_view field,
                                   std::vector<ProgramValue>& values) {
  for (int i = 0; i < count; ++i) {
    if (indices[i] >= values_.size()) return ProgramFault(field, "no such value");
    values.push_back(values_[indices[i]].value);
    const bool is_parameter = field == "parameter_values";
    const ProgramSlice& slice = program_.slices_[values.back().slices[0]];
    if (slice.space == v1::PlacedValue::ARENA || (is_parameter && slice.space != v1::PlacedValue::PARAMETER))
      return ProgramFault(field, "in other memory than its own");
  }
  return absl::OkStatus();
}

absl::Status ProgramValues::SetSizes(const v1::PlacedValue& message, const std::string& field,
                                     std::vector<int64_t>& shape) const {
  for (const v1::Signature::SymbolicAxis& symbolic : message.symbolic()) {
    if (symbolic.axis() >= shape.size()) return ProgramFault(field, "a size of no axis");
    const std::string wrong = CheckSizeExpr(symbolic.size(), message_.signature().variables_size());
    if (!wrong.empty()) return ProgramFault(field, wrong);
    if (!variables_.has_value()) continue;
    int64_t& size = shape[symbolic.axis()];
    const int64_t now = SizeExpr(symbolic.size()).At(*variables_);
    if (now < 0 || now > size) return ProgramFault(field, "a size beyond the greatest");
    size = now;
  }
  return absl::OkStatus();
}

void ProgramValues::FixSignature() {
  for (int i = 0; i < program_.signature_.parameters_size(); ++i)
    SetNumbers(program_.parameters_[static_cast<size_t>(i)], program_.signature_.mutable_parameters(i));
  for (int i = 0; i < program_.signature_.results_size(); ++i)
    SetNumbers(program_.results_[static_cast<size_t>(i)], program_.signature_.mutable_results(i));
}

PlanShape ProgramValues::ShapeOf(const ProgramValue& value, uint32_t message, uint32_t item, bool whole) const {
  v1::Signature::Result shape;
  uint64_t bytes = item;
  for (size_t axis = 0; axis < value.layout.shape.size(); ++axis) {
    const bool shared = !whole && static_cast<int>(axis) == value.layout.axis;
    shape.add_shape(value.layout.shape[axis] / (shared ? value.layout.shares : 1));
    bytes *= static_cast<uint64_t>(shape.shape(static_cast<int>(axis)));
  }
  shape.set_bytes(bytes);
  if (!variables_.has_value()) *shape.mutable_symbolic() = message_.values(static_cast<int>(message)).symbolic();
  for (v1::Signature::SymbolicAxis& symbolic : *shape.mutable_symbolic()) {
    if (whole || static_cast<int>(symbolic.axis()) != value.layout.axis) continue;
    v1::SizeExpr::Token* count = symbolic.mutable_size()->add_token();
    count->set_op(v1::SizeExpr::CONST);
    count->set_value(value.layout.shares);
    symbolic.mutable_size()->add_token()->set_op(v1::SizeExpr::FLOORDIV);
  }
  return PlanShape(shape, item);
}

void ProgramValues::AddTaken() {
  for (size_t i = 0; i < program_.parameters_.size(); ++i) {
    const v1::Signature::Parameter& type = message_.signature().parameters(static_cast<int>(i));
    ProgramValue& value = program_.parameters_[i];
    const uint32_t message = message_.parameter_values(static_cast<int>(i));
    value.first = static_cast<uint32_t>(program_.taken_.size());
    for (const uint32_t index : value.slices) {
      const ProgramSlice& slice = program_.slices_[index];
      program_.taken_.push_back({type.slot(), ShapeOf(value, message, slice.alignment, false), slice.bytes,
                                 slice.alignment, type.written(), type.overwritten()});
      program_.devices_of_taken_.push_back(program_.devices_[slice.device]);
    }
    value.shape = ShapeOf(value, message, StoredBytes(value.dtype), true);
  }
}

void ProgramValues::AddGiven() {
  for (size_t i = 0; i < program_.results_.size(); ++i) {
    const v1::Signature::Result& type = message_.signature().results(static_cast<int>(i));
    ProgramValue& value = program_.results_[i];
    const uint32_t message = message_.result_values(static_cast<int>(i));
    value.first = static_cast<uint32_t>(program_.given_.size());
    for (size_t share = 0; share < value.slices.size(); ++share) {
      const ProgramSlice& slice = program_.slices_[value.slices[share]];
      const uint32_t alias = type.has_aliases()
                                 ? program_.parameters_[type.aliases()].first + static_cast<uint32_t>(share)
                                 : PlanResult::kFresh;
      program_.given_.push_back({ShapeOf(value, message, slice.alignment, false), slice.bytes, alias});
      program_.devices_of_given_.push_back(program_.devices_[slice.device]);
    }
    value.shape = ShapeOf(value, message, StoredBytes(value.dtype), true);
  }
}

}  // namespace kiln::runtime
