#include "server/services/admission.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "server/identity/identity.h"
#include "server/logs/logs.h"
#include "server/port/local_peer.h"
#include "server/port/unix_users.h"
#include "server/services/rpcs.h"
#include "server/trace/trace_context.h"

namespace kiln::server {
namespace {

absl::string_view View(const grpc::string_ref& text) { return {text.data(), text.size()}; }

// Names that gRPC has from a certificate that it has verified: it has them of no other.
constexpr const char* kCertificateNames[] = {"peer_uri", "peer_dns"};

// Who calls, as gRPC names peers. The port for HTTP calls from within, for a client whose address it says.
std::string PeerOf(const ServiceEnv& env, const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto said = metadata.find(HttpPeers::kMetadata);
  if (said == metadata.end() || env.http_peers == nullptr) return context.peer();
  const std::optional<std::string> address = env.http_peers->AddressOf(View(said->second));
  if (!address.has_value()) return context.peer();
  return absl::StrContains(*address, ':') ? absl::StrCat("ipv6:%5B", *address, "%5D:0")
                                          : absl::StrCat("ipv4:", *address, ":0");
}

}  // namespace

absl::StatusOr<Identified> Identify(Identity& identity, const grpc::ServerContextBase& context, absl::Time now,
                                    std::optional<absl::FunctionRef<std::string()>> peer) {
  Credentials credentials;
  const auto& metadata = context.client_metadata();
  if (const auto header = metadata.find("authorization"); header != metadata.end()) {
    credentials.authorization = View(header->second);
    return identity.Identify(credentials, now, peer);
  }
  const auto connection = context.auth_context();
  std::vector<grpc::string_ref> names;
  if (connection != nullptr && connection->IsPeerAuthenticated()) {
    for (const char* kind : kCertificateNames) {
      for (const grpc::string_ref& name : connection->FindPropertyValues(kind)) {
        credentials.certificate_names.push_back(View(name));
      }
    }
  }
  if (connection != nullptr) credentials.unix_user = UnixUsers::UserOf(*connection);
  return identity.Identify(credentials, now);
}

CallTrace BeginTrace(const ServiceEnv& env, const grpc::CallbackServerContext& context) {
  Traces& traces = env.engine.traces();
  if (!traces.on()) return {};
  const auto& metadata = context.client_metadata();
  const auto header = metadata.find("traceparent");
  if (header == metadata.end()) return traces.Begin(std::nullopt);
  return traces.Begin(ParseTraceparent(View(header->second)));
}

Admitted::Admitted(const Arrival& arrival) : arrival_(arrival), inside_(&arrival.env->gate) {
  if (arrival.env->logs->access != nullptr) bytes_ = std::make_unique<Bytes>();
}

absl::Status WithoutRight(const Tenant& tenant, Right right) {
  v1::ErrorDetail detail;
  detail.set_code(v1::NOT_ALLOWED);
  detail.set_field(std::string(RightName(right)));
  return MakeError(detail, absl::StrCat("the tenant ", tenant.name, " has not the right to ", RightName(right)));
}

absl::Status ShuttingDown() { return MakeError(v1::SHUTTING_DOWN, "the server is stopping and takes no new requests"); }

absl::StatusOr<Admitted> Admit(const Arrival& arrival, Right right) {
  const ServiceEnv& env = *arrival.env;
  if (!env.gate.Enter()) return ShuttingDown();
  Admitted admitted(arrival);
  if (env.identity == nullptr) return admitted;
  AuditLog* const audit = env.logs->audit.get();
  const auto refused = [&](absl::string_view tenant, absl::Status why) {
    if (audit != nullptr) {
      audit->Refused(tenant, arrival.context->peer(), MethodName(arrival.method.number), why, arrival.begin);
    }
    return why;
  };
  admitted.known_by_ = env.identity->version();
  const auto peer = [&] { return PeerOf(env, *arrival.context); };
  auto identified = Identify(*env.identity, *arrival.context, absl::Now(), peer);
  if (!identified.ok()) return refused("", std::move(identified).status());
  admitted.tenant_ = std::move(identified->tenant);
  admitted.known_until_ = identified->until;
  const std::string& name = admitted.tenant_->name;
  if (!admitted.tenant_->Has(right)) return refused(name, WithoutRight(*admitted.tenant_, right));
  if (audit != nullptr) audit->Known(name, arrival.context->peer(), arrival.begin);
  admitted.account_ = env.engine.accounts().Of(admitted.tenant_->name);
  absl::Status paid = Spend(admitted.account_, Quota::kRequests, 1);
  if (paid.ok()) {
    auto in_flight = Hold(admitted.account_, Quota::kInFlight, 1);
    if (in_flight.ok()) admitted.in_flight_ = *std::move(in_flight);
    paid = in_flight.status();
  }
  if (paid.ok()) return admitted;
  admitted.account_->CountRefusal();
  return refused(name, std::move(paid));
}

bool IsStale(const Arrival& arrival, uint64_t known_by) { return arrival.env->identity->version() != known_by; }

absl::StatusOr<absl::Time> AdmitAgain(const Arrival& arrival, const TenantPtr& tenant, Right also, absl::Time now) {
  Identity& identity = *arrival.env->identity;
  KILN_ASSIGN_OR_RETURN(const Identified identified, Identify(identity, *arrival.context, now));
  if (identified.tenant->name != tenant->name || !identity.IsInForce(tenant)) {
    return NotAuthenticated(
        "the tenant that this call is of has been taken out of the file, or its credentials given "
        "to another");
  }
  for (const Right right : {RpcRows()[arrival.method.number].right, also}) {
    if (!identified.tenant->Has(right)) return WithoutRight(*identified.tenant, right);
  }
  return identified.until;
}

}  // namespace kiln::server
