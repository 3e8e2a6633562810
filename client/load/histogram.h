// How often which time was measured, in little memory and for any range: a histogram whose
// buckets grow with the value (HDR histograms, log-linear).
//
// Values below 256 have a bucket each; from there on every power of two is cut into 128
// equal ones, so what is read off is the true value or up to 1/128 more, be it microseconds
// or minutes. So tails can be read off as well as medians, histograms of several steps or
// threads can be added, and no value was left out to save room.
#ifndef KILN_CLIENT_LOAD_HISTOGRAM_H_
#define KILN_CLIENT_LOAD_HISTOGRAM_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"

namespace kiln::load {

// One thread at a time.
class Histogram {
 public:
  void Add(uint64_t value, uint64_t count = 1);
  void Merge(const Histogram& other);

  uint64_t count() const { return count_; }
  // 0 of none.
  uint64_t max() const { return max_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

  // The least value that at least this part (0 to 1) of all values do not exceed, rounded up to
  // its bucket's end, at most max(). 0 of none.
  uint64_t Quantile(double part) const;

  // Each bucket that is not empty, by its end, in rising order.
  void ForEach(absl::FunctionRef<void(uint64_t end, uint64_t count)> seen) const;

 private:
  std::vector<uint64_t> buckets_;  // as far as they were needed
  uint64_t count_ = 0;
  uint64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace kiln::load

#endif  // KILN_CLIENT_LOAD_HISTOGRAM_H_
