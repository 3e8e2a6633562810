#include "client/load/sender.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "client/cpp/transport/status.h"

namespace kiln::load {
namespace {

using Clock = std::chrono::steady_clock;

// In a row, before other classes have their turn.
constexpr int kMaxInARow = 16;

// By the number of grpc::StatusCode.
constexpr const char* kStatusNames[] = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

std::string KindOf(const grpc::Status& status) {
  const auto code = static_cast<size_t>(status.error_code());
  const char* name = code < std::size(kStatusNames) ? kStatusNames[code] : "UNKNOWN";
  const auto detail = DetailOf(client::FromGrpc(status));
  return detail.has_value() ? absl::StrCat(name, " ", v1::ErrorCode_Name(detail->code())) : name;
}

}  // namespace

void Answers::Sent() {
  absl::MutexLock lock(&mutex_);
  ++under_way_;
}

void Answers::Came(bool room) {
  absl::MutexLock lock(&mutex_);
  --under_way_;
  room_ = room_ || room;
}

void Answers::Stop() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
}

bool Answers::stopped() const {
  absl::MutexLock lock(&mutex_);
  return stopped_;
}

void Answers::Wait(absl::Duration most) {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(this, &Answers::Changed), most);
  room_ = false;
}

bool Answers::WaitForAll(absl::Duration most) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(this, &Answers::NoneUnderWay), most);
}

absl::StatusOr<std::unique_ptr<Generator::Tenant>> Generator::Tenant::Connect(const std::string& server,
                                                                              const client::ClientOptions& options,
                                                                              const TenantSpec& spec) {
  client::ClientOptions own = options;
  if (!spec.token_file.empty()) {
    own.credentials.token.clear();
    own.credentials.token_file = spec.token_file;
  }
  auto tenant = std::make_unique<Tenant>(spec, own.credentials);
  KILN_ASSIGN_OR_RETURN(tenant->client, client::Client::Connect(server, own));
  for (uint64_t i = 0; i < spec.connections; ++i) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    // Else gRPC would have all channels share one connection.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto channel = grpc::CreateCustomChannel(server, client::ChannelCredentialsOf(own.credentials), arguments);
    if (!channel->WaitForConnected(absl::ToChronoTime(absl::Now() + own.connect_timeout))) {
      return absl::UnavailableError(absl::StrCat("the server at ", server, " takes no more than ", i, " connections"));
    }
    tenant->stubs.push_back(std::make_unique<grpc::GenericStub>(channel));
  }
  return tenant;
}

// One request. Unary calls use no more of the reactor than its name.
class Generator::Sender::Call : private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Call(Sender* sender, uint64_t due, std::vector<grpc::ByteBuffer> messages)
      : due_ns(due),
        context(std::make_shared<grpc::ClientContext>()),
        sender_(sender),
        messages_(std::move(messages)) {}

  // It deletes itself once it is answered.
  void Start(grpc::GenericStub& stub, const char* method, bool streams) {
    if (!streams) {
      return stub.UnaryCall(context.get(), method, {}, messages_.data(), &response_,
                            [this](const grpc::Status& status) { End(status); });
    }
    stub.PrepareBidiStreamingCall(context.get(), method, {}, this);
    StartRead(&response_);
    StartWrite(messages_.data());
    StartCall();
  }

  const uint64_t due_ns;
  const Context context;

 private:
  void OnWriteDone(bool ok) override {
    if (!ok || ++written_ == messages_.size()) return;  // if not, OnDone says why
    if (written_ + 1 == messages_.size()) {
      StartWriteLast(&messages_[written_], grpc::WriteOptions());
    } else {
      StartWrite(&messages_[written_]);
    }
  }
  void OnDone(const grpc::Status& status) override { End(status); }
  void End(const grpc::Status& status) {
    Sender* const sender = sender_;
    sender->Answered(*this, status);
  }

  Sender* const sender_;
  std::vector<grpc::ByteBuffer> messages_;
  size_t written_ = 0;
  grpc::ByteBuffer response_;
};

