#include "server/services/call.h"

#include <spdlog/logger.h>

#include <string>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/escaping.h"
#include "base/clock.h"
#include "server/engine/programs/compile_pool.h"
#include "server/engine/sessions/session_table.h"
#include "server/identity/identity.h"
#include "server/logs/call_log.h"
#include "server/logs/logs.h"
#include "server/messages/status.h"
#include "server/services/rpcs.h"
#include "server/state/state.h"
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

// Whether it changes what is kept, or needs the right to administer.
bool IsAudited(const RpcRow& row) { return row.right == Right::kAdmin || row.name == "Evict" || row.name == "Export"; }

std::string StatusName(const grpc::Status& wire) {
  return absl::StatusCodeToString(static_cast<absl::StatusCode>(wire.error_code()));
}

std::string ErrorName(const absl::Status& status) {
  const auto detail = status.ok() ? std::nullopt : DetailOf(status);
  return detail.has_value() ? v1::ErrorCode_Name(detail->code()) : "";
}

void Log(const Arrival& arrival, const Ending& ending, const grpc::Status& wire, const absl::Status& status,
         absl::Time end, bool is_slow) {
  const Logs& logs = *arrival.env->logs;
  const RpcRow& row = RpcRows()[arrival.method.number];
  const absl::string_view method = MethodName(arrival.method.number);
  const absl::string_view tenant = ending.account == nullptr ? "" : absl::string_view(ending.account->name());
  if (logs.audit != nullptr) {
    // Who was not let in is told by Admit.
    if (ending.account != nullptr && IsForALimit(status))
      logs.audit->Refused(tenant, arrival.context->peer(), method, status, end);
    // Who may not administer leaves no lines by asking for what is not there.
    const bool tells = row.right == Right::kAdmin || wire.ok();
    if (IsAudited(row) && tells && (ending.account != nullptr || arrival.env->identity == nullptr))
      logs.audit->Called(tenant, arrival.context->peer(), method, StatusName(wire), end);
  }
  if (logs.access == nullptr && (!is_slow || logs.slow == nullptr)) return;
  EndedCall call = {.method = method,
                    .tenant = std::string(tenant),
                    .peer = arrival.context->peer(),
                    .status = static_cast<absl::StatusCode>(wire.error_code()),
                    .error = ErrorName(status),
                    .begin = arrival.begin,
                    .end = end,
                    .received_bytes = ending.received_bytes,
                    .sent_bytes = ending.sent_bytes,
                    .parts = ending.parts};
  if (is_slow && logs.slow != nullptr) logs.slow->Offer(CallLine(call));
  if (logs.access != nullptr)
    logs.access->Offer(sizeof(call) + call.peer.size() + call.error.size(),
                       [call = std::move(call)] { return CallLine(call); });
}

// For who looks at it later: among all that ended lately, and if it was slow by itself.
void Trace(const Arrival& arrival, const Ending& ending, const grpc::Status& wire, absl::Time end, bool is_slow) {
  Traces& traces = arrival.env->engine.traces();
  if (!traces.on() && !is_slow) return;
  CallRecord record;
  record.trace = arrival.trace;
  // A stranger's calls are nothing that others hear of.
  if (arrival.env->identity != nullptr && ending.account == nullptr) record.trace.sampled = false;
  record.time = {absl::ToUnixNanos(arrival.begin), absl::ToUnixNanos(end)};
  record.owner = OwnerNumber(ending.account);
  record.method = static_cast<uint16_t>(arrival.method.number);
  record.status = static_cast<uint16_t>(wire.error_code());
  record.parts = ending.parts;
  traces.Keep(record, ending.parts.stages.get());
  if (is_slow) arrival.env->state->slow_calls().Keep({MethodName(arrival.method.number), record});
}

}  // namespace

void CountEnd(const Arrival& arrival, const Ending& ending, const grpc::Status& wire, const absl::Status& status) {
  Metrics& metrics = arrival.env->engine.metrics();
  const absl::Time end = SteadyNow();
  const bool is_slow =
      RpcRows()[arrival.method.number].unary && arrival.env->state->slow_calls().IsSlow(end - arrival.begin);
  Trace(arrival, ending, wire, end, is_slow);
  Log(arrival, ending, wire, status, end, is_slow);
  const int code = wire.error_code();
  const bool known = code >= 0 && static_cast<size_t>(code) < LabelOf<GrpcStatus>::kMost;
  metrics.calls.Observe(end - arrival.begin, arrival.method,
                        known ? static_cast<GrpcStatus>(code) : GrpcStatus::kUnknown);
  CountFailure(metrics, status);
  if (ending.account != nullptr && IsForALimit(status)) ending.account->CountRefusal();
}

absl::Status CheckInForce(const Admitted& admitted) {
  Identity* const identity = admitted.env().identity;
  // It was when it was let in, so it is unless something else has come into force.
  if (identity == nullptr || admitted.tenant() == nullptr || identity->version() == admitted.known_by() ||
      identity->IsInForce(admitted.tenant()))
    return absl::OkStatus();
  return NotAuthenticated("the tenant of this call has been taken out of the file");
}

absl::StatusOr<SessionPtr> SessionOf(const Admitted& admitted) {
  SessionTable& sessions = admitted.env().engine.sessions();
  const auto& metadata = admitted.context().client_metadata();
  const auto header = metadata.find(kSessionHeader);
  SessionPtr session;
  if (header != metadata.end()) {
    KILN_ASSIGN_OR_RETURN(session,
                          sessions.Find({header->second.data(), header->second.size()}, admitted.tenant_name()));
  } else if (admitted.tenant() != nullptr) {
    session = sessions.HomeOf(admitted.tenant()->name);
  }
  KILN_RETURN_IF_ERROR(CheckInForce(admitted));
  return session;
}

absl::Status CheckNeeds(Needs needs, const ServiceEnv& env, const Session* caller, const Control& control) {
  switch (needs) {
    case Needs::kNothing: return absl::OkStatus();
    case Needs::kRun: return env.engine.CheckRoomToRun(caller, control);
    case Needs::kCompilation: return CheckPlaceToCompile(control.account);
  }
  return absl::OkStatus();
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
