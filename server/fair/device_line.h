// What Turns (turns.h) holds: the line before each device, and who stands in it. For turns.cc and turns_look.cc alone.
//
// Tested by server/fair/turns_test.cc.
#ifndef KILN_SERVER_FAIR_DEVICE_LINE_H_
#define KILN_SERVER_FAIR_DEVICE_LINE_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/container/fixed_array.h"
#include "absl/container/inlined_vector.h"
#include "absl/time/time.h"
#include "runtime/hal/device.h"
#include "server/fair/fair_queue.h"
#include "server/fair/owner.h"
#include "server/fair/shares.h"
#include "server/fair/turns.h"

namespace kiln::server {

struct DeviceLine {
  DeviceLine(const FairQueue::Options& options, const runtime::hal::Device* device) : device(device), queue(options) {}
  // How long a new one of the owner's would wait.
  uint64_t PredictedWait(const FairOwner& owner, absl::Time now) const {
    return queue.PredictedWait(owner, WorkedNs(now));
  }
  uint64_t LongestWait(absl::Time now) const { return queue.LongestWait(WorkedNs(now)); }
  uint64_t WorkedNs(absl::Time now) const {
    return static_cast<uint64_t>(std::max<int64_t>(0, absl::ToInt64Nanoseconds(now - worked_since)));
  }
  const runtime::hal::Device* const device;
  FairQueue queue;
  Shares shares;
  absl::Time worked_since;         // on the first of what is in flight
  std::atomic<bool> asked{false};  // whether runs look at how long they have had the device
  uint64_t pauses = 0;             // of runs, ever
  std::array<uint64_t, kPayers> measured_ns = {};
};

struct Waiting final : runtime::hal::Interruption {
  // At one device. The entry is first, so that it is found by it.
  struct Place {
    FairQueue::Entry entry;
    Waiting* waiting = nullptr;
    DeviceLine* line = nullptr;
    FairQueue::Session* session = nullptr;  // closed for it
    bool served = false;
  };

  Waiting(Turns* turns, TurnRequest asked, TurnCallback go, const std::atomic<bool>& others)
      : Interruption(others),
        turns(turns),
        request(std::move(asked)),
        go(std::move(go)),
        places(request.devices.size()) {}
  void GiveWay() override { turns->GiveWay(*this); }
  // Whether it may be interrupted. Callers that have no account may know each other's handles, and then what one does
  // must not be seen half done. Devices of a tenant's own are in another process.
  bool Pauses() const {
    return places.size() == 1 && request.control.account != nullptr && !apart &&
           request.devices.front()->queue().may_pause();
  }
  // Its slice begins, and lasts for so long.
  void BeginSlice(absl::Time now, absl::Duration slice) {
    slice_began = now;
    slice_ = slice;
    until_ = now + slice;
  }
  // What it has had that is not settled.
  absl::Duration SliceSoFar(absl::Time now) const {
    // It has its turn, but a thread that works on it has not come to it yet.
    if (tells.load(std::memory_order_relaxed) && !works()) return absl::ZeroDuration();
    const absl::Duration counted = cores().SoFar();
    if (counted >= absl::ZeroDuration()) return counted;
    // By the clock, since what was before it at the device has ended.
    return std::max(now - std::max(slice_began, places.front().line->worked_since), absl::ZeroDuration());
  }
  // It goes on, and is not asked before then.
  void GoOnUntil(absl::Time until) { until_ = until; }
  void WasAway(absl::Duration time) { away_ += time; }
  using Interruption::Settled;

  Turns* const turns;
  const TurnRequest request;
  TurnCallback go;
  absl::FixedArray<Place, 1> places;
  size_t missing = 0;  // places that it has no turn at
  absl::Time began;
  absl::Time slice_began;
  std::atomic<bool> tells{false};              // a run, which says when it works; of transfers nothing is known
  uint64_t settled_ns = 0;                     // of what it has measured
  runtime::hal::Work* continuation = nullptr;  // of one that has paused, until its turn has come again
  bool found_idle = false;                     // all its devices, when it came
  bool guessed = false;                        // nothing is refused by its estimate
  bool apart = true;                           // all its devices are its tenant's own
  bool aside = false;
  // In one list: first_, then running_.
  Waiting* previous = nullptr;
  Waiting* next = nullptr;
};

// For work that takes a submitting thread too long, or must not run there.
inline constexpr uint64_t kNotOnThisThread = ~uint64_t{0};

inline void Add(DeviceLine* line, absl::InlinedVector<DeviceLine*, 2>& lines) {
  if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
}

}  // namespace kiln::server

#endif  // KILN_SERVER_FAIR_DEVICE_LINE_H_
