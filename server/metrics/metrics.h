// What a server counts: a member for each row of metrics.def. Begin there.
//
// Counting takes no lock and allocates nothing, and may be done on any thread: a counter is one
// relaxed addition, a histogram two. Metrics hang from the engine (Engine::metrics).
#ifndef KILN_SERVER_METRICS_METRICS_H_
#define KILN_SERVER_METRICS_METRICS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "absl/time/time.h"
#include "server/metrics/cells.h"
#include "server/metrics/labels.h"

namespace kiln::server {

// Upper bounds of a histogram's buckets, in nanoseconds, beside the last, which has none.
// gRPC's own (its proposal A66), by which its dashboards draw calls.
inline constexpr int64_t kCallBounds[] = {
    0,           10'000,        50'000,        100'000,        300'000,        600'000,       800'000,
    1'000'000,   2'000'000,     3'000'000,     4'000'000,      5'000'000,      6'000'000,     8'000'000,
    10'000'000,  13'000'000,    16'000'000,    20'000'000,     25'000'000,     30'000'000,    40'000'000,
    50'000'000,  65'000'000,    80'000'000,    100'000'000,    130'000'000,    160'000'000,   200'000'000,
    250'000'000, 300'000'000,   400'000'000,   500'000'000,    650'000'000,    800'000'000,   1000000000,
    2000000000,  5'000'000'000, 10000000000LL, 20'000'000'000, 50'000'000'000, 100000000000LL};
// A part of a warm execution takes less than a microsecond.
inline constexpr int64_t kStepBounds[] = {
    200,        500,        1'000,       2'000,       5'000,          10'000,      20'000,
    50'000,     100'000,    200'000,     500'000,     1'000'000,      2'000'000,   5'000'000,
    10'000'000, 20'000'000, 50'000'000,  100'000'000, 200'000'000,    500'000'000, 1'000'000'000,
    2000000000, 5000000000, 10000000000, 50000000000, 100'000'000'000};
// Of rows, not of nanoseconds.
inline constexpr int64_t kRowBounds[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
inline constexpr int64_t kCompileBounds[] = {
    1'000'000,      2'000'000,      5'000'000,      10'000'000,      20'000'000,     50'000'000,
    100'000'000,    200'000'000,    500'000'000,    1'000'000'000,   2'000'000'000,  5'000'000'000,
    10'000'000'000, 20'000'000'000, 50'000'000'000, 100'000'000'000, 200'000'000'000};

// Which of a metric's series has these labels.
template <typename... Labels>
struct Series {
  static constexpr size_t kCount = (size_t{1} * ... * LabelOf<Labels>::kMost);
  static size_t Of(Labels... labels) {
    size_t number = 0;
    ((number = number * LabelOf<Labels>::kMost + NumberOf(labels)), ...);
    return number;
  }
};

template <typename... Labels>
class Counter {
 public:
  void Add(uint64_t amount, Labels... labels) { cells_.Add(Series<Labels...>::Of(labels...), amount); }
  void AddSeconds(double seconds, Labels... labels) {
    if (seconds > 0) Add(static_cast<uint64_t>(seconds * 1e9), labels...);
  }
  // For a scrape, by number.
  uint64_t Sum(size_t series) const { return cells_.Sum(series); }

 private:
  Cells cells_{Series<Labels...>::kCount};
};

template <const auto& kBounds, typename... Labels>
class Histogram {
 public:
  static constexpr size_t kBuckets = std::size(kBounds) + 1;

  // What the bounds are one of, such as a second, has so many of what is observed.
  static constexpr double kUnit = static_cast<const void*>(&kBounds) == &kRowBounds ? 1 : 1e9;

  // Nanoseconds, or rows.
  void Observe(int64_t value, Labels... labels) {
    value = std::max<int64_t>(value, 0);
    const auto bucket = std::lower_bound(std::begin(kBounds), std::end(kBounds), value) - std::begin(kBounds);
    const size_t first = Series<Labels...>::Of(labels...) * (kBuckets + 1), shard = Cells::Shard();
    cells_.AddIn(shard, first + static_cast<size_t>(bucket), 1);
    cells_.AddIn(shard, first + kBuckets, static_cast<uint64_t>(value));
  }
  void Observe(absl::Duration time, Labels... labels) { Observe(absl::ToInt64Nanoseconds(time), labels...); }
  void ObserveSeconds(double seconds, Labels... labels) { Observe(static_cast<int64_t>(seconds * 1e9), labels...); }

  // For a scrape, by number: how many in each bucket alone, and the sum of all as it was observed.
  uint64_t Count(size_t series, size_t bucket) const { return cells_.Sum(series * (kBuckets + 1) + bucket); }
  uint64_t Sum(size_t series) const { return Count(series, kBuckets); }

 private:
  Cells cells_{Series<Labels...>::kCount * (kBuckets + 1)};
};

struct Metrics {
#define COUNTER(member, unit, name, help, ...) Counter<__VA_ARGS__> member;
#define HISTOGRAM(member, bounds, name, help, ...) Histogram<bounds __VA_OPT__(, ) __VA_ARGS__> member;
#define READ(Member, kind, name, help, ...)
#include "server/metrics/metrics.def"
#undef COUNTER
#undef HISTOGRAM
#undef READ
};

}  // namespace kiln::server

#endif  // KILN_SERVER_METRICS_METRICS_H_
