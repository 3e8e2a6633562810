// Races in shared memory: two threads use one byte, one of them writes, and nothing orders them.
//
// Time is counted in epochs: one of the group, which every barrier ends, and one of each warp, which
// its own synchronizations end. Two accesses of one epoch are in no order.
#ifndef KILN_TESTS_SUPPORT_PTX_RACES_H_
#define KILN_TESTS_SUPPORT_PTX_RACES_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace kiln::testing::ptx {

class Races {
 public:
  void Begin(uint64_t bytes, uint32_t threads, bool enabled);
  void EndEpoch() { ++epoch_; }
  void EndWarpEpoch(uint32_t warp) { ++warp_epochs_[warp]; }

  // The other thread, if this access races with one before.
  std::optional<uint32_t> Read(uint32_t thread, uint64_t begin, uint32_t bytes);
  std::optional<uint32_t> Write(uint32_t thread, uint64_t begin, uint32_t bytes);

 private:
  // The last use, by one thread or by several.
  struct Use {
    uint32_t epoch = 0, warp_epoch = 0;
    uint16_t thread = 0;
    bool several = false;        // threads of one warp
    bool several_warps = false;  // threads of several
  };
  struct Byte {
    Use written, read;
  };
  bool Unordered(const Use& before, uint32_t thread) const;

  bool enabled_ = false;
  uint32_t epoch_ = 1;
  std::vector<uint32_t> warp_epochs_;
  std::vector<Byte> bytes_;
};

}  // namespace kiln::testing::ptx

#endif  // KILN_TESTS_SUPPORT_PTX_RACES_H_
