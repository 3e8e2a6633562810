#include "server/services/call.h"

#include <spdlog/logger.h>

#include <optional>

#include "absl/hash/hash.h"
#include "absl/strings/escaping.h"
#include "absl/time/clock.h"
#include "server/engine/sessions/session_table.h"
#include "server/messages/status.h"
#include "server/services/rpcs.h"
#include "server/state/state.h"
#include "server/trace/trace_context.h"
#include "server/trace/traces.h"

namespace kiln::server {

grpc::Status ToGrpcAndLog(const ServiceEnv& env, const absl::Status& status) {
  const grpc::Status wire = ToGrpc(status);
  if (wire.error_code() == grpc::StatusCode::INTERNAL) {
    env.log.error("event=internal_fault message=\"{}\"", absl::CEscape(wire.error_message()));
  }
  return wire;
}

namespace {

// As the caller's metadata says.
std::optional<TraceContext> ContextOf(const Arrival& arrival) {
  const auto& metadata = arrival.context->client_metadata();
  const auto header = metadata.find("traceparent");
  if (header == metadata.end()) return std::nullopt;
  return ParseTraceparent({header->second.data(), header->second.size()});
}

// For who looks at it later: among all that ended lately, and if it was slow by itself.
void Trace(const Arrival& arrival, const Ending& ending, const grpc::Status& wire, absl::Time end) {
  Traces& traces = arrival.env->engine.traces();
  SlowCalls& slow_calls = arrival.env->state->slow_calls();
  const bool is_slow = slow_calls.IsSlow(end - arrival.begin);
  if (!traces.on() && !is_slow) return;
  CallRecord record;
  record.time = {absl::ToUnixNanos(arrival.begin), absl::ToUnixNanos(end)};
  record.owner = OwnerNumber(ending.account);
  record.method = static_cast<uint16_t>(arrival.method.number);
  record.status = static_cast<uint16_t>(wire.error_code());
  record.parts = ending.parts;
  record = traces.Keep(record, ContextOf(arrival));
  if (is_slow) slow_calls.Keep({MethodName(arrival.method.number), record});
}

}  // namespace

void CountEnd(const Arrival& arrival, const Ending& ending, const grpc::Status& wire, const absl::Status& status) {
  Metrics& metrics = arrival.env->engine.metrics();
  const absl::Time end = absl::Now();
  Trace(arrival, ending, wire, end);
  const int code = wire.error_code();
  const bool known = code >= 0 && static_cast<size_t>(code) < LabelOf<GrpcStatus>::kMost;
  metrics.calls.Observe(end - arrival.begin, arrival.method,
                        known ? static_cast<GrpcStatus>(code) : GrpcStatus::kUnknown);
  CountFailure(metrics, status);
  if (ending.account != nullptr && IsForALimit(status)) ending.account->CountRefusal();
}

absl::StatusOr<SessionPtr> SessionOf(const Admitted& admitted) {
  SessionTable& sessions = admitted.env().engine.sessions();
  const auto& metadata = admitted.context().client_metadata();
  const auto header = metadata.find(kSessionHeader);
  if (header != metadata.end()) {
    return sessions.Find({header->second.data(), header->second.size()}, admitted.tenant_name());
  }
  return admitted.tenant() == nullptr ? SessionPtr() : sessions.HomeOf(admitted.tenant()->name);
}

std::string CallerOf(const Admitted& admitted) {
  return admitted.tenant() == nullptr ? admitted.context().peer() : admitted.tenant()->name;
}

uint64_t FlowOf(const Admitted& admitted, const SessionPtr& session) {
  const auto& metadata = admitted.context().client_metadata();
  if (session != nullptr && metadata.find(kSessionHeader) != metadata.end()) return FlowOf(*session);
  return absl::HashOf(admitted.context().peer());
}

}  // namespace kiln::server
