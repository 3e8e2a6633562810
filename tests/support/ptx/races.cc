#include "tests/support/ptx/races.h"

#include <algorithm>

#include "base/check.h"

namespace kiln::testing::ptx {

void Races::Watch(uint64_t bytes, bool outlives) {
  outlives_ = outlives;
  watched_ = bytes;
  bytes_.reset(bytes == 0 ? nullptr : static_cast<Byte*>(std::calloc(bytes, sizeof(Byte))));
  KILN_CHECK(bytes == 0 || bytes_ != nullptr);
}

void Races::BeginGroup(uint32_t threads) {
  first_epoch_ = ++epoch_;  // what the last group left is of an older one
  warp_epochs_.assign((threads + 31) / 32, 1);
}

bool Races::Unordered(const Use& before, uint32_t thread) const {
  if (before.epoch == 0) return false;
  if (outlives_ && (before.several_groups || before.epoch < first_epoch_)) return true;
  if (before.epoch != epoch_) return false;
  if (before.several_warps) return true;
  if (before.thread == thread && !before.several) return false;
  const bool same_warp = before.thread / 32 == thread / 32;
  return !same_warp || before.warp_epoch == warp_epochs_[thread / 32];
}

std::optional<uint32_t> Races::Read(uint32_t thread, uint64_t begin, uint32_t bytes) {
  if (begin >= watched_) return std::nullopt;
  const uint32_t warp_epoch = warp_epochs_[thread / 32];
  for (uint64_t i = begin; i < begin + bytes; ++i) {
    if (Unordered(bytes_[i].written, thread)) return bytes_[i].written.thread;
    Use& read = bytes_[i].read;
    if (read.epoch != epoch_) {
      const bool by_others = read.several_groups || (read.epoch != 0 && read.epoch < first_epoch_);
      read = {epoch_, warp_epoch, static_cast<uint16_t>(thread), false, false, by_others};
    } else if (read.thread != thread) {
      if (read.thread / 32 != thread / 32) read.several_warps = true;
      read.several = true;
      read.warp_epoch = warp_epoch;
    } else {
      read.warp_epoch = warp_epoch;
    }
  }
  return std::nullopt;
}

std::optional<uint32_t> Races::Write(uint32_t thread, uint64_t begin, uint32_t bytes) {
  if (begin >= watched_) return std::nullopt;
  for (uint64_t i = begin; i < begin + bytes; ++i) {
    Byte& byte = bytes_[i];
    if (Unordered(byte.written, thread)) return byte.written.thread;
    if (Unordered(byte.read, thread)) return byte.read.thread;
    byte.written = {epoch_, warp_epochs_[thread / 32], static_cast<uint16_t>(thread), false, false, false};
  }
  return std::nullopt;
}

void GlobalRaces::Watch(absl::Span<const Range> memory, uint64_t max_bytes) {
  std::vector<Segment> writable;
  for (const Range& range : memory) {
    if (range.writable && range.bytes > 0) writable.push_back({range.begin, range.begin + range.bytes, 0});
  }
  std::sort(writable.begin(), writable.end(), [](const Segment& a, const Segment& b) { return a.begin < b.begin; });
  uint64_t bytes = 0;
  for (const Segment& next : writable) {
    if (!segments_.empty() && next.begin <= segments_.back().end) {
      bytes += std::max(next.end, segments_.back().end) - segments_.back().end;
      segments_.back().end = std::max(next.end, segments_.back().end);
    } else {
      segments_.push_back({next.begin, next.end, bytes});
      bytes += next.end - next.begin;
    }
  }
  if (bytes > max_bytes) segments_.clear(), bytes = 0;
  races_.Watch(bytes, true);
}

std::optional<uint64_t> GlobalRaces::Number(uint64_t address) const {
  for (const Segment& segment : segments_) {
    if (address >= segment.begin && address < segment.end) return segment.number + (address - segment.begin);
  }
  return std::nullopt;
}

}  // namespace kiln::testing::ptx
