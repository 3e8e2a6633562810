// KernelService.Submit: a stream of commands and the connection it comes by.
#include <grpcpp/alarm.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/graph/graph_hash.h"
#include "kiln/v1/kernel_service.pb.h"
#include "server/messages/status.h"
#include "server/services/features.h"
#include "server/services/rpcs.h"
#include "server/stream/command_stream.h"

namespace kiln::server {
namespace {

// What a command takes beside what it brings.
constexpr uint64_t kCommandBytes = 768;

// Not as long as a tenant may have to wait: a server that stops waits for this.
constexpr absl::Duration kLongestWait = absl::Milliseconds(100);

// One connection. At most one read and one write are under way; a read is started only
// while the stream has room, so that HTTP/2's flow control holds the client back. All
// of gRPC's Start calls and its Finish are made under the lock, none after Finish; gRPC
// calls back from threads of its own.
//
// A large message is taken on a thread of the request pool. Until that has been, nothing more is
// read, so that commands keep their order; and there is no Finish, since soon after that what
// gRPC has of the call is gone.
class SubmitCall final : public StreamReactor, public Outlet, public Gate::Watcher {
 public:
  explicit SubmitCall(Admitted admitted)
      : admitted_(std::make_shared<const Admitted>(std::move(admitted))),
        env_(admitted_->env()),
        context_(admitted_->context()),
        deadline_(DeadlineOf(context_)) {}

  void Start(std::shared_ptr<SubmitCall> self) {
    self_ = std::move(self);
    {
      absl::MutexLock lock(&mutex_);
      reading_ = true;
      StartRead(&incoming_);
    }
    env_.gate.Watch(self_);
  }

  void Wake() override {
    bool taken = false;
    {
      absl::MutexLock lock(&mutex_);
      if (stream_ == nullptr || ended_) return;
      ReadMore();
      taken = WriteNext();
    }
    if (taken) stream_->Continue();
  }

  void OnClosing() override { Refuse(ShuttingDown()); }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) {
      {
        absl::MutexLock lock(&mutex_);
        reading_ = false;
        no_more_ = true;
      }
      return Refuse(absl::OkStatus());
    }
    CountReceived(*admitted_, incoming_);
    auto command = std::make_unique<Command>();
    command->arrived = SteadyNow();
    command->method = static_cast<uint16_t>(admitted_->arrival().method.number);
    command->trace = env_.engine.traces().BeginCommand(admitted_->arrival().trace);
    command->payload_bytes = incoming_.Length() + kCommandBytes;
    // Before it waits: what waits counts, too.
    absl::Status paid = Pay(*command);
    if (!paid.ok() || incoming_.Length() <= kSmallRequest) return TakeMessage(std::move(command), std::move(paid));
    {
      absl::MutexLock lock(&mutex_);
      if (ended_) return;
      ++elsewhere_;
    }
    // The server waits for whoever holds an admission.
    env_.requests.Push(CallerOf(*admitted_),
                       [self = self_, admitted = admitted_, command = std::move(command)]() mutable {
                         self->TakeMessage(std::move(command), absl::OkStatus());
                         self->Return();
                         self.reset();
                         admitted.reset();
                       });
  }

  // What has come last, if it is paid for; then reads on.
  void TakeMessage(std::unique_ptr<Command> command, absl::Status status) {
    if (absl::MutexLock lock(&mutex_); ended_ || cancelled_) return;
    const Control here = {.cancelled = &gone_};
    if (status.ok()) status = Decode(incoming_, LimitsOf(env_), command->request, here);
    if (status.ok() && incoming_.Length() > kSmallRequest) Hash(*command, here);
    // As one that comes too late.
    if (gone_.load(std::memory_order_relaxed)) return;
    command->parts.Set(Part::kDecode, command->arrived, SteadyNow());
    if (status.ok() && admitted_->account() != nullptr) {
      status = command->payload.Grow(DecodedBytes(command->request, incoming_.Length()));
    }
    incoming_.Clear();
    if (status.ok()) status = Take(std::move(command));
    if (!status.ok()) Refuse(std::move(status));
    absl::MutexLock lock(&mutex_);
    reading_ = false;
    if (!ended_) ReadMore();
  }

  // The engine says what is wrong with a graph that has no hash, or is too large for one.
  void Hash(Command& command, const Control& control) const {
    const v1::SubmitRequest& request = command.request;
    const v1::Graph* const graph = request.has_execute() && request.execute().request().has_graph()
                                       ? &request.execute().request().graph()
                                   : request.has_compile() ? &request.compile().graph()
                                                           : nullptr;
    const compiler::Limits& limits = env_.engine.limits();
    if (graph == nullptr || static_cast<uint64_t>(graph->nodes_size()) > limits.max_nodes ||
        graph->ByteSizeLong() > limits.max_bytes)
      return;
    const auto hash = HashGraph(*graph, [&control] { return control.Check(); });
    if (hash.ok()) command.hashed = *hash;
  }

