#include "tests/support/amd/wave_ops.h"

#include <cstdint>
#include <cstring>

namespace kiln::testing::amd {
namespace {

template <typename T>
T Read(const void* place) {
  T value;
  std::memcpy(&value, place, sizeof(value));
  return value;
}

// DS_SWIZZLE_B32 with bit 15 of its pattern clear: within each 32 items, from the number that the masks make of an
// item's own. What an item that is not there would have is anybody's guess.
void Swizzle(absl::Span<const WaveLane> lanes) {
  constexpr size_t kHalf = 32;
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    if (lanes[lane].result == nullptr) continue;
    const auto pattern = Read<uint32_t>(lanes[lane].operands[1]);
    const size_t keep = pattern & 31, set = pattern >> 5 & 31, turn = pattern >> 10 & 31;
    const size_t from = lane / kHalf * kHalf + (((lane % kHalf & keep) | set) ^ turn);
    const bool there = from < lanes.size() && lanes[from].result != nullptr;
    const uint32_t word = there ? Read<uint32_t>(lanes[from].operands[0]) : 0x7fc0a5a5;
    std::memcpy(lanes[lane].result, &word, sizeof(word));
  }
}

constexpr WaveOp kOps[] = {
    {"llvm.amdgcn.ds.swizzle", Swizzle},
};

}  // namespace

absl::Span<const WaveOp> WaveOps() { return kOps; }

const WaveOp* FindWaveOp(absl::string_view name) {
  for (const WaveOp& op : kOps) {
    if (name == op.name) return &op;
  }
  return nullptr;
}

}  // namespace kiln::testing::amd
