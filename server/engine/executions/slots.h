// Arguments by slot: where in a program's lists one belongs, and what is wrong with it.
#ifndef KILN_SERVER_ENGINE_EXECUTIONS_SLOTS_H_
#define KILN_SERVER_ENGINE_EXECUTIONS_SLOTS_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error.h"

namespace kiln::server {

// A failure of the argument for `slot`; `handle` is the buffer at fault, if one is.
inline absl::Status ArgumentError(v1::ErrorCode code, uint32_t slot, absl::string_view message, uint64_t handle = 0) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  detail.set_slot(slot);
  detail.set_handle(handle);
  return MakeError(detail, absl::StrCat("argument for slot ", slot, ": ", message));
}

// Where `slot` stands in a list in ascending order of slot.
template <typename Row>
std::optional<size_t> FindSlot(const std::vector<Row>& rows, uint32_t slot) {
  const auto found = std::lower_bound(rows.begin(), rows.end(), slot,
                                      [](const Row& row, uint32_t wanted) { return row.slot < wanted; });
  if (found == rows.end() || found->slot != slot) return std::nullopt;
  return found - rows.begin();
}

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_EXECUTIONS_SLOTS_H_
