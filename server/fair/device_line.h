// What Turns (turns.h) holds: the line before each device, and who stands in it. For turns.cc and turns_look.cc alone.
//
// Tested by server/fair/turns_test.cc.
#ifndef KILN_SERVER_FAIR_DEVICE_LINE_H_
#define KILN_SERVER_FAIR_DEVICE_LINE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/container/fixed_array.h"
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
  absl::Time worked_since;  // on the first of what is in flight
  std::array<uint64_t, kPayers> measured_ns = {};
};

struct Waiting {
  // At one device. The entry is first, so that it is found by it.
  struct Place {
    FairQueue::Entry entry;
    Waiting* waiting = nullptr;
    DeviceLine* line = nullptr;
    FairQueue::Session* session = nullptr;  // closed for it
    bool served = false;
  };

  Waiting(Turns* turns, TurnRequest asked, TurnCallback go)
      : turns(turns), request(std::move(asked)), go(std::move(go)), places(request.devices.size()) {}

  Turns* const turns;
  const TurnRequest request;
  TurnCallback go;
  absl::FixedArray<Place, 1> places;
  size_t missing = 0;  // places that it has no turn at
  absl::Time began;
  bool found_idle = false;  // all its devices, when it came
  bool guessed = false;     // nothing is refused by its estimate
  bool apart = true;        // all its devices are its tenant's own
  bool aside = false;
  // In one list: first_, then running_.
  Waiting* previous = nullptr;
  Waiting* next = nullptr;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_FAIR_DEVICE_LINE_H_
