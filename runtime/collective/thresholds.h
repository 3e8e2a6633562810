// Which algorithm a collective takes: measured, not guessed.
//
// For each kind and number of participants there are a few classes of size and the
// algorithm that was fastest in each, on these very devices. Until that is known, a
// built-in choice stands in. What was measured can be kept in a file, for the next
// start on the same topology.
#ifndef KILN_RUNTIME_COLLECTIVE_THRESHOLDS_H_
#define KILN_RUNTIME_COLLECTIVE_THRESHOLDS_H_

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "runtime/collective/algorithms/job.h"
#include "runtime/hal/device.h"

namespace kiln::runtime::collective {

// Sizes of the whole tensor that stand for a class each, and where the next begins.
inline constexpr uint64_t kMeasuredBytes[] = {4 << 10, 64 << 10, 1 << 20};
inline constexpr int kSizeClasses = 3;
inline int SizeClassOf(uint64_t bytes) { return bytes <= (16 << 10) ? 0 : bytes <= (256 << 10) ? 1 : 2; }

// The algorithm for each class.
using Choice = std::array<AlgorithmId, kSizeClasses>;

// What decides how fast algorithms are: names, descriptions and cores of the devices.
std::string TopologyOf(absl::Span<hal::Device* const> devices);

// Safe from any thread.
class Thresholds {
 public:
  // Reads `file` if it is there and about `topology`; else it is written anew with what
  // is learned. An empty name: no file. A file that cannot be read or written is no
  // error, since all of it can be measured again.
  Thresholds(std::string topology, std::string file);

  // `in_rank_order`: only one that combines in the order of the ranks.
  AlgorithmId Choose(Kind kind, uint32_t ranks, uint64_t bytes, bool in_rank_order) const;

  // Whether the caller should measure: none has, no other was told to, and there
  // is something to choose.
  bool ShouldMeasure(Kind kind, uint32_t ranks);
  void Learn(Kind kind, uint32_t ranks, const Choice& choice);

 private:
  using Key = std::pair<Kind, uint32_t>;

  void Read();
  void Write() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string topology_;
  const std::string file_;
  mutable absl::Mutex mutex_;
  std::map<Key, Choice> known_ ABSL_GUARDED_BY(mutex_);
  std::set<Key> asked_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::runtime::collective

#endif  // KILN_RUNTIME_COLLECTIVE_THRESHOLDS_H_
