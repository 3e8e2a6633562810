// How long runs of a program with rows take: t(r) = a + b * r nanoseconds, fitted to what was measured, as least
// squares whose weights halve every 22 runs (0.97^22 = 0.51), for other sizes and the machine's load change.
#ifndef KILN_SERVER_ENGINE_PROGRAMS_ROW_TIMES_H_
#define KILN_SERVER_ENGINE_PROGRAMS_ROW_TIMES_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace kiln::server {

// Safe from any thread.
class RowTimes {
 public:
  void Observe(int64_t rows, uint64_t ns) {
    const auto r = static_cast<double>(rows), t = static_cast<double>(ns);
    absl::MutexLock lock(&mutex_);
    for (double* sum : {&n_, &r_, &t_, &rr_, &rt_}) *sum *= kKept;
    n_ += 1;
    r_ += r;
    t_ += t;
    rr_ += r * r;
    rt_ += r * t;
  }

  // Nothing before a run was seen. Of one size alone, in proportion to the rows: too long, if anything.
  std::optional<uint64_t> Expected(int64_t rows) const {
    absl::MutexLock lock(&mutex_);
    if (n_ == 0) return std::nullopt;
    const auto r = static_cast<double>(rows);
    const double mean_rows = r_ / n_, mean_ns = t_ / n_;
    const double spread = rr_ / n_ - mean_rows * mean_rows;
    if (spread < 1e-3 * mean_rows) return Nanos(mean_ns * std::max(1.0, r / mean_rows));
    const double slope = std::max(0.0, (rt_ / n_ - mean_rows * mean_ns) / spread);
    return Nanos(mean_ns + slope * (r - mean_rows));
  }

 private:
  static constexpr double kKept = 0.97;
  // Rows without elements may be as many as an integer holds.
  static uint64_t Nanos(double ns) { return static_cast<uint64_t>(std::clamp(ns, 0.0, 1e18)); }

  mutable absl::Mutex mutex_;
  // Weighted sums over runs: of 1, rows, times, rows squared, rows by times.
  double n_ ABSL_GUARDED_BY(mutex_) = 0, r_ ABSL_GUARDED_BY(mutex_) = 0, t_ ABSL_GUARDED_BY(mutex_) = 0,
            rr_ ABSL_GUARDED_BY(mutex_) = 0, rt_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_PROGRAMS_ROW_TIMES_H_
