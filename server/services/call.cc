#include "server/services/call.h"

#include <spdlog/logger.h>

#include "absl/hash/hash.h"
#include "absl/strings/escaping.h"
#include "absl/time/clock.h"
#include "server/engine/sessions/session_table.h"
#include "server/messages/status.h"
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

void Trace(const Arrival& arrival, const Ending& ending, const grpc::Status& wire, absl::Time end) {
  Traces& traces = arrival.env->engine.traces();
  if (!traces.on()) return;
  CallRecord record;
  record.trace = arrival.trace;
  // A stranger's calls are nothing that others hear of.
  if (arrival.env->identity != nullptr && ending.account == nullptr) record.trace.sampled = false;
  record.time = {absl::ToUnixNanos(arrival.begin), absl::ToUnixNanos(end)};
  record.owner = OwnerNumber(ending.account);
  record.method = static_cast<uint16_t>(arrival.method.number);
  record.status = static_cast<uint16_t>(wire.error_code());
  record.parts = ending.parts;
  traces.Keep(record);
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
