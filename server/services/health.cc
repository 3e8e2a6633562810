#include "server/services/health.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "server/engine/memory/over_limit.h"
#include "server/messages/status.h"
#include "server/services/requests/codec.h"

namespace kiln::server {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// Of a request that anybody may have sent.
absl::StatusOr<std::string> NameOf(const grpc::ByteBuffer& bytes) {
  KILN_RETURN_IF_ERROR(CheckSmall(bytes));
  HealthCheckRequest request;
  KILN_RETURN_IF_ERROR(Decode(bytes, RequestLimits{.nodes = 16}, request));
  if (request.service().size() <= HealthService::kMaxName) return request.service();
  return MakeError(v1::BAD_ARGUMENT, absl::StrCat("a service's name has at most ", HealthService::kMaxName, " bytes"));
}

void Write(HealthCheckResponse::ServingStatus status, grpc::ByteBuffer& bytes) {
  HealthCheckResponse response;
  response.set_status(status);
  static_cast<void>(Encode(response, bytes).ok());  // small: it can always be encoded
}

}  // namespace

std::string AddressOfPeer(absl::string_view peer) {
  if (absl::StartsWith(peer, "unix")) return "unix";
  return std::string(peer.substr(0, peer.rfind(':')));
}

// A Watch. The service's lock guards it: gRPC calls back on threads of its own, and never from within StartWrite or
// Finish.
class HealthService::Watch final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  Watch(HealthService& health, absl::string_view peer) : health_(health), address_(AddressOfPeer(peer)) {}

  void Begin(const grpc::ByteBuffer& bytes) {
    absl::StatusOr<std::string> name = NameOf(bytes);
    absl::MutexLock lock(&health_.mutex_);
    const absl::Status status = name.ok() ? Add() : name.status();
    if (!status.ok()) return End(ToGrpc(status));
    name_ = *std::move(name);
    Tell();
  }

  // Tell, for who holds the lock by another name.
  void Hear() {
    health_.mutex_.AssertHeld();
    Tell();
  }

  // Unless it knows.
  void Tell() ABSL_EXCLUSIVE_LOCKS_REQUIRED(health_.mutex_) {
    const Status status = health_.StatusOf(name_);
    if (writing_ || ending_.has_value() || told_ == status) return;
    told_ = status;
    writing_ = true;
    Write(status, message_);
    StartWrite(&message_);
  }

 private:
  absl::Status Add() ABSL_EXCLUSIVE_LOCKS_REQUIRED(health_.mutex_) {
    if (health_.watches_.size() >= kWatches) return TooMany(kWatches, "all callers");
    size_t& of_address = health_.of_address_[address_];
    if (of_address >= kWatchesOfAddress) return TooMany(kWatchesOfAddress, "one address");
    ++of_address;
    health_.watches_.insert(this);
    return absl::OkStatus();
  }

  static absl::Status TooMany(size_t limit, absl::string_view whose) {
    return OverLimit("health watches", limit, limit + 1,
                     absl::StrCat(whose, " may have ", limit, " watches of the server's health; ask with Check"));
  }

  // Once what is being written is.
  void End(grpc::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(health_.mutex_) {
    if (ending_.has_value()) return;
    ending_ = std::move(status);
    if (!writing_) Finish(*ending_);
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&health_.mutex_);
    writing_ = false;
    if (ending_.has_value()) return Finish(*ending_);
    if (!ok) return End(grpc::Status::CANCELLED);
    Tell();
  }

  void OnCancel() override {
    absl::MutexLock lock(&health_.mutex_);
    End(grpc::Status::CANCELLED);
  }

  void OnDone() override {
    {
      absl::MutexLock lock(&health_.mutex_);
      if (health_.watches_.erase(this) == 1) {
        const auto of_address = health_.of_address_.find(address_);
        if (--of_address->second == 0) health_.of_address_.erase(of_address);
      }
    }
    delete this;
  }

  HealthService& health_;
  const std::string address_;
  std::string name_ ABSL_GUARDED_BY(health_.mutex_);
  bool writing_ ABSL_GUARDED_BY(health_.mutex_) = false;
  std::optional<Status> told_ ABSL_GUARDED_BY(health_.mutex_);
  std::optional<grpc::Status> ending_ ABSL_GUARDED_BY(health_.mutex_);
  grpc::ByteBuffer message_;  // while writing_, gRPC's
};

// What gRPC calls: as bytes, so that their size is looked at before they are decoded.
class HealthService::Rpcs final
    : public Health::WithRawCallbackMethod_Check<Health::WithRawCallbackMethod_Watch<Health::Service>> {
 public:
  explicit Rpcs(HealthService& health) : health_(health) {}

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    const absl::StatusOr<std::string> name = NameOf(*request);
    if (!name.ok()) {
      reactor->Finish(ToGrpc(name.status()));
      return reactor;
    }
    Status status;
    {
      absl::MutexLock lock(&health_.mutex_);
      status = health_.StatusOf(*name);
    }
    if (status != HealthCheckResponse::SERVICE_UNKNOWN) Write(status, *response);
    reactor->Finish(status == HealthCheckResponse::SERVICE_UNKNOWN
                        ? grpc::Status(grpc::StatusCode::NOT_FOUND, "neither the server nor a device has this name")
                        : grpc::Status::OK);
    return reactor;
  }

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Watch(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request) override {
    auto* watch = new HealthService::Watch(health_, context->peer());
    watch->Begin(*request);
    return watch;
  }

 private:
  HealthService& health_;
};

HealthService::HealthService() : service_(std::make_unique<Rpcs>(*this)) {
  absl::MutexLock lock(&mutex_);
  serving_[""] = true;
}

HealthService::~HealthService() = default;

void HealthService::SetServingStatus(const std::string& name, bool serving) {
  absl::MutexLock lock(&mutex_);
  serving_[name] = serving;
  TellAll();
}

void HealthService::SetServingStatus(bool serving) {
  absl::MutexLock lock(&mutex_);
  for (auto& [name, status] : serving_) status = serving;
  TellAll();
}

void HealthService::Shutdown() {
  absl::MutexLock lock(&mutex_);
  shut_ = true;
  TellAll();
}

HealthService::Status HealthService::StatusOf(const std::string& name) const {
  const auto found = serving_.find(name);
  if (found == serving_.end()) return HealthCheckResponse::SERVICE_UNKNOWN;
  return found->second && !shut_ ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

void HealthService::TellAll() {
  for (Watch* watch : watches_) watch->Hear();
}

}  // namespace kiln::server
