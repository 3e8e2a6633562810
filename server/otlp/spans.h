// From records of calls to OTLP's spans: a call, with its parts as children; below the part "compile",
// its stages, below "device", runs, and below a run its kernels.
//
// A device tells of a run when it has ended, so a run's place is known to some microseconds. What
// would lie outside of its parent is moved to its parent's edge.
#ifndef KILN_SERVER_OTLP_SPANS_H_
#define KILN_SERVER_OTLP_SPANS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kiln/v1/otlp.pb.h"
#include "server/trace/traces.h"

namespace kiln::server {

// What records have as numbers.
struct SpanNames {
  struct Rpc {
    absl::string_view package, service, name;  // "kiln.v1", "KernelService", "Execute"
  };
  std::function<Rpc(uint16_t method)> rpc;
  std::function<absl::string_view(uint8_t command)> command;
  std::function<std::string(uint32_t owner)> tenant;  // may be empty
};

// `stages` and `runs` are the call's own, these in the order in which they ended; the former may be null.
void AppendSpans(const CallRecord& call, const CompileStages* stages, absl::Span<const RunOfDevice> runs,
                 const SpanNames& names, v1::OtlpTraces::ScopeSpans& spans);

}  // namespace kiln::server

#endif  // KILN_SERVER_OTLP_SPANS_H_
