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

struct Beginning {
  absl::Time system = absl::Now();
  Monotonic::time_point monotonic = Monotonic::now();
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
