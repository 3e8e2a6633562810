#include "tests/bench/load/idle_clients.h"

#include <cstdio>

#include "absl/synchronization/mutex.h"
#include "base/check.h"
#include "kiln/v1/kernel_service.grpc.pb.h"
#include "kiln/v1/session_service.grpc.pb.h"
#include "tests/bench/bench_server.h"

namespace kiln::bench {
namespace {

// Calls under way, at most so many at once; a failure ends the process.
class Several {
 public:
  void Begin() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &Several::HasRoom));
    ++under_way_;
  }
  void End(const grpc::Status& status) {
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.error_message().c_str());
    KILN_CHECK(status.ok());
    absl::MutexLock lock(&mutex_);
    --under_way_;
  }
  void Wait() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &Several::None));
  }

 private:
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return under_way_ < 64; }
  bool None() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return under_way_ == 0; }
  absl::Mutex mutex_;
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

class IdleClient : private grpc::ClientBidiReactor<v1::SubmitRequest, v1::SubmitResponse> {
 public:
  explicit IdleClient(const std::string& address)
      : channel_(ChannelTo(address)),
        kernels_(v1::KernelService::NewStub(channel_)),
        sessions_(v1::SessionService::NewStub(channel_)) {
    channel_->GetState(/*try_to_connect=*/true);
  }

  void AwaitConnection() {
    KILN_CHECK(channel_->WaitForConnected(std::chrono::system_clock::now() + std::chrono::minutes(1)));
  }
  void OpenSession(Several& several) {
    several.Begin();
    opening_.set_lease_seconds(3600);
    sessions_->async()->Open(&opening_context_, &opening_, &session_, [&](const grpc::Status& s) { several.End(s); });
  }
  // Under the session; returns before the server has welcomed it.
  void OpenStream(Several& several) {
    several.Begin();
    welcomed_ = &several;
    hello_.mutable_hello()->set_session_token(session_.token());
    kernels_->async()->Submit(&stream_context_, this);
    StartRead(&welcome_);
    StartWrite(&hello_);
    AddHold();
    StartCall();
  }
  void Cancel() { stream_context_.TryCancel(); }
  void AwaitEnd() {
    if (welcomed_ == nullptr) return;
    RemoveHold();
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&ended_));
  }

 private:
  void OnReadDone(bool ok) override {
    welcomed_->End(ok && welcome_.has_welcome() ? grpc::Status::OK
                                                : grpc::Status(grpc::StatusCode::UNAVAILABLE, "no welcome"));
  }
  void OnDone(const grpc::Status&) override {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
  }

  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::KernelService::Stub> kernels_;
  const std::unique_ptr<v1::SessionService::Stub> sessions_;
  grpc::ClientContext opening_context_, stream_context_;
  v1::OpenSessionRequest opening_;
  v1::OpenSessionResponse session_;
  v1::SubmitRequest hello_;
  v1::SubmitResponse welcome_;
  Several* welcomed_ = nullptr;
  absl::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

IdleClients::IdleClients(const std::string& address) : address_(address) {}

IdleClients::~IdleClients() {
  for (const auto& client : clients_) client->Cancel();
  for (const auto& client : clients_) client->AwaitEnd();
}

void IdleClients::Connect(uint64_t clients) {
  // Not more at once than a listening socket takes.
  constexpr uint64_t kAtOnce = 64;
  for (uint64_t i = 0; i < clients; ++i) {
    clients_.push_back(std::make_unique<IdleClient>(address_));
    if (i >= kAtOnce) clients_[i - kAtOnce]->AwaitConnection();
  }
  for (const auto& client : clients_) client->AwaitConnection();
}

void IdleClients::OpenSessions() {
  Several several;
  for (const auto& client : clients_) client->OpenSession(several);
  several.Wait();
}

void IdleClients::OpenStreams() {
  Several several;
  for (const auto& client : clients_) client->OpenStream(several);
  several.Wait();
}

}  // namespace kiln::bench
