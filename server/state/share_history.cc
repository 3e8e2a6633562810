#include "server/state/share_history.h"

#include <algorithm>
#include <limits>

namespace kiln::server {

void ShareHistory::Add(absl::Time now, const std::vector<std::vector<uint64_t>>& measured_ns) {
  absl::MutexLock lock(&mutex_);
  const bool is_first = last_ == absl::InfinitePast();
  // A clock that was set back makes no negative second.
  const absl::Duration span = is_first ? absl::ZeroDuration() : std::max(now - last_, absl::ZeroDuration());
  last_ = now;
  Sample sample = {span, std::vector<std::vector<uint32_t>>(totals_.size())};
  for (size_t device = 0; device < totals_.size() && device < measured_ns.size(); ++device) {
    const std::vector<uint64_t>& measured = measured_ns[device];
    std::vector<uint64_t>& totals = totals_[device];
    std::vector<uint32_t>& micros = sample.micros[device];
    totals.resize(std::max(totals.size(), measured.size()));
    for (size_t payer = 0; payer < measured.size(); ++payer) {
      // What is less than a microsecond is left for the next sample.
      const uint64_t more = measured[payer] > totals[payer] ? (measured[payer] - totals[payer]) / 1000 : 0;
      totals[payer] += more * 1000;
      if (more == 0) continue;
      micros.resize(payer + 1);
      micros[payer] = static_cast<uint32_t>(std::min<uint64_t>(more, std::numeric_limits<uint32_t>::max()));
    }
    micros.shrink_to_fit();
  }
  // What there was before the first sample is nobody's last second.
  if (is_first) return;
  samples_[count_++ % kSamples] = std::move(sample);
}

template <typename Seen>
void ShareHistory::ForEach(size_t samples, const Seen& seen) const {
  const size_t there = std::min({samples, count_, kSamples});
  for (size_t at = count_ - there; at < count_; ++at) seen(samples_[at % kSamples]);
}

ShareHistory::Used ShareHistory::Over(size_t device, size_t samples) const {
  Used used;
  absl::ReaderMutexLock lock(&mutex_);
  ForEach(samples, [&](const Sample& sample) {
    used.seconds += absl::ToDoubleSeconds(sample.span);
    const std::vector<uint32_t>& micros = sample.micros[device];
    used.by_payer.resize(std::max(used.by_payer.size(), micros.size()));
    for (size_t payer = 0; payer < micros.size(); ++payer) {
      used.by_payer[payer] += micros[payer] / 1e6;
      used.all += micros[payer] / 1e6;
    }
  });
  return used;
}

std::vector<float> ShareHistory::PartsOf(size_t device, size_t payer, size_t samples) const {
  std::vector<float> parts;
  absl::ReaderMutexLock lock(&mutex_);
  ForEach(samples, [&](const Sample& sample) {
    const std::vector<uint32_t>& micros = sample.micros[device];
    const double span = absl::ToDoubleSeconds(sample.span);
    parts.push_back(payer < micros.size() && span > 0 ? static_cast<float>(micros[payer] / 1e6 / span) : 0.0f);
  });
  return parts;
}

}  // namespace kiln::server
