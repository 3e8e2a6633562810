// Which trace of the caller's a call belongs to, as its metadata says.
#ifndef KILN_SERVER_TRACE_TRACE_CONTEXT_H_
#define KILN_SERVER_TRACE_TRACE_CONTEXT_H_

#include <array>
#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace kiln::server {

struct TraceContext {
  std::array<uint8_t, 16> trace_id = {};  // not all zero
  std::array<uint8_t, 8> parent = {};     // the caller's span; not all zero
  bool sampled = false;                   // the caller has it recorded
};

// W3C Trace Context: "00-<32 hex>-<16 hex>-<2 hex>", lower case. Of a version after 00, what a reader of 00
// understands. Nothing for what is malformed.
std::optional<TraceContext> ParseTraceparent(absl::string_view header);

}  // namespace kiln::server

#endif  // KILN_SERVER_TRACE_TRACE_CONTEXT_H_
