// The one way in: every call passes Admit before anything of it is read.
#ifndef KILN_SERVER_SERVICES_ADMISSION_H_
#define KILN_SERVER_SERVICES_ADMISSION_H_

#include <grpcpp/grpcpp.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/services/env.h"

namespace kiln::server {

// What a caller must be allowed to do for an RPC to be served (the rows of rpcs.h).
enum class Right : unsigned char {
  kExecute,  // compile, run, and keep data on devices
  kDebug,    // see how its own programs are compiled, and how fast they are
  kAdmin,    // what concerns everybody's
};
absl::string_view RightName(Right right);

// A call that was let in: the gate counts it until this goes.
class Admitted {
 public:
  Admitted(const ServiceEnv& env, const grpc::CallbackServerContext& context)
      : env_(&env), context_(&context), inside_(&env.gate) {}

  const ServiceEnv& env() const { return *env_; }
  // gRPC's, until the call is done.
  const grpc::CallbackServerContext& context() const { return *context_; }

 private:
  struct Leave {
    void operator()(Gate* gate) const { gate->Leave(); }
  };

  const ServiceEnv* env_;
  const grpc::CallbackServerContext* context_;
  std::unique_ptr<Gate, Leave> inside_;
};

// SHUTTING_DOWN once the gate is closed. `env` outlives what is returned.
absl::StatusOr<Admitted> Admit(const ServiceEnv& env, const grpc::CallbackServerContext& context, Right right);

absl::Status ShuttingDown();

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_ADMISSION_H_
