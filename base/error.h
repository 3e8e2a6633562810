// Failures with machine-readable detail.
//
// Every failure that a client can cause is an absl::Status that carries one
// v1::ErrorDetail as a payload. Adding context (Annotate) changes neither the
// code nor the detail; what adds to the detail (WithDetail) keeps the code.
#ifndef KILN_BASE_ERROR_H_
#define KILN_BASE_ERROR_H_

#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kiln/v1/error.pb.h"

namespace kiln {

// The payload's type URL, as google.rpc.Status.details has it.
inline constexpr absl::string_view kErrorDetailUrl = "type.googleapis.com/kiln.v1.ErrorDetail";

// The gRPC status code that belongs to an error code (the table of error.proto).
absl::StatusCode StatusCodeOf(v1::ErrorCode code);

// `message` says what was wrong, where, and what would be right.
absl::Status MakeError(v1::ErrorDetail detail, absl::string_view message);
absl::Status MakeError(v1::ErrorCode code, absl::string_view message);

// GRAPH_TOO_LARGE: `limit` names what there is too much of, of which at most `limit_value`
// is taken, and `used` is asked for.
absl::Status TooLarge(absl::string_view limit, uint64_t limit_value, uint64_t used, absl::string_view message);
// A failure that a slot, of the program or of a body, is named for.
absl::Status SlotError(v1::ErrorCode code, uint32_t slot, absl::string_view message);

// The detail a status carries, or none.
std::optional<v1::ErrorDetail> DetailOf(const absl::Status& status);

// The same failure, of the same status code, with its detail changed; one that had none
// has one then.
absl::Status WithDetail(const absl::Status& status, absl::FunctionRef<void(v1::ErrorDetail&)> change);

// Sets fields of the detail that are still empty, keeping all else.
absl::Status WithNode(const absl::Status& status, uint32_t node, absl::string_view op, absl::string_view tag);

// Puts "context: " before the message.
absl::Status Annotate(const absl::Status& status, absl::string_view context);

}  // namespace kiln

// Returns the status of `expr` from the calling function unless it is OK.
#define KILN_RETURN_IF_ERROR(expr)                                                   \
  do {                                                                               \
    if (absl::Status kiln_status_ = (expr); !kiln_status_.ok()) return kiln_status_; \
  } while (false)

#define KILN_CONCAT_INNER_(a, b) a##b
#define KILN_CONCAT_(a, b) KILN_CONCAT_INNER_(a, b)

// KILN_ASSIGN_OR_RETURN(auto x, F()): the value, or the status to the caller.
#define KILN_ASSIGN_OR_RETURN(lhs, expr) KILN_ASSIGN_OR_RETURN_IMPL_(KILN_CONCAT_(kiln_statusor_, __LINE__), lhs, expr)
#define KILN_ASSIGN_OR_RETURN_IMPL_(result, lhs, expr) \
  auto result = (expr);                                \
  if (!result.ok()) return std::move(result).status(); \
  lhs = *std::move(result)

#endif  // KILN_BASE_ERROR_H_