void Generator::Sender::Begin(const Step& step, Clock::time_point begin, uint64_t warm_ns, uint64_t end_ns) {
  begin_ = begin;
  warm_ns_ = warm_ns;
  end_ns_ = end_ns;
  deadline_ns_ =
      spec_.deadline == absl::InfiniteDuration() ? 0 : static_cast<uint64_t>(absl::ToInt64Nanoseconds(spec_.deadline));
  arrivals_.emplace(spec_.rate * step.scale, spec_.spacing, seed_ + step.seed * 1'000'003);
  absl::MutexLock lock(&mutex_);
  holding_ = cancelled_ = false;
  result_ = ClassResult();
  result_.name = spec_.name;
  result_.rate = spec_.rate * step.scale;
}

bool Generator::Sender::HasRoom(uint64_t now_ns) {
  absl::MutexLock lock(&mutex_);
  // What is held back at the end stays so.
  if (calls_.size() < spec_.outstanding && !(holding_ && now_ns >= end_ns_)) return true;
  holding_ = true;
  return false;
}

uint64_t Generator::Sender::SendDue() {
  for (int sent = 0; sent < kMaxInARow;) {
    const uint64_t due = arrivals_->due_ns(), now = NowNs();
    if (due >= end_ns_) return end_ns_;
    if (due > now) {
      absl::MutexLock lock(&mutex_);
      holding_ = false;
      return due;
    }
    if (deadline_ns_ != 0 && now >= due + deadline_ns_) {
      NotSent(due, now);
    } else if (!HasRoom(now)) {
      return std::numeric_limits<uint64_t>::max();
    } else {
      Send(due, now);
      ++sent;
    }
    arrivals_->Advance();
  }
  return 0;
}

void Generator::Sender::Send(uint64_t due_ns, uint64_t now_ns) {
  auto* const call = new Call(this, due_ns, requests_.Next());
  if (const std::string bearer = tenant_->bearer.Value(); !bearer.empty()) {
    call->context->AddMetadata("authorization", bearer);
  }
  if (deadline_ns_ != 0) {
    call->context->set_deadline(std::chrono::system_clock::now() +
                                std::chrono::nanoseconds(due_ns + deadline_ns_ - now_ns));
  }
  {
    absl::MutexLock lock(&mutex_);
    calls_.emplace(call, call->context);
    if (Counts(due_ns)) {
      ++result_.due;
      ++result_.sent;
      if (holding_) {
        ++result_.held_back;
      } else {
        result_.sent_late.Add(now_ns - due_ns);
      }
    }
  }
  answers_->Sent();
  call->Start(tenant_->NextStub(), requests_.method(), requests_.streams());
}

void Generator::Sender::Count(const std::string& what, const std::string& text, uint64_t waited_ns) {
  Failures& failures = result_.failures[what];
  if (failures.count++ == 0) failures.example = text;
  result_.failed.Add(waited_ns);
}

void Generator::Sender::NotSent(uint64_t due_ns, uint64_t now_ns) {
  if (!Counts(due_ns)) return;
  absl::MutexLock lock(&mutex_);
  ++result_.due;
  ++result_.held_back;
  Count(kNotSent, absl::StrCat(spec_.outstanding, " were under way, which is the bound (outstanding=)"),
        now_ns - due_ns);
}

void Generator::Sender::Answered(Call& call, const grpc::Status& status) {
  const uint64_t waited_ns = NowNs() - call.due_ns;
  const std::string kind = status.ok() ? "" : KindOf(status);
  bool room = false;
  {
    absl::MutexLock lock(&mutex_);
    calls_.erase(&call);
    room = holding_;
    if (!Counts(call.due_ns)) {
      // It warmed up.
    } else if (status.ok()) {
      ++result_.ok;
      result_.in_deadline += deadline_ns_ == 0 || waited_ns <= deadline_ns_;
      result_.answered.Add(waited_ns);
    } else {
      Count(cancelled_ ? kNotAnswered : kind, status.error_message(), waited_ns);
    }
  }
  delete &call;
  answers_->Came(room);
}

void Generator::Sender::GiveUp(uint64_t now_ns) {
  for (; arrivals_->due_ns() < now_ns; arrivals_->Advance()) NotSent(arrivals_->due_ns(), now_ns);
  absl::MutexLock lock(&mutex_);
  holding_ = false;
}

void Generator::Sender::Cancel() {
  std::vector<Context> contexts;
  {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    for (const auto& [call, context] : calls_) contexts.push_back(context);
  }
  for (const Context& context : contexts) context->TryCancel();  // a call may be answered within this
}

ClassResult Generator::Sender::TakeResult() {
  absl::MutexLock lock(&mutex_);
  return std::move(result_);
}

}  // namespace kiln::load
