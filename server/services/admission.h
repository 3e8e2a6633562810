// The one way in: every call passes Admit before anything of it is read.
#ifndef KILN_SERVER_SERVICES_ADMISSION_H_
#define KILN_SERVER_SERVICES_ADMISSION_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/account.h"
#include "base/clock.h"
#include "server/identity/tenant.h"
#include "server/metrics/metrics.h"
#include "server/services/env.h"
#include "server/trace/traces.h"

namespace kiln::server {

struct Identified;  // server/identity/tenants.h

// Where a call stands in its caller's trace, by its metadata, or in one of its own.
CallTrace BeginTrace(const ServiceEnv& env, const grpc::CallbackServerContext& context);

// A call as it has come.
struct Arrival {
  const ServiceEnv* env;
  const grpc::CallbackServerContext* context;  // gRPC's, until the call is done
  Method method;
  absl::Time begin = SteadyNow();
  CallTrace trace = BeginTrace(*env, *context);
};

// Who calls, by what the call and its connection show, and until when that counts. NOT_AUTHENTICATED.
// With `peer`, who this is, strangers' attempts are bounded (identity/refused_tokens.h); without, as for a call that
// was let in before, they are not.
absl::StatusOr<Identified> Identify(Identity& identity, const grpc::ServerContextBase& context, absl::Time now,
                                    std::optional<absl::FunctionRef<std::string()>> peer = std::nullopt);

// A call that was let in: the gate counts it until this goes.
class Admitted {
 public:
  // One that is inside already.
  explicit Admitted(const Arrival& arrival);

  const Arrival& arrival() const { return arrival_; }
  const ServiceEnv& env() const { return *arrival_.env; }
  const grpc::CallbackServerContext& context() const { return *arrival_.context; }
  // Who asks; null where the server does not want to know.
  const TenantPtr& tenant() const { return tenant_; }
  // Until when what it brought counts, and what was in force as that was looked at (Identity::version).
  absl::Time known_until() const { return known_until_; }
  uint64_t known_by() const { return known_by_; }
  absl::string_view tenant_name() const { return tenant_ == nullptr ? "" : absl::string_view(tenant_->name); }
  // Its account; null for a caller without quotas.
  Account* account() const { return account_; }
  // Of its messages, of a call that is a stream; null where nobody wants to know.
  struct Bytes {
    std::atomic<uint64_t> received{0};
    std::atomic<uint64_t> sent{0};
  };
  Bytes* bytes() const { return bytes_.get(); }

 private:
  friend absl::StatusOr<Admitted> Admit(const Arrival&, Right);

  struct Leave {
    void operator()(Gate* gate) const { gate->Leave(); }
  };

  Arrival arrival_;
  std::unique_ptr<Gate, Leave> inside_;
  TenantPtr tenant_;
  absl::Time known_until_ = absl::InfiniteFuture();
  uint64_t known_by_ = 0;
  Account* account_ = nullptr;
  Charge in_flight_;
  std::unique_ptr<Bytes> bytes_;
};

// NOT_ALLOWED, which names the right.
absl::Status WithoutRight(const Tenant& tenant, Right right);

// SHUTTING_DOWN once the gate is closed. Where there are tenants, NOT_AUTHENTICATED for who
// is none of them, NOT_ALLOWED for one that has not the right, and QUOTA_EXCEEDED for one that
// asks too often or has too many under way. What `arrival` names outlives what is returned.
absl::StatusOr<Admitted> Admit(const Arrival& arrival, Right right);

absl::Status ShuttingDown();

// Whether something else is in force than when a caller was known by this (Admitted::known_by).
bool IsStale(const Arrival& arrival, uint64_t known_by);

// Whether the caller of `arrival`, who was this tenant as it came, still is, and has the right that it needs; until
// when that counts. NOT_AUTHENTICATED or NOT_ALLOWED.
absl::StatusOr<absl::Time> AdmitAgain(const Arrival& arrival, const TenantPtr& tenant, Right also, absl::Time now);

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_ADMISSION_H_
