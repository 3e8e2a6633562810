// What every unary call has in common: admission, decoding, deadline and
// cancellation, the answer.
//
// Services take calls as bytes and decode them here, so that a message that is
// no message is the client's fault (MALFORMED_MESSAGE) like any other. Tested by tests/e2e.
#ifndef KILN_SERVER_SERVICES_CALL_H_
#define KILN_SERVER_SERVICES_CALL_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/account.h"
#include "base/clock.h"
#include "base/error.h"
#include "server/engine/memory/session.h"
#include "server/engine/programs/program_store.h"
#include "server/metrics/count.h"
#include "server/services/admission.h"
#include "server/services/env.h"
#include "server/services/requests/codec.h"
#include "server/services/requests/open_calls.h"
#include "server/services/requests/request_pool.h"
#include "server/trace/parts.h"

namespace kiln::v1 {
class ExecuteRequest;
class ReplaySequenceRequest;
class GradientRequest;
class ExplainRequest;
}  // namespace kiln::v1
namespace inference {
class ModelInferRequest;
}  // namespace inference

namespace kiln::server {

inline RequestLimits LimitsOf(const ServiceEnv& env) { return {.nodes = env.engine.limits().max_nodes}; }

// Until when a call is wanted, in SteadyNow()'s time: as gRPC knows it, which counts by a clock that nobody sets.
inline absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  const gpr_timespec until = context.raw_deadline();
  if (gpr_time_cmp(until, gpr_inf_future(until.clock_type)) == 0) return absl::InfiniteFuture();
  const gpr_timespec left = gpr_time_sub(until, gpr_now(until.clock_type));
  return SteadyNow() + absl::Seconds(left.tv_sec) + absl::Nanoseconds(left.tv_nsec);
}

// NOT_AUTHENTICATED if the tenant of a call has left the file since it came. Asked after something was found or made by
// the tenant's name, it says that this was not another's, who has come under the same name.
absl::Status CheckInForce(const Admitted& admitted);

// The session under which a call is made. Without kSessionHeader that of its tenant, or null
// if there is none; UnknownSession() if the tenant has none with its token; CheckInForce().
absl::StatusOr<SessionPtr> SessionOf(const Admitted& admitted);

// Whose turn it is among those whose large requests wait: a tenant's; without tenants a
// connection's, where it has an address of its own.
std::string CallerOf(const Admitted& admitted);

// As in LaunchControl: that of the session which the call names, else of its connection.
uint64_t FlowOf(const Admitted& admitted, const SessionPtr& session);

// Of the account's upload_bytes_per_second, what a request brings that is more than names and
// numbers: who may send no more for a while can still free, and look.
inline absl::Status PayForUpload(Account* account, const grpc::ByteBuffer& bytes) {
  constexpr size_t kNamesAndNumbers = 4096;
  if (bytes.Length() <= kNamesAndNumbers) return absl::OkStatus();
  return Spend(account, Quota::kUploadBytes, static_cast<double>(bytes.Length()));
}

// What every request of a kind needs: who cannot have it is refused before the request is read.
enum class Needs { kNothing, kRun, kCompilation };
template <typename Request>
inline constexpr Needs kNeeds = Needs::kNothing;
template <>
inline constexpr Needs kNeeds<v1::ExecuteRequest> = Needs::kRun;
template <>
inline constexpr Needs kNeeds<v1::ReplaySequenceRequest> = Needs::kRun;
template <>
inline constexpr Needs kNeeds<inference::ModelInferRequest> = Needs::kRun;
template <>
inline constexpr Needs kNeeds<v1::GradientRequest> = Needs::kCompilation;
template <>
inline constexpr Needs kNeeds<v1::ExplainRequest> = Needs::kCompilation;
// As Engine::CheckRoomToRun and CheckPlaceToCompile say.
absl::Status CheckNeeds(Needs needs, const ServiceEnv& env, const Session* caller, const Control& control);

// What is our own fault is logged: it is for us to read about, too.
grpc::Status ToGrpcAndLog(const ServiceEnv& env, const absl::Status& status);

// A reactor of gRPC's whose call can be ended from here: when its caller is not known any more, it is told that it is
// cancelled, as if its client had gone, and ends with why. So each kind of call knows one way to end early.
template <typename Reactor>
class Revocable : public Reactor, private OpenCalls::Call {
 public:
  // As OnDone: gRPC is done with the call, and nobody else calls any more.
  virtual void OnEnd() = 0;

  // From now on it is ended if its caller is not `tenant` any more. By whoever has made it, before gRPC has it, which
  // until then does not end it; of one that has ended in the meantime, nothing.
  void EndWithout(const Arrival& arrival, const TenantPtr& tenant, absl::Time until, uint64_t known_by) {
    OpenCalls* const calls = arrival.env->open_calls;
    if (calls == nullptr || tenant == nullptr || ending_.load(std::memory_order_relaxed)) return;
    arrival_ = arrival;
    tenant_ = tenant;
    listed_ = true;
    calls->Add(this, until, [&] { return IsStale(arrival, known_by); });
  }

  // It takes this right, too, beside that of its kind of call.
  void Require(Right right) { also_.store(right, std::memory_order_relaxed); }

