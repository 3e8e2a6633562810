// Requests for served models, whichever way they come: whom they may ask, their run, and their answer.
#ifndef KILN_SERVER_SERVICES_INFERENCE_INFERENCE_H_
#define KILN_SERVER_SERVICES_INFERENCE_INFERENCE_H_

#include <grpcpp/grpcpp.h>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/account.h"
#include "server/engine/memory/session.h"
#include "server/engine/programs/program_store.h"
#include "server/identity/tenant.h"
#include "server/models/served_model.h"
#include "server/services/env.h"
#include "server/trace/parts.h"

namespace inference {
class ModelInferRequest;
class ModelInferResponse;
}  // namespace inference

namespace kiln::server {

// Who asks. What it names outlives the request.
struct ModelCaller {
  const ServiceEnv& env;
  const TenantPtr& tenant;  // null where the server does not want to know
  const SessionPtr& session;
  const Control& control;
  const grpc::CallbackServerContext& context;
};

// A model that is not the tenant's, or is on a device that is not, is none for it.
bool MayAsk(const ModelCaller& caller, const ServedModel& model);

// One that the caller may have run. NOT_FOUND, also on a server without models.
absl::StatusOr<ServedModelPtr> FindModel(const ModelCaller& caller, absl::string_view name, absl::string_view version);

// A request that was answered.
struct Inferred {
  absl::Time decoded, executed;
  Charge charge;  // for the answer's data, until the client has it
};
using InferCallback = absl::AnyInvocable<void(absl::StatusOr<Inferred>)>;

// Runs a request that came at `begin`, fills `answer`, and counts it for the model. `message`, `answer` and `parts`
// live until `done` has been called: once, here or on a device's thread, and it must not block.
void Infer(const ModelCaller& caller, absl::Time begin, const inference::ModelInferRequest& message,
           inference::ModelInferResponse& answer, NotedParts& parts, InferCallback done);

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_INFERENCE_INFERENCE_H_