  // The pool's thread is done with the message.
  void Return() {
    absl::MutexLock lock(&mutex_);
    if (--elsewhere_ == 0 && ended_) FinishWith(*this, *admitted_, end_);
  }

  // A stream that asks for more than its tenant may have ends with QUOTA_EXCEEDED, once all before
  // that is answered; of what passes it owes, and is read on later (MustWait).
  absl::Status Pay(Command& command) {
    Account* const account = admitted_->account();
    Owe(account, Quota::kRequests, 1);
    Owe(account, Quota::kUploadBytes, static_cast<double>(incoming_.Length()));
    KILN_ASSIGN_OR_RETURN(command.payload, Hold(account, Quota::kHostBytes, command.payload_bytes));
    // All but the hello, which comes before there is a stream. Set by this very chain of calls.
    if (stream_ == nullptr) return absl::OkStatus();
    KILN_ASSIGN_OR_RETURN(command.in_flight, Hold(account, Quota::kInFlight, 1));
    return absl::OkStatus();
  }

  absl::Status Take(std::unique_ptr<Command> command) {
    // Set by this very chain of calls.
    CommandStream* const stream = stream_.get();
    const bool hello = command->request.has_hello();
    if (stream == nullptr && !hello) return OutOfOrder("a stream begins with a hello");
    if (stream != nullptr && hello) return OutOfOrder("a second hello");
    if (hello) return Open(command->request);
    stream->Accept(this, std::move(command), admitted_);
    return absl::OkStatus();
  }

  absl::Status Open(const v1::SubmitRequest& request) {
    const v1::SubmitHello& hello = request.hello();
    if (hello.protocol_min() > kProtocolVersion ||
        (hello.protocol_max() != 0 && hello.protocol_max() < kProtocolVersion)) {
      v1::ErrorDetail detail;
      detail.set_code(v1::NOT_IMPLEMENTED);
      detail.set_field("SubmitHello.protocol_min");
      return MakeError(detail, absl::StrCat("this server speaks protocol ", kProtocolVersion));
    }
    KILN_ASSIGN_OR_RETURN(stream_charge_, Hold(admitted_->account(), Quota::kStreams, 1));
    token_ = hello.session_token();
    const auto& metadata = context_.client_metadata();
    const auto header = metadata.find(kSessionHeader);
    const bool with_session = !token_.empty() || header != metadata.end();
    if (token_.empty() && with_session) token_.assign(header->second.data(), header->second.size());
    KILN_ASSIGN_OR_RETURN(const auto stream, with_session ? Resume() : Fresh());
    KILN_RETURN_IF_ERROR(CheckInForce(*admitted_));
    const CommandStream::Resumed resumed = stream->Connect(self_, request.acknowledged());
    v1::SubmitResponse response;
    response.set_command_id(request.command_id());
    v1::SubmitWelcome& welcome = *response.mutable_welcome();
    welcome.set_protocol(kProtocolVersion);
    for (const char* feature : FeaturesOf(env_)) welcome.add_features(feature);
    welcome.set_accepted(resumed.accepted);
    welcome.set_answers_lost(resumed.answers_lost);
    absl::MutexLock lock(&mutex_);
    stream_ = stream;
    if (!ended_) Send(response);
    return absl::OkStatus();
  }

  absl::StatusOr<std::shared_ptr<CommandStream>> Fresh() {
    const SessionPtr session = env_.engine.sessions().Apart(admitted_->tenant_name());
    auto stream = std::make_shared<CommandStream>(env_.engine, session, /*resumable=*/false, deadline_);
    session->ServeStream(stream);
    return stream;
  }

  absl::StatusOr<std::shared_ptr<CommandStream>> Resume() {
    KILN_ASSIGN_OR_RETURN(session_, env_.engine.sessions().Attach(token_, admitted_->tenant_name()));
    // A session's only streams are these.
    auto stream = std::static_pointer_cast<CommandStream>(session_->Stream(
        [this] { return std::make_shared<CommandStream>(env_.engine, session_, /*resumable=*/true, deadline_); }));
    if (stream == nullptr) return ExpiredSession();
    return stream;
  }

  // No more is taken: answers what was, then ends with `status`.
  void Refuse(absl::Status status) {
    std::shared_ptr<CommandStream> stream;
    {
      absl::MutexLock lock(&mutex_);
      no_more_ = true;
      stream = stream_;
      if (stream == nullptr && !ended_) End(status);
    }
    if (stream != nullptr) stream->Close(this, std::move(status));
  }

