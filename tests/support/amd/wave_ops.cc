#include "tests/support/amd/wave_ops.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <vector>

namespace kiln::testing::amd {
namespace {

template <typename T>
T Read(const void* place) {
  T value;
  std::memcpy(&value, place, sizeof(value));
  return value;
}

// What an item that is not there would have: anybody's guess.
constexpr uint32_t kNobodys = 0x7fc0a5a5;

// DS_SWIZZLE_B32 with bit 15 of its pattern clear: within each 32 items, from the number that the masks make of an
// item's own.
void Swizzle(absl::Span<const WaveLane> lanes) {
  constexpr size_t kHalf = 32;
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    if (lanes[lane].result == nullptr) continue;
    const auto pattern = Read<uint32_t>(lanes[lane].operands[1]);
    const size_t keep = pattern & 31, set = pattern >> 5 & 31, turn = pattern >> 10 & 31;
    const size_t from = lane / kHalf * kHalf + (((lane % kHalf & keep) | set) ^ turn);
    const bool there = from < lanes.size() && lanes[from].result != nullptr;
    const uint32_t word = there ? Read<uint32_t>(lanes[from].operands[0]) : kNobodys;
    std::memcpy(lanes[lane].result, &word, sizeof(word));
  }
}

// DS_BPERMUTE_B32: from the item that each asks for, by four times its number.
void Permute(absl::Span<const WaveLane> lanes) {
  for (const WaveLane& lane : lanes) {
    if (lane.result == nullptr) continue;
    const WaveLane& from = lanes[Read<uint32_t>(lane.operands[0]) / 4 % lanes.size()];
    const uint32_t word = from.result != nullptr ? Read<uint32_t>(from.operands[1]) : kNobodys;
    std::memcpy(lane.result, &word, sizeof(word));
  }
}

// V_MBCNT_LO_U32_B32: how many bits of a mask are set below an item's number, of the first 32 items; and a number.
void CountBelow(absl::Span<const WaveLane> lanes) {
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    if (lanes[lane].result == nullptr) continue;
    const auto mask = Read<uint32_t>(lanes[lane].operands[0]);
    const uint32_t below = lane < 32 ? mask & ((uint32_t{1} << lane) - 1) : mask;
    const uint32_t count = static_cast<uint32_t>(std::popcount(below)) + Read<uint32_t>(lanes[lane].operands[1]);
    std::memcpy(lanes[lane].result, &count, sizeof(count));
  }
}

constexpr WaveOp kOps[] = {
    {"llvm.amdgcn.ds.swizzle", Swizzle},
    {"llvm.amdgcn.ds.bpermute", Permute},
    {"llvm.amdgcn.mbcnt.lo", CountBelow},
};

}  // namespace

absl::Span<const WaveOp> WaveOps() {
  static const auto& all = *[] {
    auto* ops = new std::vector<WaveOp>(std::begin(kOps), std::end(kOps));  // never freed: others point into it
    ops->insert(ops->end(), MatrixOps().begin(), MatrixOps().end());
    return ops;
  }();
  return all;
}

const WaveOp* FindWaveOp(absl::string_view name) {
  for (const WaveOp& op : WaveOps()) {
    if (name == op.name) return &op;
  }
  return nullptr;
}

}  // namespace kiln::testing::amd
