// GRPCInferenceService.ModelStreamInfer: requests for models one after the other, in one call.
//
// Tested by tests/e2e/serving/stream_test.py.
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/error.h"
#include "inference/grpc_service.pb.h"
#include "server/services/inference/inference.h"
#include "server/services/rpcs.h"

namespace kiln::server {
namespace {

constexpr char kAsksForTheLast[] = "triton_enable_empty_final_response", kIsTheLast[] = "triton_final_response";

// Reads a request, has it run, writes its answer, and only then reads the next: answers come in the order of requests,
// and a client that sends much or reads nothing makes the server keep one request and one answer. Whoever wants its
// requests to run together asks by several calls.
//
// One step follows the other; the lock is for the end, which may come while a read is under way. A request that fails
// is answered with its error, and the call goes on.
class InferStream final : public StreamReactor, public Gate::Watcher {
 public:
  explicit InferStream(Admitted admitted) : admitted_(std::make_unique<const Admitted>(std::move(admitted))) {
    control_.cancelled = &cancelled_;
    control_.deadline = DeadlineOf(admitted_->context());
    control_.account = admitted_->account();
    control_.trace = admitted_->arrival().trace.number();
  }

  void Start(std::shared_ptr<InferStream> self) {
    self_ = std::move(self);
    absl::Status status = Open();
    {
      absl::MutexLock lock(&mutex_);
      if (!status.ok()) return End(status);
      Read();
    }
    env().gate.Watch(self_);
  }

  void OnClosing() override {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    if (reading_ && !ended_) End(ShuttingDown());
  }

 private:
  const ServiceEnv& env() const { return admitted_->env(); }
  ModelCaller caller() const { return {env(), admitted_->tenant(), session_, control_, admitted_->context()}; }

  absl::Status Open() {
    KILN_ASSIGN_OR_RETURN(session_, SessionOf(*admitted_));
    control_.flow = FlowOf(*admitted_, session_);
    KILN_ASSIGN_OR_RETURN(stream_charge_, Hold(control_.account, Quota::kStreams, 1));
    return absl::OkStatus();
  }

  void OnReadDone(bool ok) override {
    {
      absl::MutexLock lock(&mutex_);
      reading_ = false;
      if (ended_) return;
      // The client has said all that it wanted.
      if (!ok) return End(control_.Check());
    }
    begin_ = SteadyNow();
    parts_ = {};
    CountReceived(*admitted_, incoming_);
    if (absl::Status paid = Pay(); !paid.ok() || incoming_.Length() <= kSmallRequest) return Take(std::move(paid));
    env().requests.Push(CallerOf(*admitted_), [this] { Take(absl::OkStatus()); });
  }

  absl::Status Pay() {
    KILN_RETURN_IF_ERROR(Spend(control_.account, Quota::kRequests, 1));
    KILN_RETURN_IF_ERROR(CheckNeeds(kNeeds<inference::ModelInferRequest>, env(), session_.get(), control_));
    KILN_RETURN_IF_ERROR(PayForUpload(control_.account, incoming_));
    KILN_ASSIGN_OR_RETURN(request_charge_, Hold(control_.account, Quota::kHostBytes, incoming_.Length()));
    return absl::OkStatus();
  }

  // The request that has come, unless it is refused already.
  void Take(absl::Status status) {
    if (status.ok()) status = control_.Check();
    if (status.ok()) status = Decode(incoming_, LimitsOf(env()), request_, control_);
    if (status.ok() && control_.account != nullptr)
      status = request_charge_.Grow(DecodedBytes(request_, incoming_.Length()));
    incoming_.Clear();
    if (!status.ok()) return Answer(std::move(status));
    Infer(caller(), begin_, request_, *answer_.mutable_infer_response(), parts_,
          [this](absl::StatusOr<Inferred> inferred) {
            if (inferred.ok()) answer_charge_ = std::move(inferred->charge);
            // Each request has one answer, which is its last.
            if (request_.parameters().contains(kAsksForTheLast))
              (*answer_.mutable_infer_response()->mutable_parameters())[kIsTheLast].set_bool_param(true);
            Answer(inferred.status());
          });
  }

  void Answer(const absl::Status& status) {
    if (!status.ok()) {
      CountFailure(env().engine.metrics(), status);
      answer_.mutable_infer_response()->Clear();
      answer_.mutable_infer_response()->set_id(request_.id());
      answer_.set_error_message(std::string(status.message()));
    }
    const absl::Status encoded = Encode(answer_, outgoing_);
    // Cleared messages would keep their memory, which nobody pays for while the client says nothing.
    answer_ = inference::ModelStreamInferResponse();
    request_ = inference::ModelInferRequest();
    // The end may come at once, on another thread.
    const std::shared_ptr<InferStream> self = self_;
    absl::MutexLock lock(&mutex_);
    if (!encoded.ok()) return End(encoded);
    CountSent(*admitted_, outgoing_);
    StartWrite(&outgoing_);
  }

  void OnWriteDone(bool ok) override {
    outgoing_.Clear();
    request_charge_.Release();
    answer_charge_.Release();
    absl::MutexLock lock(&mutex_);
    if (!ok) return End(MakeError(v1::CALL_CANCELLED, "the connection is gone"));
    if (closing_) return End(ShuttingDown());
    // Whose caller is not known any more: its client is still there.
    if (cancelled_.load(std::memory_order_relaxed)) return End(control_.Check());
    Read();
  }

  void OnCancel() override {
    cancelled_.store(true, std::memory_order_relaxed);
    absl::MutexLock lock(&mutex_);
    if (reading_ && !ended_) End(control_.Check());
  }

  void OnEnd() override {
    stream_charge_.Release();
    request_charge_.Release();
    answer_charge_.Release();
    session_ = nullptr;
    admitted_.reset();
    self_.reset();  // and with it, perhaps, this
  }

  void Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    reading_ = true;
    StartRead(&incoming_);
  }

  void End(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ended_ = true;
    FinishWith(*this, *admitted_, status);
  }

  std::unique_ptr<const Admitted> admitted_;
  std::shared_ptr<InferStream> self_;
  std::atomic<bool> cancelled_{false};
  Control control_;
  SessionPtr session_;
  Charge stream_charge_, request_charge_, answer_charge_;
  // Of the request at hand.
  grpc::ByteBuffer incoming_, outgoing_;
  inference::ModelInferRequest request_;
  inference::ModelStreamInferResponse answer_;
  absl::Time begin_;
  NotedParts parts_;

  absl::Mutex mutex_;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

StreamReactor* rpc::GRPCInferenceService::ModelStreamInfer(Admitted admitted) {
  auto call = std::make_shared<InferStream>(std::move(admitted));
  InferStream* const reactor = call.get();
  reactor->Start(std::move(call));
  return reactor;
}

}  // namespace kiln::server
