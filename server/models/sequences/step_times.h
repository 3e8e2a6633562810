// How long runs of steps take, by the sizes that steps bring: a prompt of a thousand tokens takes long, and says
// nothing of steps of one token.
#ifndef KILN_SERVER_MODELS_SEQUENCES_STEP_TIMES_H_
#define KILN_SERVER_MODELS_SEQUENCES_STEP_TIMES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "server/engine/programs/row_times.h"

namespace kiln::server {

// Not for several threads.
class StepTimes {
 public:
  // Sizes that are known. Whose runs are longest ago are forgotten for others: those that come all the time stay.
  static constexpr size_t kMaxSizes = 64;

  void Observe(const std::vector<int64_t>& sizes, int64_t rows, uint64_t ns) {
    if (known_.size() == kMaxSizes && !known_.contains(sizes)) {
      known_.erase(std::min_element(known_.begin(), known_.end(),
                                    [](const auto& a, const auto& b) { return a.second.last < b.second.last; }));
    }
    Known& known = known_[sizes];
    known.last = ++runs_;
    known.times.Observe(rows, ns);
  }

  // As RowTimes.
  std::optional<uint64_t> Expected(const std::vector<int64_t>& sizes, int64_t rows) const {
    const auto known = known_.find(sizes);
    return known == known_.end() ? std::nullopt : known->second.times.Expected(rows);
  }

 private:
  struct Known {
    RowTimes times;
    uint64_t last = 0;  // the number of its last run
  };
  std::map<std::vector<int64_t>, Known> known_;
  uint64_t runs_ = 0;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_MODELS_SEQUENCES_STEP_TIMES_H_
