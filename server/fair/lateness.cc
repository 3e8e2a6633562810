#include "server/fair/lateness.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::server {

absl::Status TooLate(const Prospect& prospect) {
  return MakeError(v1::DEADLINE_PASSED, absl::StrCat("the deadline is in ", absl::ToInt64Microseconds(prospect.left),
                                                     " us, and by what waits before it this would begin in about ",
                                                     absl::ToInt64Microseconds(prospect.wait), " us and take ",
                                                     absl::ToInt64Microseconds(prospect.needs()),
                                                     " us; ask with a later deadline, or when less is waiting"));
}

bool Trials::Due(absl::Time now, absl::Duration most) {
  int64_t last_ns = last_ns_.load(std::memory_order_relaxed);
  const int64_t now_ns = absl::ToUnixNanos(now);
  return now_ns - last_ns >= kOneIn * absl::ToInt64Nanoseconds(most) &&
         last_ns_.compare_exchange_strong(last_ns, now_ns, std::memory_order_relaxed);
}

}  // namespace kiln::server
