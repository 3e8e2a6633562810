#include "server/services/admission.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "server/identity/identity.h"
#include "server/port/unix_users.h"
#include "server/trace/trace_context.h"

namespace kiln::server {
namespace {

absl::string_view View(const grpc::string_ref& text) { return {text.data(), text.size()}; }

// Names that gRPC has from a certificate that it has verified: it has them of no other.
constexpr const char* kCertificateNames[] = {"peer_uri", "peer_dns"};

absl::StatusOr<TenantPtr> Identify(Identity& identity, const grpc::CallbackServerContext& context) {
  Credentials credentials;
  const auto& metadata = context.client_metadata();
  if (const auto header = metadata.find("authorization"); header != metadata.end()) {
    credentials.authorization = View(header->second);
    return identity.Identify(credentials, absl::Now());
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
  return identity.Identify(credentials, absl::Now());
}

}  // namespace

CallTrace BeginTrace(const ServiceEnv& env, const grpc::CallbackServerContext& context) {
  Traces& traces = env.engine.traces();
  if (!traces.on()) return {};
  const auto& metadata = context.client_metadata();
  const auto header = metadata.find("traceparent");
  if (header == metadata.end()) return traces.Begin(std::nullopt);
  return traces.Begin(ParseTraceparent(View(header->second)));
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
  KILN_ASSIGN_OR_RETURN(admitted.tenant_, Identify(*env.identity, *arrival.context));
  if (!admitted.tenant_->Has(right)) return WithoutRight(*admitted.tenant_, right);
  admitted.account_ = env.engine.accounts().Of(admitted.tenant_->name);
  KILN_RETURN_IF_ERROR(Spend(admitted.account_, Quota::kRequests, 1));
  KILN_ASSIGN_OR_RETURN(admitted.in_flight_, Hold(admitted.account_, Quota::kInFlight, 1));
  return admitted;
}

}  // namespace kiln::server
