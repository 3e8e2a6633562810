#include "client/load/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace kiln::load {
namespace {

// So many equal buckets for each power of two.
constexpr int kBits = 7;
constexpr uint64_t kPerPower = uint64_t{1} << kBits;

// How many low bits of the value its bucket does not tell.
int ShiftOf(uint64_t value) { return std::max(0, static_cast<int>(std::bit_width(value)) - kBits - 1); }

size_t BucketOf(uint64_t value) {
  const int shift = ShiftOf(value);
  return static_cast<size_t>(shift) * kPerPower + (value >> shift);
}

uint64_t EndOf(size_t bucket) {
  if (bucket < 2 * kPerPower) return bucket;
  const size_t shift = bucket / kPerPower - 1;
  return ((bucket - shift * kPerPower + 1) << shift) - 1;
}

}  // namespace

void Histogram::Add(uint64_t value, uint64_t count) {
  if (count == 0) return;
  const size_t bucket = BucketOf(value);
  if (bucket >= buckets_.size()) buckets_.resize(bucket + 1);
  buckets_[bucket] += count;
  count_ += count;
  max_ = std::max(max_, value);
  sum_ += static_cast<double>(value) * static_cast<double>(count);
}

void Histogram::Merge(const Histogram& other) {
  buckets_.resize(std::max(buckets_.size(), other.buckets_.size()));
  for (size_t i = 0; i < other.buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
}

uint64_t Histogram::Quantile(double part) const {
  if (count_ == 0) return 0;
  const double wanted = std::ceil(std::clamp(part, 0.0, 1.0) * static_cast<double>(count_));
  const uint64_t rank = std::clamp<uint64_t>(static_cast<uint64_t>(wanted), 1, count_);
  uint64_t seen = 0;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    seen += buckets_[bucket];
    if (seen >= rank) return std::min(EndOf(bucket), max_);
  }
  return max_;
}

void Histogram::ForEach(absl::FunctionRef<void(uint64_t end, uint64_t count)> seen) const {
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    if (buckets_[bucket] != 0) seen(std::min(EndOf(bucket), max_), buckets_[bucket]);
  }
}

}  // namespace kiln::load