  // What it ends with, where it would with `status`.
  absl::Status Ends(const absl::Status& status) {
    ending_.store(true, std::memory_order_relaxed);
    if (status.ok() || !revoked_.load(std::memory_order_acquire)) return status;
    const auto detail = DetailOf(status);
    return detail.has_value() && detail->code() == v1::CALL_CANCELLED ? why_ : status;
  }

 private:
  Let LookAgain(absl::Time now) override {
    auto until = AdmitAgain(*arrival_, tenant_, also_.load(std::memory_order_relaxed), now);
    return until.ok() ? Let{absl::OkStatus(), *until} : Let{until.status(), {}};
  }
  void Revoke(const absl::Status& why) override {
    why_ = why;
    revoked_.store(true, std::memory_order_release);
    this->OnCancel();
  }
  void CutOff() override { arrival_->context->TryCancel(); }

  void OnDone() final {
    if (listed_) arrival_->env->open_calls->Remove(this);
    OnEnd();
  }

  // Once it is listed.
  std::optional<Arrival> arrival_;
  TenantPtr tenant_;
  bool listed_ = false;
  std::atomic<Right> also_{Right::kKnown};
  std::atomic<bool> ending_{false}, revoked_{false};
  absl::Status why_;  // once revoked_
};

// A call that has come so far, for metrics and traces.
struct Ending {
  Account* account = nullptr;  // of who asked, if that is known
  NotedParts parts;
  uint64_t received_bytes = 0, sent_bytes = 0;  // of its messages, as far as they were counted
};

// What is counted, and kept for traces, of a call that ends so.
void CountEnd(const Arrival& arrival, const Ending& ending, const grpc::Status& wire, const absl::Status& status);

// Ends a call of any kind, and counts it.
template <typename Reactor>
void FinishWith(Revocable<Reactor>& reactor, const Arrival& arrival, const Ending& ending, const absl::Status& result) {
  const absl::Status status = reactor.Ends(result);
  const grpc::Status wire = ToGrpcAndLog(*arrival.env, status);
  CountEnd(arrival, ending, wire, status);
  reactor.Finish(wire);
}
// One that was let in.
template <typename Reactor>
void FinishWith(Revocable<Reactor>& reactor, const Admitted& admitted, const absl::Status& status) {
  Ending ending = {admitted.account(), {}};
  if (const Admitted::Bytes* bytes = admitted.bytes(); bytes != nullptr) {
    ending.received_bytes = bytes->received.load(std::memory_order_relaxed);
    ending.sent_bytes = bytes->sent.load(std::memory_order_relaxed);
  }
  FinishWith(reactor, admitted.arrival(), ending, status);
}

// Messages, as they travel; of streams, for their own count, too.
inline void CountReceived(const ServiceEnv& env, const grpc::ByteBuffer& message) {
  env.engine.metrics().bytes.Add(message.Length(), Direction::kReceived);
}
inline void CountSent(const ServiceEnv& env, const grpc::ByteBuffer& message) {
  env.engine.metrics().bytes.Add(message.Length(), Direction::kSent);
}

inline void CountReceived(const Admitted& admitted, const grpc::ByteBuffer& message) {
  CountReceived(admitted.env(), message);
  if (Admitted::Bytes* bytes = admitted.bytes()) bytes->received.fetch_add(message.Length(), std::memory_order_relaxed);
}
inline void CountSent(const Admitted& admitted, const grpc::ByteBuffer& message) {
  CountSent(admitted.env(), message);
  if (Admitted::Bytes* bytes = admitted.bytes()) bytes->sent.fetch_add(message.Length(), std::memory_order_relaxed);
}

// Lives until gRPC is done with the call. Reply is called exactly once, from any
// thread; nothing of the call may be touched after it.
template <typename Request, typename Response>
class UnaryCall final : public Revocable<grpc::ServerUnaryReactor> {
 public:
  UnaryCall(const Arrival& arrival, Right right, grpc::ByteBuffer& answer)
      : arrival_(arrival), admitted_(Admit(arrival, right)), answer_(answer) {
    if (!admitted_.ok()) env().gate.Stay();
    control_.cancelled = &cancelled_;
    control_.deadline = DeadlineOf(*arrival.context);
    control_.trace = arrival.trace.number();
  }

  // Reads the request and hands the call to `body`: at once, or on a thread of the pool.
  // `bytes` are gRPC's until the call is done.
  void Begin(const grpc::ByteBuffer& bytes, void (*body)(UnaryCall&)) {
    CountReceived(env(), bytes);
    ending_.received_bytes = bytes.Length();
    absl::Status status = Pay(bytes);
    if (status.ok()) {
      if (bytes.Length() <= kSmallRequest) return Run(bytes, body);
      status = env().requests.Offer(CallerOf(*admitted_), bytes.Length(), [this, &bytes, body] { Run(bytes, body); });
    }
    if (!status.ok()) Reply(std::move(status));
  }

  // After Begin.
  void EndWithoutCaller() {
    if (admitted_.ok()) EndWithout(arrival_, tenant(), admitted_->known_until(), admitted_->known_by());
  }

