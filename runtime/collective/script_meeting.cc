#include "runtime/collective/script_meeting.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "runtime/hal/remote.h"

namespace kiln::runtime::collective {
namespace {

// Numbers of scripts. What a failed one sent may lie about unclaimed for ever, so its
// number is not given again.
class Numbers {
 public:
  uint32_t Take() {
    absl::MutexLock lock(&mutex_);
    do {
      last_ = (last_ + 1) % kScripts;
    } while (burnt_.count(last_) != 0);
    return last_;
  }
  void Burn(uint32_t number) {
    absl::MutexLock lock(&mutex_);
    // Each time a rank dies, those under way with it fail: a job has not ranks enough.
    if (burnt_.size() < kScripts / 2) burnt_.insert(number);
  }

 private:
  absl::Mutex mutex_;
  uint32_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<uint32_t> burnt_ ABSL_GUARDED_BY(mutex_);
};

// The tags of one job are one process's to give.
Numbers& TheNumbers() {
  static auto* const numbers = new Numbers();
  return *numbers;
}

// What the participants of one meeting share.
struct Met {
  std::vector<hal::Device*> devices;
  std::vector<Script> scripts;
  std::vector<hal::BufferSlice> written;
  std::vector<absl::Status> outcomes;
  cluster::Transport* transport = nullptr;
  std::atomic<int64_t> begin{0};  // in nanoseconds since the epoch; the first to begin sets it

  absl::Status Outcome() const {
    // Of all that fails because one is gone, the one who is gone is told.
    for (const hal::Device* device : devices) {
      if (const absl::Status health = device->health(); !health.ok()) return health;
    }
    for (const absl::Status& outcome : outcomes) {
      if (!outcome.ok()) return outcome;
    }
    return absl::OkStatus();
  }
};

}  // namespace

bool AnyRemote(const std::vector<hal::Device*>& devices) {
  return std::any_of(devices.begin(), devices.end(), [](hal::Device* device) { return device->remote() != nullptr; });
}

absl::Status CheckSeen(const std::vector<hal::BufferSlice>& slices) {
  for (const hal::BufferSlice& slice : slices) {
    auto* const device = const_cast<hal::Device*>(slice.buffer->device());
    if (device->remote() != nullptr || slice.host_data() != nullptr) continue;
    v1::ErrorDetail detail;
    detail.set_code(v1::NOT_IMPLEMENTED);
    detail.set_field(std::string(device->name()));
    return MakeError(std::move(detail), absl::StrCat(device->name(), " works with devices of its own process alone"));
  }
  return absl::OkStatus();
}

void MeetWithScripts(Meetings& meetings, std::vector<hal::Device*> devices, std::vector<Script> scripts,
                     std::vector<hal::BufferSlice> written, absl::Duration timeout, const hal::LaunchControl& control,
                     ScriptsDone done) {
  // Else a failure would cost a number each time.
  for (const hal::Device* device : devices) {
    if (absl::Status health = device->health(); !health.ok()) return done(std::move(health), 0);
  }
  const auto met = std::make_shared<Met>();
  met->devices = std::move(devices);
  met->scripts = std::move(scripts);
  met->written = std::move(written);
  met->outcomes.resize(met->devices.size());
  std::vector<uint32_t> places;
  for (hal::Device* device : met->devices) {
    // Devices that are not remote are of rank 0, which is where this runs.
    places.push_back(device->remote() == nullptr ? 0 : device->remote()->rank());
    if (device->remote() != nullptr) met->transport = &device->remote()->transport();
  }
  const uint32_t number = TheNumbers().Take();
  for (Script& script : met->scripts) {
    script.number = number;
    script.places = places;
  }
  MeetingRequest meeting;
  meeting.devices = met->devices;
  meeting.timeout = timeout;
  meeting.control = control;
  meeting.work = [met](uint32_t rank) {
    int64_t none = 0;
    met->begin.compare_exchange_strong(none, absl::GetCurrentTimeNanos(), std::memory_order_relaxed);
    // Any rank may be the first to write to any of them.
    for (const hal::BufferSlice& slice : met->written) slice.buffer->Changed();
    hal::Remote* const remote = met->devices[rank]->remote();
    const Script& script = met->scripts[rank];
    met->outcomes[rank] = remote != nullptr ? remote->Do(Pack(script)) : Run(script, *met->transport);
  };
  meetings.Submit(std::move(meeting), [met, number, done = std::move(done)](absl::Status status) mutable {
    if (!status.ok()) return done(std::move(status), 0);
    status = met->Outcome();
    if (!status.ok()) TheNumbers().Burn(number);
    done(std::move(status), static_cast<double>(absl::GetCurrentTimeNanos() - met->begin.load()) * 1e-9);
  });
}

}  // namespace kiln::runtime::collective
