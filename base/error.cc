#include "base/error.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace kiln {

absl::StatusCode StatusCodeOf(v1::ErrorCode code) {
  switch (code) {
    case v1::UNKNOWN_OP:
    case v1::UNSUPPORTED_OP:
    case v1::NOT_IMPLEMENTED: return absl::StatusCode::kUnimplemented;
    case v1::GRAPH_TOO_LARGE:
    case v1::QUOTA_EXCEEDED:
    case v1::OUT_OF_MEMORY: return absl::StatusCode::kResourceExhausted;
    case v1::NEED_GRAPH:
    case v1::UNKNOWN_HANDLE:
    case v1::HANDLE_FREED:
    case v1::SESSION_EXPIRED:
    case v1::UNKNOWN_MODEL:
    case v1::UNKNOWN_DEVICE: return absl::StatusCode::kNotFound;
    case v1::OUT_OF_BOUNDS: return absl::StatusCode::kOutOfRange;
    case v1::DEADLINE_PASSED: return absl::StatusCode::kDeadlineExceeded;
    case v1::CALL_CANCELLED: return absl::StatusCode::kCancelled;
    case v1::SHUTTING_DOWN:
    case v1::PARTICIPANT_MISSING: return absl::StatusCode::kUnavailable;
    case v1::WRONG_SERVER: return absl::StatusCode::kFailedPrecondition;
    case v1::HANDLE_TAKEN: return absl::StatusCode::kAlreadyExists;
    case v1::SESSION_BUSY:
    case v1::EXECUTOR_LOST: return absl::StatusCode::kAborted;
    case v1::CORRUPT_ENTRY: return absl::StatusCode::kDataLoss;
    case v1::NOT_ALLOWED: return absl::StatusCode::kPermissionDenied;
    case v1::NOT_AUTHENTICATED: return absl::StatusCode::kUnauthenticated;
    case v1::COMPILER_FAULT:
    case v1::INTERNAL_FAULT: return absl::StatusCode::kInternal;
    default: return absl::StatusCode::kInvalidArgument;
  }
}

absl::Status MakeError(v1::ErrorDetail detail, absl::string_view message) {
  absl::Status status(StatusCodeOf(detail.code()), message);
  status.SetPayload(kErrorDetailUrl, absl::Cord(detail.SerializeAsString()));
  return status;
}

absl::Status MakeError(v1::ErrorCode code, absl::string_view message) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  return MakeError(std::move(detail), message);
}

absl::Status TooLarge(absl::string_view limit, uint64_t limit_value, uint64_t used, absl::string_view message) {
  v1::ErrorDetail detail;
  detail.set_code(v1::GRAPH_TOO_LARGE);
  detail.set_limit(std::string(limit));
  detail.set_limit_value(limit_value);
  detail.set_used(used);
  return MakeError(std::move(detail), message);
}

absl::Status SlotError(v1::ErrorCode code, uint32_t slot, absl::string_view message) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  detail.set_slot(slot);
  return MakeError(std::move(detail), message);
}

std::optional<v1::ErrorDetail> DetailOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kErrorDetailUrl);
  if (!payload.has_value()) return std::nullopt;
  v1::ErrorDetail detail;
  if (!detail.ParseFromString(std::string(*payload))) return std::nullopt;
  return detail;
}

absl::Status WithDetail(const absl::Status& status, absl::FunctionRef<void(v1::ErrorDetail&)> change) {
  v1::ErrorDetail detail = DetailOf(status).value_or(v1::ErrorDetail());
  change(detail);
  absl::Status result = status;
  result.SetPayload(kErrorDetailUrl, absl::Cord(detail.SerializeAsString()));
  return result;
}

absl::Status WithNode(const absl::Status& status, uint32_t node, absl::string_view op, absl::string_view tag) {
  return WithDetail(status, [&](v1::ErrorDetail& detail) {
    if (!detail.has_node()) detail.set_node(node);
    if (detail.op().empty()) detail.set_op(std::string(op));
    if (detail.tag().empty()) detail.set_tag(std::string(tag));
  });
}

absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  absl::Status result(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { result.SetPayload(url, payload); });
  return result;
}

}  // namespace kiln
