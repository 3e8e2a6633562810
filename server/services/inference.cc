// Tested by tests/e2e/serving/serving_test.py.
#include "server/services/inference.h"

#include <memory>
#include <utility>

#include "base/clock.h"
#include "inference/grpc_service.pb.h"
#include "server/models/infer.h"
#include "server/models/repository.h"

namespace kiln::server {
namespace {

// A run under way.
struct Run {
  ServedModelPtr model;
  InferRun run;
  InferCallback done;
};

absl::Duration Micros(double micros) { return absl::Microseconds(micros); }

}  // namespace

bool MayAsk(const ModelCaller& caller, const ServedModel& model) {
  return (caller.tenant == nullptr || caller.tenant->MayAsk(model.name)) &&
         Engine::MayUse(RulesOf(caller.session.get()), model.device->name());
}

absl::StatusOr<ServedModelPtr> FindModel(const ModelCaller& caller, absl::string_view name, absl::string_view version) {
  if (caller.env.models == nullptr) return UnknownModel(name, version);
  KILN_ASSIGN_OR_RETURN(ServedModelPtr model, caller.env.models->Find(name, version));
  if (!MayAsk(caller, *model)) return UnknownModel(name, version);
  return model;
}

void Infer(const ModelCaller& caller, absl::Time begin, const inference::ModelInferRequest& message,
           inference::ModelInferResponse& answer, NotedParts& parts, InferCallback done) {
  auto model = FindModel(caller, message.model_name(), message.model_version());
  if (!model.ok()) return done(model.status());
  auto own = std::make_shared<Run>();
  own->model = *std::move(model);
  own->done = std::move(done);
  Account* const account = caller.control.account;
  if (absl::Status status = ToRun(*own->model, message, own->run); !status.ok()) {
    own->model->counters.Failed(account, begin, SteadyNow() - begin);
    return own->done(std::move(status));
  }
  ExecuteRequest& asked = own->run.request;
  asked.caller = caller.session;
  asked.parts = &parts;
  const absl::Time decoded = SteadyNow();
  parts.Set(Part::kDecode, begin, decoded);
  caller.env.engine.Execute(std::move(asked), caller.control,
                            [own, account, begin, decoded, &message, &answer](absl::StatusOr<ExecuteResult> result) {
                              Inferred inferred{decoded, SteadyNow(), {}};
                              const ServedModel& served = *own->model;
                              if (!result.ok()) {
                                served.counters.Failed(account, begin, inferred.executed - begin);
                                return own->done(result.status());
                              }
                              FillInferResponse(served, message, own->run, *result, answer);
                              inferred.charge = std::move(result->charge);
                              const ExecuteTiming& timing = result->timing;
                              served.counters.Succeeded(account, result->batch > 0, begin, SteadyNow() - begin,
                                                        Micros(timing.queue), decoded - begin + Micros(timing.h2d),
                                                        Micros(timing.device));
                              own->done(std::move(inferred));
                            });
}

}  // namespace kiln::server
