#include "server/services/device_watch.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "google/protobuf/util/message_differencer.h"
#include "kiln/v1/device_service.pb.h"
#include "server/engine/memory/over_limit.h"
#include "server/messages/convert.h"
#include "server/services/own_share.h"
#include "server/services/rpcs.h"

namespace kiln::server {
namespace {

constexpr absl::Duration kPeriod = absl::Milliseconds(200);

}  // namespace

void HidePeers(const TenantRules* rules, v1::Device& device) {
  auto& peers = *device.mutable_peers();
  peers.erase(std::remove_if(peers.begin(), peers.end(),
                             [rules](const std::string& peer) { return !Engine::MayUse(rules, peer); }),
              peers.end());
}

// One stream. gRPC's callbacks and the watching thread meet under the lock; what may
// end the watcher's life is done outside of it.
class DeviceWatch::Watcher final : public DownloadReactor {
 public:
  Watcher(DeviceWatch& watch, Admitted admitted)
      : admitted_(std::move(admitted)), watch_(watch), env_(admitted_.env()) {}

  void Begin(const grpc::ByteBuffer& bytes) {
    absl::Status status = Accept(bytes);
    if (status.ok() && !watch_.Add(this)) {
      status = OverLimit("watchers", kMaxWatchers, kMaxWatchers + 1,
                         absl::StrCat("there are ", kMaxWatchers, " watchers already"));
    }
    if (!status.ok()) End(std::move(status));
  }

  // From now on it is owed this state of its device, whatever it was owed before; unless that is what it has been told.
  void Tell(size_t index, v1::Device device) {
    const TenantRules* rules = RulesOf(session_.get());
    if (!Engine::MayUse(rules, device.name())) return;
    ShowOwnShare(admitted_.tenant(), admitted_.account(), *env_.engine.devices()[index], device);
    HidePeers(rules, device);
    {
      absl::MutexLock lock(&mutex_);
      if (told_.size() <= index) told_.resize(index + 1);
      if (google::protobuf::util::MessageDifferencer::Equals(device, told_[index])) return;
      told_[index] = device;
      if (owed_.size() <= index) owed_.resize(index + 1);
      owed_[index] = std::move(device);
    }
    WriteNext();
  }

  void End(absl::Status status) {
    {
      absl::MutexLock lock(&mutex_);
      if (ending_.has_value()) return;
      ending_ = std::move(status);
      if (writing_) return;  // OnWriteDone finishes
    }
    Finish();
  }

 private:
  absl::Status Accept(const grpc::ByteBuffer& bytes) {
    KILN_ASSIGN_OR_RETURN(session_, SessionOf(admitted_));
    if (const TenantRules* rules = RulesOf(session_.get()); rules != nullptr && rules->own != nullptr) {
      return MakeError(v1::NOT_IMPLEMENTED,
                       "watching the devices of a tenant whose programs run in a process of their own; list them");
    }
    KILN_ASSIGN_OR_RETURN(charge_, Hold(admitted_.account(), Quota::kWatchers, 1));
    v1::WatchDevicesRequest request;
    KILN_RETURN_IF_ERROR(CheckSmall(bytes));
    return Decode(bytes, LimitsOf(env_), request);
  }

  void WriteNext() {
    {
      absl::MutexLock lock(&mutex_);
      if (writing_ || ending_.has_value()) return;
      size_t next = 0;
      while (next < owed_.size() && !owed_[next].has_value()) ++next;
      if (next == owed_.size()) return;
      v1::WatchDevicesResponse response;
      *response.mutable_device() = *std::move(owed_[next]);
      owed_[next].reset();
      message_.Clear();
      static_cast<void>(Encode(response, message_).ok());  // small: it can always be encoded
      writing_ = true;
    }
    CountSent(admitted_, message_);
    StartWrite(&message_);
  }

  void OnWriteDone(bool ok) override {
    bool ended;
    {
      absl::MutexLock lock(&mutex_);
      writing_ = false;
      ended = ending_.has_value();
    }
    if (ended) return Finish();
    if (!ok) return End(MakeError(v1::CALL_CANCELLED, "the client went away"));
    WriteNext();
  }

  void OnCancel() override { End(MakeError(v1::CALL_CANCELLED, "the client went away")); }

  void OnEnd() override {
    watch_.Remove(this);
    delete this;
  }

  // Once: `ending_` is set once, and nothing is being written any more.
  void Finish() {
    absl::Status status;
    {
      absl::MutexLock lock(&mutex_);
      status = *ending_;
    }
    FinishWith(static_cast<DownloadReactor&>(*this), admitted_, status);
  }

  const Admitted admitted_;
  SessionPtr session_;
  Charge charge_;
  DeviceWatch& watch_;
  const ServiceEnv& env_;
  grpc::ByteBuffer message_;  // while writing_, gRPC's
  absl::Mutex mutex_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> ending_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::optional<v1::Device>> owed_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::Device> told_ ABSL_GUARDED_BY(mutex_);  // or owed; empty: nothing yet
};

DeviceWatch::DeviceWatch(const Engine& engine, const Gate& gate)
    : engine_(engine), gate_(gate), thread_([this] { LookUntilStopped(); }) {}

DeviceWatch::~DeviceWatch() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  bell_.Ring();
  thread_.join();
}

DownloadReactor* rpc::DeviceService::Watch(Admitted admitted, const grpc::ByteBuffer& request) {
  DeviceWatch& watch = *admitted.env().watch;
  return watch.Start(std::move(admitted), request);
}

DownloadReactor* DeviceWatch::Start(Admitted admitted, const grpc::ByteBuffer& request) {
  auto* watcher = new Watcher(*this, std::move(admitted));
  watcher->Begin(request);
  return watcher;
}

bool DeviceWatch::Add(Watcher* watcher) {
  absl::MutexLock lock(&mutex_);
  if (watchers_.size() >= kMaxWatchers) return false;
  watchers_.insert(watcher);
  const std::vector<v1::Device> now = Look();
  for (size_t i = 0; i < now.size(); ++i) watcher->Tell(i, now[i]);
  return true;
}

void DeviceWatch::Remove(Watcher* watcher) {
  absl::MutexLock lock(&mutex_);
  watchers_.erase(watcher);
}

std::vector<v1::Device> DeviceWatch::Look() const {
  std::vector<v1::Device> devices;
  for (const auto& device : engine_.devices())
    FillDevice(*device, engine_.turns().waiting(*device), devices.emplace_back());
  return devices;
}

void DeviceWatch::LookUntilStopped() {
  const auto wanted = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !watchers_.empty(); };
  do {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&wanted));
    if (stopping_) return;
    if (gate_.closed()) {
      for (Watcher* watcher : watchers_) watcher->End(ShuttingDown());
    }
    const std::vector<v1::Device> now = Look();
    for (size_t i = 0; i < now.size(); ++i) {
      for (Watcher* watcher : watchers_) watcher->Tell(i, now[i]);
    }
  } while (!bell_.Wait(kPeriod));
}

}  // namespace kiln::server
