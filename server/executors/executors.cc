#include "server/executors/executors.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"

namespace kiln::server {
namespace {

// How often idle executors are looked for.
constexpr absl::Duration kLook = absl::Seconds(1);
// Between two times that all give back what they keep.
constexpr absl::Duration kAgain = absl::Milliseconds(100);

absl::Status BadTenant(v1::ErrorCode code, absl::string_view tenant, absl::string_view what) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  detail.set_field("tenants");
  return MakeError(detail, absl::StrCat("tenants: tenant \"", absl::CEscape(tenant), "\": ", what));
}

}  // namespace

Executors::Executors(ExecutorOptions options, const DeviceList& devices, std::shared_ptr<spdlog::logger> log,
                     absl::Duration idle)
    : log_(std::move(log)), idle_(idle), options_(std::move(options)) {
  for (const auto& device : devices) {
    if (device->target().kind() != v1::Target::CPU || device->remote() != nullptr) continue;
    models_.push_back({std::string(device->name()), std::string(device->description()), device->target(),
                       device->stats().memory.limit_bytes, &device->allocator()});
    device->allocator().guarantees().SetRelief([this] { GiveBack(); });
  }
  options_.devices = static_cast<uint32_t>(models_.size());
  thread_ = std::thread([this] { Serve(); });
  pthread_setname_np(thread_.native_handle(), "kiln-executors");
}

Executors::~Executors() {
  for (const DeviceModel& model : models_) model.counts->guarantees().SetRelief(nullptr);
  {
    // Work that is ending looks at them, and may start a process.
    std::map<std::string, std::unique_ptr<TenantExecutor>, std::less<>> ended;
    Drain();
    absl::ReleasableMutexLock lock(&mutex_);
    ended.swap(executors_);
    lock.Release();
  }
  {
    absl::MutexLock lock(&start_mutex_);
    stopping_ = true;
  }
  thread_.join();
}

absl::Status Executors::SetTenants(const std::map<std::string, bool>& apart) {
  absl::MutexLock lock(&mutex_);
  for (const auto& [tenant, own] : apart) {
    if (own && (options_.binary.empty() || models_.empty())) {
      return BadTenant(v1::NOT_IMPLEMENTED, tenant,
                       "isolation: PROCESS needs a CPU device, and a program that can be an executor");
    }
    if (const auto before = apart_.find(tenant); before != apart_.end() && before->second != own) {
      return BadTenant(v1::BAD_ARGUMENT, tenant,
                       absl::StrCat("isolation is ", before->second ? "PROCESS" : "SHARED",
                                    " until the server ends, since what it holds is kept by that"));
    }
  }
  for (const auto& [tenant, own] : apart) apart_[tenant] = own;
  for (const auto& [tenant, executor] : executors_) {
    if (apart.count(tenant) == 0) executor->EndIdle(absl::Now(), -absl::InfiniteDuration());
  }
  return absl::OkStatus();
}

const DeviceList* Executors::Of(absl::string_view tenant) {
  absl::MutexLock lock(&mutex_);
  const auto known = apart_.find(std::string(tenant));
  if (known == apart_.end() || !known->second) return nullptr;
  auto& executor = executors_[known->first];
  if (executor == nullptr) {
    executor = std::make_unique<TenantExecutor>(
        models_, options_.run_patience, [this](Arena* arena) { return StartOn(arena); },
        [log = log_, tenant = known->first](const ExecutorProcess& process, const std::string& why) {
          log->warn("event=executor_lost tenant={} process={} reason=\"{}\"", tenant, process.pid(),
                    absl::CEscape(why));
        });
  }
  return &executor->devices();
}

void Executors::Drain() {
  std::vector<const DeviceList*> all;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [tenant, executor] : executors_) all.push_back(&executor->devices());
  }
  for (const DeviceList* const devices : all) runtime::hal::DrainAll(*devices);
}

void Executors::GiveBack() {
  const absl::Time now = absl::Now();
  absl::MutexLock lock(&mutex_);
  if (now - gave_back_ < kAgain) return;
  gave_back_ = now;
  for (const auto& [tenant, executor] : executors_) executor->GiveBack();
}

absl::StatusOr<std::shared_ptr<ExecutorProcess>> Executors::StartOn(Arena* arena) {
  Starting starting;
  starting.arena = arena;
  absl::MutexLock lock(&start_mutex_);
  starting_.push_back(&starting);
  start_mutex_.Await(absl::Condition(&starting.done));
  return std::move(starting.started);
}

void Executors::Serve() {
  const auto wanted = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(start_mutex_) { return stopping_ || !starting_.empty(); };
  for (;;) {
    {
      absl::MutexLock lock(&start_mutex_);
      start_mutex_.AwaitWithTimeout(absl::Condition(&wanted), kLook);
      for (Starting* const each : std::exchange(starting_, {})) {
        each->started = ExecutorProcess::Start(options_, each->arena, ++last_number_);
        if (each->started.ok()) log_->info("event=executor process={}", (*each->started)->pid());
        each->done = true;
      }
      if (stopping_) return;
    }
    absl::MutexLock lock(&mutex_);
    for (const auto& [tenant, executor] : executors_) executor->EndIdle(absl::Now(), idle_);
  }
}

}  // namespace kiln::server
