// Tested by tests/e2e/serving/serving_test.py; what is in shared memory by tests/e2e/serving/regions_test.py.
#include "server/services/inference/inference.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "inference/grpc_service.pb.h"
#include "server/identity/identity.h"
#include "server/models/infer.h"
#include "server/models/repository.h"
#include "server/services/inference/infer_regions.h"
#include "server/services/requests/codec.h"

namespace kiln::server {
namespace {

absl::Duration Micros(double micros) { return absl::Microseconds(micros); }

// A run under way: one step follows the other, on whichever thread the one before ended. What takes long, which is to
// copy much from or to a region, or to sort many elements, is done by the threads that read large requests.
class Run : public std::enable_shared_from_this<Run> {
 public:
  Run(const ModelCaller& caller, absl::Time begin, const inference::ModelInferRequest& message,
      inference::ModelInferResponse& answer, NotedParts& parts, ServedModelPtr model, InferCallback done)
      : control_(caller.control),
        caller_{caller.env, caller.tenant, caller.session, control_, caller.context},
        begin_(begin),
        message_(message),
        answer_(answer),
        parts_(parts),
        model_(std::move(model)),
        done_(std::move(done)) {}

  void Start() {
    if (absl::Status status = Prepare(); !status.ok()) return Fail(std::move(status));
    if (regions_ == nullptr || regions_->input_bytes() <= kSmallRequest) return ReadAndExecute();
    absl::Status offered = caller_.env.requests.Offer(Turn(), regions_->input_bytes(),
                                                      [self = shared_from_this()] { self->ReadAndExecute(); });
    if (!offered.ok()) Fail(std::move(offered));
  }

 private:
  // As CallerOf.
  std::string Turn() const { return caller_.tenant == nullptr ? caller_.context.peer() : caller_.tenant->name; }

  absl::Status Prepare() {
    KILN_RETURN_IF_ERROR(ToRun(*model_, message_, run_));
    control_.deadline = std::min(control_.deadline, begin_ + run_.timeout);
    KILN_ASSIGN_OR_RETURN(regions_, InferRegions::Find(caller_, run_));
    if (regions_ != nullptr) KILN_RETURN_IF_ERROR(regions_->CheckOutputs(*model_, run_));
    return absl::OkStatus();
  }

  void ReadAndExecute() {
    if (regions_ != nullptr) {
      if (absl::Status status = regions_->Read(run_); !status.ok()) return Fail(std::move(status));
    }
    ExecuteRequest& asked = run_.request;
    asked.caller = caller_.session;
    asked.parts = &parts_;
    inferred_.decoded = SteadyNow();
    parts_.Set(Part::kDecode, begin_, inferred_.decoded);
    auto executed = [self = shared_from_this()](absl::StatusOr<ExecuteResult> result) {
      self->Executed(std::move(result));
    };
    if (run_.sequence.has_value()) {
      // A call that was let in goes on, but may begin nothing that whoever has its tenant's name next would find.
      Identity* const identity = caller_.env.identity;
      if (identity != nullptr && caller_.tenant != nullptr && !identity->IsInForce(caller_.tenant))
        return Fail(MakeError(v1::NOT_AUTHENTICATED,
                              "the tenant of this call has been taken out of the file, and its sequences have ended"));
      Control control = caller_.control;
      control.domain = MemoryDomainOf(caller_.session.get());
      model_->sequences->sequencer->Run(std::move(asked), *run_.sequence, control, std::move(executed));
    } else {
      caller_.env.engine.Execute(std::move(asked), caller_.control, std::move(executed));
    }
  }

  void Executed(absl::StatusOr<ExecuteResult> result) {
    inferred_.executed = SteadyNow();
    if (!result.ok()) return Fail(result.status());
    // Its sequence has moved on. Who were told that it is too late would send the step again.
    if (run_.sequence.has_value()) control_.deadline = absl::InfiniteFuture();
    result_ = *std::move(result);
    if (CopiedBytes() <= kSmallRequest) return Answer();
    caller_.env.requests.Push(Turn(), [self = shared_from_this()] { self->Answer(); });
  }

  // Of the results that are more than moved.
  uint64_t CopiedBytes() const {
    uint64_t bytes = 0;
    for (size_t i = 0; i < run_.outputs.size(); ++i) {
      const TensorOptions& options = run_.output_options[i];
      if (options.region.has_value() || options.classes != 0) bytes += result_.results[run_.outputs[i]].data.size();
    }
    return bytes;
  }

  void Answer() {
    if (regions_ != nullptr) {
      if (absl::Status status = regions_->Write(run_, result_); !status.ok()) return Fail(std::move(status));
    }
    if (absl::Status status = FillInferResponse(*model_, message_, run_, result_, answer_); !status.ok())
      return Fail(std::move(status));
    inferred_.charge = std::move(result_.charge);
    const ExecuteTiming& timing = result_.timing;
    model_->counters.Succeeded(caller_.control.account, static_cast<uint32_t>(result_.batch), begin_,
                               SteadyNow() - begin_, Micros(timing.queue),
                               inferred_.decoded - begin_ + Micros(timing.h2d), Micros(timing.device));
    regions_ = nullptr;  // what they take is given back before the client hears of it
    done_(std::move(inferred_));
  }

  void Fail(absl::Status status) {
    model_->counters.Failed(caller_.control.account, begin_, SteadyNow() - begin_);
    regions_ = nullptr;
    done_(std::move(status));
  }

  Control control_;  // the call's, until this request is not wanted any more
  const ModelCaller caller_;
  const absl::Time begin_;
  const inference::ModelInferRequest& message_;
  inference::ModelInferResponse& answer_;
  NotedParts& parts_;
  const ServedModelPtr model_;
  InferCallback done_;
  InferRun run_;
  std::unique_ptr<InferRegions> regions_;  // null: the message has all
  ExecuteResult result_;
  Inferred inferred_;
};

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
  std::make_shared<Run>(caller, begin, message, answer, parts, *std::move(model), std::move(done))->Start();
}

}  // namespace kiln::server
