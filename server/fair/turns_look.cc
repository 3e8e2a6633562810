// How things stand in the lines before devices: for admission, metrics and people.
//
// Tested by server/fair/turns_test.cc and server/state/state_test.cc.
#include <algorithm>
#include <cstdint>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "server/fair/device_line.h"
#include "server/fair/owner.h"
#include "server/fair/turns.h"

namespace kiln::server {

double Turns::PredictedWait(const TurnRequest& request) const {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = SteadyNow();
  uint64_t wait_ns = 0;
  for (const runtime::hal::Device* device : request.devices) {
    wait_ns = std::max(wait_ns, LineOf(device).PredictedWait(OwnerOf(request.control), now));
  }
  return static_cast<double>(wait_ns) / 1e9;
}

double Turns::LongestWait(const runtime::hal::Device& device) const {
  absl::MutexLock lock(&mutex_);
  return static_cast<double>(LineOf(&device).LongestWait(SteadyNow())) / 1e9;
}

void Turns::ReadShares(const runtime::hal::Device& device,
                       absl::FunctionRef<void(size_t tenant, double ratio)> seen) const {
  absl::MutexLock lock(&mutex_);
  LineOf(&device).shares.Read(absl::ToUnixNanos(SteadyNow()), seen);
}

size_t Turns::waiting(const runtime::hal::Device& device) const {
  absl::MutexLock lock(&mutex_);
  return LineOf(&device).queue.waiting();
}

uint64_t Turns::pauses(const runtime::hal::Device& device) const {
  absl::MutexLock lock(&mutex_);
  return LineOf(&device).pauses;
}

LineLook Turns::Look(const runtime::hal::Device& device, absl::Span<const Account* const> accounts) const {
  LineLook look;
  absl::MutexLock lock(&mutex_);
  const DeviceLine& line = LineOf(&device);
  const absl::Time now = SteadyNow();
  const Waiting* oldest = nullptr;  // that the device itself works on
  for (const Waiting* one = running_; one != nullptr; one = one->next) {
    for (const Waiting::Place& place : one->places) {
      if (place.line != &line) continue;
      if (!one->aside && one->continuation == nullptr) oldest = one;
      look.running.push_back({one->request.control.account, one->request.program, one->began, one->places.size()});
    }
  }
  std::reverse(look.running.begin(), look.running.end());
  look.waiting = line.queue.waiting();
  for (const Account* account : accounts)
    look.waiting_of.push_back(line.queue.waiting(reinterpret_cast<uintptr_t>(account)));
  look.predicted_wait_ns = line.PredictedWait(FairOwner{.tenant = ~uint64_t{0}}, now);
  look.measured_ns.assign(line.measured_ns.begin(), line.measured_ns.end());
  if (oldest != nullptr) {
    // The device goes on in order.
    look.measured_ns[PayerOf(oldest->request.control.account)] +=
        static_cast<uint64_t>(absl::ToInt64Nanoseconds(oldest->SliceSoFar(now)));
  }
  return look;
}

}  // namespace kiln::server
