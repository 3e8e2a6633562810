// Whether a request that has a deadline can be done by then, as far as is known: who cannot is told so as soon as
// possible, and takes nothing of the device. What is begun too late is stopped by its deadline in the middle; a server
// that is asked for more than it can do has always some that are nearly too late, and would spend its time on those.
//
// Estimates may be wrong, so they have their limits. Who finds its devices idle takes nothing from anybody and is let
// try. Where nobody else waits, it need only be possible; where others do, it must be likely, as one of them could have
// the device instead. And a program whose estimate is too high would be refused for ever, as no run would correct it:
// from time to time one of its requests is let try (Trials).
//
// Here are no clocks and no locks. server/fair/simulation_test.cc tries it at ten times what a device can do.
#ifndef KILN_SERVER_FAIR_LATENESS_H_
#define KILN_SERVER_FAIR_LATENESS_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace kiln::server {

// One that has a deadline, as it is now.
struct Prospect {
  // Of runs near their estimate, nineteen of twenty take no more than it and twice their spread.
  static constexpr int kSpreads = 2;

  absl::Duration left;    // until the deadline
  absl::Duration wait;    // until it begins
  absl::Duration run;     // from then on; zero if that is a guess
  absl::Duration spread;  // how far its runs are from that
  bool others_wait = false;

  absl::Duration needs() const { return others_wait ? run + kSpreads * spread : run; }
  bool in_time() const { return wait + needs() <= left; }
  // It would be in time if it took nothing.
  bool for_itself() const { return wait <= left && !in_time(); }
};

// DEADLINE_PASSED, with what is expected.
absl::Status TooLate(const Prospect& prospect);

// When runs of a program last began, for who would refuse one by how long they are thought to take. Safe from any
// thread.
class Trials {
 public:
  // Trying takes no more than this part of a device's time.
  static constexpr int kOneIn = 20;

  void Began(absl::Time now) { last_ns_.store(absl::ToUnixNanos(now), std::memory_order_relaxed); }
  // Whether one that takes no longer than `most` is to be let try: none has begun for kOneIn times as long. It counts
  // as begun then.
  bool Due(absl::Time now, absl::Duration most);

 private:
  std::atomic<int64_t> last_ns_{0};
};

}  // namespace kiln::server

#endif  // KILN_SERVER_FAIR_LATENESS_H_
