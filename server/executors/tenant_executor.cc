#include "server/executors/tenant_executor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "server/executors/device.h"

namespace kiln::server {
namespace {

// Addresses for each byte that may be in use, so that what lies between buffers does not matter.
constexpr uint64_t kReach = 2;
constexpr uint64_t kPage = 4096;

// One that has lived so long has not ended soon.
constexpr absl::Duration kLong = absl::Minutes(1);
// The second of those that ended soon is waited for so long, each further one twice as long.
constexpr absl::Duration kFirstWait = absl::Milliseconds(100), kLongestWait = absl::Seconds(30);

uint64_t ReachOf(const DeviceModel& model) { return (model.limit_bytes * kReach / kPage + 1) * kPage; }

absl::StatusOr<std::unique_ptr<Arena>> MakeArena(const std::vector<DeviceModel>& models) {
  uint64_t bytes = 0;
  for (const DeviceModel& model : models) bytes += ReachOf(model);
  return Arena::Make(bytes);
}

}  // namespace

TenantExecutor::TenantExecutor(const std::vector<DeviceModel>& models, absl::Duration longest_run, Start start,
                               Ended ended)
    : start_(std::move(start)), ended_(std::move(ended)), arena_(MakeArena(models)) {
  uint64_t at = arena_.ok() ? (*arena_)->begin() : kPage;
  for (uint32_t i = 0; i < models.size(); ++i) {
    devices_.push_back(MakeExecutorDevice(this, i, models[i], at, ReachOf(models[i]), longest_run));
    at += ReachOf(models[i]);
  }
}

void TenantExecutor::GiveBack() const {
  for (const auto& device : devices_) server::GiveBack(*device);
}

absl::StatusOr<Arena*> TenantExecutor::arena() const {
  if (!arena_.ok()) return arena_.status();
  return arena_->get();
}

absl::StatusOr<std::shared_ptr<ExecutorProcess>> TenantExecutor::Process() {
  KILN_ASSIGN_OR_RETURN(Arena* const memory, arena());
  absl::MutexLock start(&start_mutex_);
  {
    absl::MutexLock lock(&mutex_);
    if (process_ != nullptr && process_->Lives()) return process_;
    const absl::Time now = absl::Now();
    if (process_ != nullptr) NoteEnd(now, "it ended while nobody asked it anything");
    if (now < not_before_)
      return ExecutorLost(absl::StrCat("the last ", soon_ended_, " ended soon after they began"), not_before_ - now);
  }
  KILN_ASSIGN_OR_RETURN(auto process, start_(memory));
  {
    absl::MutexLock lock(&mutex_);
    process_ = process;
  }
  if (absl::Status ready = process->Ready(); !ready.ok()) {
    Lost(*process, ready);
    return ready;
  }
  return process;
}

std::shared_ptr<ExecutorProcess> TenantExecutor::Find(uint64_t number) const {
  absl::MutexLock lock(&mutex_);
  return process_ != nullptr && process_->number() == number ? process_ : nullptr;
}

void TenantExecutor::Lost(const ExecutorProcess& process, const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (process_.get() == &process) NoteEnd(absl::Now(), status.message());
}

void TenantExecutor::NoteEnd(absl::Time now, absl::string_view why) {
  soon_ended_ = process_->Age(now) >= kLong ? 1 : soon_ended_ + 1;
  absl::Duration wait = absl::ZeroDuration();
  if (soon_ended_ > 1) wait = std::min(kLongestWait, kFirstWait * (1 << std::min(soon_ended_ - 2, 20u)));
  not_before_ = now + wait;
  ended_(*process_, std::string(why));
  process_ = nullptr;
}

void TenantExecutor::EndIdle(absl::Time now, absl::Duration idle) {
  // Whoever starts one has a use for it.
  if (!start_mutex_.TryLock()) return;
  std::shared_ptr<ExecutorProcess> ended;
  bool gives_back = false;
  {
    absl::MutexLock lock(&mutex_);
    if (process_ != nullptr && process_->Idle(now) >= idle) ended = std::exchange(process_, nullptr);
    // Without an executor there may be memory all the same, of transfers.
    gives_back = ended != nullptr || (process_ == nullptr && now - gave_back_ >= idle);
    if (gives_back) gave_back_ = now;
  }
  start_mutex_.Unlock();
  if (gives_back) GiveBack();
}

}  // namespace kiln::server
