// What every unary call has in common: admission, decoding, deadline and
// cancellation, the answer.
//
// Services take calls as bytes and decode them here, so that a message that is
// no message is the client's fault (MALFORMED_MESSAGE) like any other. Tested by tests/e2e.
#ifndef KILN_SERVER_SERVICES_CALL_H_
#define KILN_SERVER_SERVICES_CALL_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/account.h"
#include "base/error.h"
#include "server/engine/memory/session.h"
#include "server/engine/programs/program_store.h"
#include "server/services/admission.h"
#include "server/services/codec.h"
#include "server/services/env.h"

namespace kiln::server {

inline RequestLimits LimitsOf(const ServiceEnv& env) { return {.nodes = env.engine.limits().max_nodes}; }

// Until when a call is wanted, as gRPC knows it.
inline absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  return absl::FromChrono(context.deadline());
}

// The session under which a call is made. Without kSessionHeader that of its tenant, or null
// if there is none; UnknownSession() if the tenant has none with its token.
absl::StatusOr<SessionPtr> SessionOf(const Admitted& admitted);

// As in LaunchControl: that of the session which the call names, else of its connection.
uint64_t FlowOf(const Admitted& admitted, const SessionPtr& session);

// Of the account's upload_bytes_per_second, what a request brings that is more than names and
// numbers: who may send no more for a while can still free, and look.
inline absl::Status PayForUpload(Account* account, const grpc::ByteBuffer& bytes) {
  constexpr size_t kNamesAndNumbers = 4096;
  if (bytes.Length() <= kNamesAndNumbers) return absl::OkStatus();
  return Spend(account, Quota::kUploadBytes, static_cast<double>(bytes.Length()));
}

// What is our own fault is logged: it is for us to read about, too.
grpc::Status ToGrpcAndLog(const ServiceEnv& env, const absl::Status& status);

// Ends a call of any kind.
template <typename Reactor>
void FinishWith(Reactor& reactor, const ServiceEnv& env, const absl::Status& status) {
  reactor.Finish(ToGrpcAndLog(env, status));
}

// Lives until gRPC is done with the call. Reply is called exactly once, from any
// thread; nothing of the call may be touched after it.
template <typename Request, typename Response>
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  UnaryCall(const ServiceEnv& env, const grpc::CallbackServerContext& context, Right right, grpc::ByteBuffer& answer)
      : begin_(absl::Now()), env_(env), context_(context), admitted_(Admit(env, context, right)), answer_(answer) {
    control_.cancelled = &cancelled_;
    control_.deadline = DeadlineOf(context);
  }

  // OK if the call may go on, with `request` filled in.
  absl::Status Accept(const grpc::ByteBuffer& bytes) {
    KILN_RETURN_IF_ERROR(admitted_.status());
    Account* const account = control_.account = admitted_->account();
    KILN_ASSIGN_OR_RETURN(session_, SessionOf(*admitted_));
    control_.flow = FlowOf(*admitted_, session_);
    KILN_RETURN_IF_ERROR(PayForUpload(account, bytes));
    KILN_ASSIGN_OR_RETURN(request_charge_, Hold(account, Quota::kHostBytes, bytes.Length()));
    // Room for an answer that names what the call has made: it is too late to refuse that.
    KILN_ASSIGN_OR_RETURN(answer_charge_, Hold(account, Quota::kHostBytes, kSmallAnswer));
    KILN_RETURN_IF_ERROR(Decode(bytes, LimitsOf(env_), request_));
    if (account != nullptr) KILN_RETURN_IF_ERROR(request_charge_.Grow(DecodedBytes(request_, bytes.Length())));
    return control_.Check();
  }

  const ServiceEnv& env() const { return env_; }
  const grpc::CallbackServerContext& context() const { return context_; }
  const Request& request() const { return request_; }
  Response& response() { return response_; }
  const Control& control() const { return control_; }
  const SessionPtr& session() const { return session_; }
  // Null where the server does not want to know.
  const TenantPtr& tenant() const { return admitted_->tenant(); }
  absl::string_view tenant_name() const { return admitted_->tenant_name(); }
  absl::Time begin() const { return begin_; }

  // Of the answer: kept until the client has it.
  void Keep(Charge charge) { data_charge_ = std::move(charge); }

  void Reply(absl::Status status) {
    if (status.ok()) status = PayForAnswer();
    if (status.ok()) status = Encode(response_, answer_);
    FinishWith(*this, env_, status);
  }

 private:
  static constexpr uint64_t kSmallAnswer = 4096;

  absl::Status PayForAnswer() {
    if (control_.account == nullptr) return absl::OkStatus();
    const uint64_t paid = answer_charge_.amount() + data_charge_.amount(), bytes = response_.ByteSizeLong();
    return bytes <= paid ? absl::OkStatus() : answer_charge_.Grow(bytes - paid);
  }

  void OnCancel() override { cancelled_.store(true, std::memory_order_relaxed); }
  void OnDone() override { delete this; }

  const absl::Time begin_;
  const ServiceEnv& env_;
  const grpc::CallbackServerContext& context_;
  const absl::StatusOr<Admitted> admitted_;
  grpc::ByteBuffer& answer_;
  Charge request_charge_, answer_charge_, data_charge_;  // go before the admission does
  Request request_;
  Response response_;
  SessionPtr session_;
  std::atomic<bool> cancelled_{false};
  Control control_;
};

// Begins a call and hands it to `body`, which makes the Reply.
template <typename Request, typename Response>
grpc::ServerUnaryReactor* Serve(const ServiceEnv& env, const grpc::CallbackServerContext& context, Right right,
                                const grpc::ByteBuffer& request, grpc::ByteBuffer& response,
                                void (*body)(UnaryCall<Request, Response>&)) {
  auto* call = new UnaryCall<Request, Response>(env, context, right, response);
  if (absl::Status status = call->Accept(request); status.ok()) {
    body(*call);
  } else {
    call->Reply(std::move(status));
  }
  return call;
}

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_CALL_H_
