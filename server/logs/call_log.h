// A line of JSON for each call: the access log, of all, and the log of those that were slow. docs/operations.md shows
// them. Tested by tests/e2e/logs_test.cc.
#ifndef KILN_SERVER_LOGS_CALL_LOG_H_
#define KILN_SERVER_LOGS_CALL_LOG_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/trace/parts.h"

namespace kiln::server {

// What its line is made of. Outlives the call: the line is made when it is written.
struct EndedCall {
  absl::string_view method;  // for ever
  std::string tenant, peer;
  absl::StatusCode status = absl::StatusCode::kOk;
  std::string error;  // the code of its detail; empty if it went well, or has none
  absl::Time begin, end;
  uint64_t received_bytes = 0, sent_bytes = 0;  // of its messages
  CallParts parts;
};

// "us" has the parts that it had, in microseconds, and "total".
std::string CallLine(const EndedCall& call);

}  // namespace kiln::server

#endif  // KILN_SERVER_LOGS_CALL_LOG_H_
