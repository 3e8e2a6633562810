// Races: two threads use one byte, one of them writes, and nothing orders them.
//
// Time is counted in epochs: one of the group, which every barrier ends, and one of each warp, which
// its own synchronizations end. Two accesses of one epoch are in no order; nor, in memory that groups
// share, are any two of different groups.
#ifndef KILN_TESTS_SUPPORT_PTX_RACES_H_
#define KILN_TESTS_SUPPORT_PTX_RACES_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "tests/support/ptx/machine.h"

namespace kiln::testing::ptx {

class Races {
 public:
  // What `bytes` of memory are used for from here on. Of memory that `outlives` a group, groups race with each other.
  void Watch(uint64_t bytes, bool outlives);
  void BeginGroup(uint32_t threads);
  void EndEpoch() { ++epoch_; }
  void EndWarpEpoch(uint32_t warp) { ++warp_epochs_[warp]; }

  // The other thread, if this access races with one before. Nothing is watched beyond the bytes.
  std::optional<uint32_t> Read(uint32_t thread, uint64_t begin, uint32_t bytes);
  std::optional<uint32_t> Write(uint32_t thread, uint64_t begin, uint32_t bytes);

 private:
  // The last use, by one thread or by several. All zeros: there was none.
  struct Use {
    uint32_t epoch, warp_epoch;
    uint16_t thread;
    bool several;         // threads of one warp
    bool several_warps;   // threads of several
    bool several_groups;  // before this one, too
  };
  struct Byte {
    Use written, read;
  };
  struct Free {
    void operator()(Byte* bytes) const { std::free(bytes); }
  };
  bool Unordered(const Use& before, uint32_t thread) const;

  bool outlives_ = false;
  uint32_t epoch_ = 1, first_epoch_ = 1;  // now, and when the group began
  std::vector<uint32_t> warp_epochs_;
  uint64_t watched_ = 0;
  std::unique_ptr<Byte[], Free> bytes_;  // pages that nobody touches take no memory
};

// The same at addresses of the host, in those ranges that may be written.
class GlobalRaces {
 public:
  // Nothing is watched if that is more than `max_bytes`.
  void Watch(absl::Span<const Range> memory, uint64_t max_bytes);
  // The number of the byte at `address`, or none if it is not watched.
  std::optional<uint64_t> Number(uint64_t address) const;
  Races& races() { return races_; }

 private:
  struct Segment {
    uint64_t begin, end, number;
  };
  std::vector<Segment> segments_;
  Races races_;
};

}  // namespace kiln::testing::ptx

#endif  // KILN_TESTS_SUPPORT_PTX_RACES_H_
