#include "server/services/admission.h"

#include "base/error.h"

namespace kiln::server {

absl::string_view RightName(Right right) {
  switch (right) {
    case Right::kExecute: return "execute";
    case Right::kDebug: return "debug";
    case Right::kAdmin: return "admin";
  }
  return "";
}

absl::Status ShuttingDown() { return MakeError(v1::SHUTTING_DOWN, "the server is stopping and takes no new requests"); }

absl::StatusOr<Admitted> Admit(const ServiceEnv& env, const grpc::CallbackServerContext& context, Right) {
  if (!env.gate.Enter()) return ShuttingDown();
  return Admitted(env, context);
}

}  // namespace kiln::server