  void OnWriteDone(bool ok) override {
    bool taken = false;
    {
      absl::MutexLock lock(&mutex_);
      writing_ = false;
      sending_.reset();
      if (ended_) return;
      if (!ok || cancelled_) return End(MakeError(v1::CALL_CANCELLED, "the connection is gone"));
      taken = WriteNext();
      ReadMore();
    }
    if (taken) stream_->Continue();
  }

  void OnCancel() override {
    gone_.store(true, std::memory_order_relaxed);
    std::shared_ptr<CommandStream> stream;
    {
      absl::MutexLock lock(&mutex_);
      cancelled_ = true;
      if (!ended_ && !writing_) End(MakeError(v1::CALL_CANCELLED, "the connection is gone"));
      stream = stream_;
    }
    if (stream != nullptr) stream->Disconnect(this);
  }

  void OnEnd() override {
    if (stream_ != nullptr) stream_->Disconnect(this);
    if (session_ != nullptr) env_.engine.sessions().Detach(token_, *session_);
    {
      absl::MutexLock lock(&mutex_);
      sending_.reset();
    }
    stream_charge_.Release();
    admitted_.reset();
    self_.reset();  // and with it, perhaps, this
  }

  void ReadMore() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (reading_ || no_more_ || stream_ == nullptr || !stream_->HasRoom(this) || MustWait()) return;
    reading_ = true;
    StartRead(&incoming_);
  }

  // Whether what the tenant has sent in the last second is all that it may; then the stream is
  // woken when that has drained away.
  bool MustWait() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const Account* const account = admitted_->account();
    if (account == nullptr) return false;
    if (waiting_) return true;
    const absl::Duration wait = std::max(account->Wait(Quota::kRequests), account->Wait(Quota::kUploadBytes));
    if (wait <= absl::ZeroDuration()) return false;
    waiting_ = true;
    alarm_ = std::make_unique<grpc::Alarm>();
    // The server waits for whoever holds an admission.
    alarm_->Set(absl::ToChronoTime(absl::Now() + std::min(wait, kLongestWait)),
                [self = self_, admitted = admitted_](bool) mutable {
                  {
                    absl::MutexLock lock(&self->mutex_);
                    self->waiting_ = false;
                  }
                  self->Wake();
                  self.reset();
                  admitted.reset();
                });
    return true;
  }

  // Whether an answer was taken from the stream.
  bool WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_) return false;
    CommandStream::Event event = stream_->Next(this);
    if (event.end.has_value()) {
      End(*event.end);
      return false;
    }
    if (event.answer == nullptr) return false;
    const Answer& answer = *event.answer;
    if (admitted_->account() != nullptr) sending_ = event.answer;
    if (answer.failure.ok()) {
      Send(answer.message);
    } else {
      v1::SubmitResponse response = answer.message;
      response.mutable_failed()->set_status(ToGrpc(answer.failure).error_details());
      Send(response);
    }
    return true;
  }

  void Send(const v1::SubmitResponse& response) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    outgoing_.Clear();
    const absl::Status encoded = Encode(response, outgoing_);
    if (!encoded.ok()) return End(encoded);
    writing_ = true;
    CountSent(*admitted_, outgoing_);
    StartWrite(&outgoing_);
  }

  void End(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ended_ = true;
    end_ = status;
    if (elsewhere_ == 0) FinishWith(*this, *admitted_, status);
  }

  // Of the call, and of its commands that are under way.
  std::shared_ptr<const Admitted> admitted_;
  const ServiceEnv& env_;
  const grpc::CallbackServerContext& context_;
  const absl::Time deadline_;
  std::shared_ptr<SubmitCall> self_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
  std::string token_;
  SessionPtr session_;
  Charge stream_charge_;
  // The connection: then what is being read is read no further.
  std::atomic<bool> gone_{false};

  absl::Mutex mutex_;
  // Set once.
  std::shared_ptr<CommandStream> stream_;
  // On its way to a client that has a quota, of which it takes some.
  AnswerPtr sending_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mutex_);
  bool waiting_ ABSL_GUARDED_BY(mutex_) = false;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool no_more_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  // Messages that the pool has. One whose commands are taken may still be with its thread when the next comes: the
  // call ends with the last of them.
  int elsewhere_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

StreamReactor* rpc::KernelService::Submit(Admitted admitted) {
  auto call = std::make_shared<SubmitCall>(std::move(admitted));
  SubmitCall* const reactor = call.get();
  reactor->Start(std::move(call));
  return reactor;
}

}  // namespace kiln::server
