#include "base/clock.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/time/clock.h"

namespace kiln {
namespace {

using Monotonic = std::chrono::steady_clock;

// More than any wait; less than what a clock's numbers hold.
constexpr absl::Duration kLongest = absl::Hours(24 * 365);

// One moment by both clocks.
struct Beginning {
  absl::Time system;
  Monotonic::time_point monotonic;

  // Of several looks the one that took least: none is of one moment if the system let others run in the middle.
  Beginning() {
    Monotonic::duration least = Monotonic::duration::max();
    for (int look = 0; look < 5; ++look) {
      const Monotonic::time_point before = Monotonic::now();
      const absl::Time now = absl::Now();
      const Monotonic::duration took = Monotonic::now() - before;
      if (took >= least) continue;
      least = took;
      system = now;
      monotonic = before + took;
    }
  }
};

}  // namespace

absl::Time SteadyNow() {
  static const Beginning beginning;
  return beginning.system + absl::FromChrono(Monotonic::now() - beginning.monotonic);
}

void Bell::Ring() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    rung_ = true;
  }
  rang_.notify_one();
}

bool Bell::Wait(absl::Duration timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto until = Monotonic::now() + absl::ToChronoNanoseconds(std::min(timeout, kLongest));
  rang_.wait_until(lock, until, [this] { return rung_; });
  return std::exchange(rung_, false);
}

}  // namespace kiln
