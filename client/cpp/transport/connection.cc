#include "client/cpp/transport/connection.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "client/cpp/transport/status.h"
#include "client/cpp/transport/stubs.h"

namespace kiln::client {
namespace {

constexpr size_t kMaxFreedHandles = 64;
constexpr uint64_t kMaxFreedBytes = 16 << 20;

constexpr absl::Duration kMinKeepaliveTime = absl::Seconds(20), kMaxKeepaliveTime = absl::Seconds(310);
// How long a ping may go without an answer.
constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(10);

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& target, const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  // Inline tensors may be larger than gRPC's 4 MiB; the server has limits of its own.
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  // A proxy for web pages is no way to a compute server, least of all on loopback.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A call on a connection that is dead must end, however long it has waited.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(KeepaliveTime(options.lease))));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(absl::ToInt64Milliseconds(kKeepaliveTimeout)));
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // no limit
  return grpc::CreateCustomChannel(target, ChannelCredentialsOf(options.credentials), arguments);
}

}  // namespace

absl::Duration KeepaliveTime(absl::Duration lease) {
  if (lease == absl::ZeroDuration()) return kMaxKeepaliveTime;
  return std::clamp(lease / 2, kMinKeepaliveTime, kMaxKeepaliveTime);
}

Stubs::Stubs(const std::shared_ptr<grpc::Channel>& channel)
    : kernels(v1::KernelService::NewStub(channel)),
      buffers(v1::BufferService::NewStub(channel)),
      devices(v1::DeviceService::NewStub(channel)),
      collectives(v1::CollectiveService::NewStub(channel)),
      sessions(v1::SessionService::NewStub(channel)),
      health(grpc::health::v1::Health::NewStub(channel)),
      raw(std::make_unique<grpc::GenericStub>(channel)) {}

Connection::Connection(std::string target, ClientOptions options)
    : target_(std::move(target)),
      options_(std::move(options)),
      bearer_(options_.credentials),
      retries_(options_.retries, std::random_device()()),
      channel_(OpenChannel(target_, options_)),
      stubs_(std::make_unique<const Stubs>(channel_)) {}

Connection::~Connection() { FlushFrees(); }

absl::Status Connection::BeginSession(absl::Time deadline) {
  session_ = std::make_unique<Session>(*this, options_.lease);
  const absl::Status begun = session_->Begin(deadline);
  if (!begun.ok()) session_.reset();
  return begun;
}

absl::Status Connection::WaitUntilReady(absl::Duration patience) {
  const auto deadline = absl::ToChronoTime(absl::Now() + patience);
  if (channel_->WaitForConnected(deadline)) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("no server answers at ", target_, " within ",
                                             absl::FormatDuration(patience), "; is kilnd running there?"));
}

bool Connection::IsReachable(absl::Duration timeout) {
  return channel_->WaitForConnected(absl::ToChronoTime(absl::Now() + timeout));
}

std::string Connection::Authorize(grpc::ClientContext& context) const {
  std::string bearer = bearer_.Value();
  if (!bearer.empty()) context.AddMetadata("authorization", bearer);
  return bearer;
}

void Connection::Prepare(grpc::ClientContext& context) const { Prepare(context, Deadline()); }

void Connection::Prepare(grpc::ClientContext& context, absl::Time deadline, bool under_session) const {
  Authorize(context);
  if (under_session && session_ != nullptr) context.AddMetadata(kSessionHeader, session_->token());
  if (deadline != absl::InfiniteFuture()) context.set_deadline(absl::ToChronoTime(deadline));
}

void Connection::Count(const char* name, uint64_t calls, uint64_t sent, uint64_t received) {
  absl::MutexLock lock(&mutex_);
  Traffic& traffic = traffic_[name];
  traffic.calls += calls;
  traffic.sent_bytes += sent;
  traffic.received_bytes += received;
}

absl::Status Connection::Convert(const grpc::Status& status) const {
  absl::Status result = FromGrpc(status);
  // A server that is stopping says so itself; without a detail, nobody answered.
  if (absl::IsUnavailable(result) && !DetailOf(result).has_value()) {
    result = Annotate(result, absl::StrCat("the server at ", target_, " does not answer"));
  }
  if (session_ != nullptr) session_->Heed(result);
  return result;
}

void Connection::FreeLater(uint64_t handle, uint64_t bytes) {
  bool full = false;
  {
    absl::MutexLock lock(&mutex_);
    freed_.push_back(handle);
    freed_bytes_ += bytes;
    full = freed_.size() >= kMaxFreedHandles || freed_bytes_ >= kMaxFreedBytes;
  }
  if (full) FlushFrees();
}

// A failure here is not reported: the handles end with the session at the latest.
void Connection::FlushFrees() {
  v1::FreeRequest request;
  {
    absl::MutexLock lock(&mutex_);
    request.mutable_handle()->Add(freed_.begin(), freed_.end());
    freed_.clear();
    freed_bytes_ = 0;
  }
  if (request.handle_size() == 0) return;
  const auto free = [this](const v1::FreeRequest& some) {
    v1::FreeResponse response;
    return Call(*this, stubs_->buffers, &v1::BufferService::Stub::Free, "Free", some, &response);
  };
  // Of handles among which one is unknown, such as one of a session that is gone, the server frees none.
  if (!absl::IsNotFound(free(request)) || request.handle_size() == 1) return;
  for (const uint64_t handle : request.handle()) {
    v1::FreeRequest one;
    one.add_handle(handle);
    free(one).IgnoreError();
  }
}

std::map<std::string, Traffic> Connection::traffic() const {
  absl::MutexLock lock(&mutex_);
  return traffic_;
}

}  // namespace kiln::client
