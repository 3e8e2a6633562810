#include "compiler/interp/arguments.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::compiler {
namespace {

absl::Status ArgumentError(v1::ErrorCode code, uint32_t slot, absl::string_view text) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  detail.set_slot(slot);
  return MakeError(std::move(detail), absl::StrCat("slot ", slot, ": ", text));
}

}  // namespace

absl::Status CheckArgument(uint32_t slot, const UOp* storage, const HostTensors& arguments) {
  const auto found = arguments.find(slot);
  if (found == arguments.end()) return ArgumentError(v1::MISSING_ARGUMENT, slot, "no argument");
  const HostTensor& argument = found->second;
  if (argument.dtype != storage->dtype()) {
    return ArgumentError(v1::BUFFER_DTYPE_MISMATCH, slot,
                         absl::StrCat("wants ", Name(storage->dtype()), ", not ", Name(argument.dtype)));
  }
  const int64_t bytes = NumElements(storage->shape()) * ItemSize(storage->dtype());
  if (static_cast<int64_t>(argument.bytes.size()) == bytes) return absl::OkStatus();
  return ArgumentError(v1::BUFFER_SIZE_MISMATCH, slot,
                       absl::StrCat("wants ", bytes, " bytes, not ", argument.bytes.size()));
}

}  // namespace kiln::compiler