  const ServiceEnv& env() const { return *arrival_.env; }
  const grpc::CallbackServerContext& context() const { return *arrival_.context; }
  const Request& request() const { return request_; }
  Response& response() { return response_; }
  const Control& control() const { return control_; }
  const SessionPtr& session() const { return session_; }
  // Null where the server does not want to know.
  const TenantPtr& tenant() const { return admitted_->tenant(); }
  absl::string_view tenant_name() const { return admitted_->tenant_name(); }
  absl::Time begin() const { return arrival_.begin; }

  // An execution has succeeded: its request was decoded by then, and the making of its answer
  // began so. Both are counted.
  void MarkDone(absl::Time decoded, absl::Time executed) {
    env().engine.metrics().execute.Observe(decoded - begin(), Phase::kDecode);
    executed_ = executed;
  }

  // When the call's parts were, for traces.
  NotedParts& parts() { return ending_.parts; }

  // Of the answer: kept until the client has it.
  void Keep(Charge charge) { data_charge_ = std::move(charge); }

  void Reply(absl::Status status) {
    if (status.ok()) status = PayForAnswer();
    if (status.ok()) status = Encode(response_, answer_);
    if (status.ok()) {
      CountSent(env(), answer_);
      ending_.sent_bytes = answer_.Length();
      if (executed_ < absl::InfiniteFuture()) {
        const absl::Time encoded = SteadyNow();
        env().engine.metrics().execute.Observe(encoded - executed_, Phase::kEncode);
        parts().Set(Part::kEncode, executed_, encoded);
      }
    }
    FinishWith(*this, arrival_, ending_, status);
  }

 private:
  static constexpr uint64_t kSmallAnswer = 4096;

  absl::Status Pay(const grpc::ByteBuffer& bytes) {
    KILN_RETURN_IF_ERROR(admitted_.status());
    Account* const account = control_.account = admitted_->account();
    ending_.account = account;
    KILN_ASSIGN_OR_RETURN(session_, SessionOf(*admitted_));
    control_.flow = FlowOf(*admitted_, session_);
    KILN_RETURN_IF_ERROR(CheckNeeds(kNeeds<Request>, env(), session_.get(), control_));
    KILN_RETURN_IF_ERROR(PayForUpload(account, bytes));
    KILN_ASSIGN_OR_RETURN(request_charge_, Hold(account, Quota::kHostBytes, bytes.Length()));
    // Room for an answer that names what the call has made: it is too late to refuse that.
    KILN_ASSIGN_OR_RETURN(answer_charge_, Hold(account, Quota::kHostBytes, kSmallAnswer));
    return absl::OkStatus();
  }

  void Run(const grpc::ByteBuffer& bytes, void (*body)(UnaryCall&)) {
    if (absl::Status status = Read(bytes); !status.ok()) return Reply(std::move(status));
    body(*this);
  }

  // One that has been cancelled while it waited is not read, and one that is cancelled now not to its end.
  absl::Status Read(const grpc::ByteBuffer& bytes) {
    absl::Status read = control_.Check();
    if (read.ok()) read = Decode(bytes, LimitsOf(env()), request_, control_);
    CountEnded(env().engine.metrics(), read, Place::kDecode);
    KILN_RETURN_IF_ERROR(read);
    if (control_.account == nullptr) return absl::OkStatus();
    return request_charge_.Grow(DecodedBytes(request_, bytes.Length()));
  }

  absl::Status PayForAnswer() {
    if (control_.account == nullptr) return absl::OkStatus();
    const uint64_t paid = answer_charge_.amount() + data_charge_.amount(), bytes = response_.ByteSizeLong();
    if (bytes <= paid) return absl::OkStatus();
    // What was asked for has been done: nobody is to come again.
    return WithDetail(answer_charge_.Grow(bytes - paid),
                      [](v1::ErrorDetail& detail) { detail.clear_retry_after_ms(); });
  }

  void OnCancel() override { cancelled_.store(true, std::memory_order_relaxed); }
  void OnEnd() override {
    Gate* const refused = admitted_.ok() ? nullptr : &env().gate;
    delete this;
    if (refused != nullptr) refused->Leave();
  }

  const Arrival arrival_;
  const absl::StatusOr<Admitted> admitted_;
  grpc::ByteBuffer& answer_;
  Charge request_charge_, answer_charge_, data_charge_;  // go before the admission does
  Request request_;
  Response response_;
  SessionPtr session_;
  absl::Time executed_ = absl::InfiniteFuture();
  Ending ending_;
  std::atomic<bool> cancelled_{false};
  Control control_;
};

// Begins a call and hands it to `body`, which makes the Reply: a large one on a thread of
// env.requests.
template <typename Request, typename Response>
grpc::ServerUnaryReactor* Serve(const Arrival& arrival, Right right, const grpc::ByteBuffer& request,
                                grpc::ByteBuffer& response, void (*body)(UnaryCall<Request, Response>&)) {
  auto* call = new UnaryCall<Request, Response>(arrival, right, response);
  call->Begin(request, body);
  call->EndWithoutCaller();
  return call;
}

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_CALL_H_
