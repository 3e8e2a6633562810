#include "tests/support/ptx/races.h"

namespace kiln::testing::ptx {

void Races::Begin(uint64_t bytes, uint32_t threads, bool enabled) {
  enabled_ = enabled && bytes > 0;
  epoch_ += 1;  // what the last group left is of an older one
  warp_epochs_.assign((threads + 31) / 32, 1);
  bytes_.resize(enabled_ ? bytes : 0);
}

bool Races::Unordered(const Use& before, uint32_t thread) const {
  if (before.epoch != epoch_) return false;
  if (before.several_warps) return true;
  if (before.thread == thread && !before.several) return false;
  const bool same_warp = before.thread / 32 == thread / 32;
  return !same_warp || before.warp_epoch == warp_epochs_[thread / 32];
}

std::optional<uint32_t> Races::Read(uint32_t thread, uint64_t begin, uint32_t bytes) {
  if (!enabled_) return std::nullopt;
  const uint32_t warp_epoch = warp_epochs_[thread / 32];
  for (uint64_t i = begin; i < begin + bytes; ++i) {
    if (Unordered(bytes_[i].written, thread)) return bytes_[i].written.thread;
    Use& read = bytes_[i].read;
    if (read.epoch != epoch_) {
      read = {epoch_, warp_epoch, static_cast<uint16_t>(thread), false, false};
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
  if (!enabled_) return std::nullopt;
  for (uint64_t i = begin; i < begin + bytes; ++i) {
    Byte& byte = bytes_[i];
    if (Unordered(byte.written, thread)) return byte.written.thread;
    if (Unordered(byte.read, thread)) return byte.read.thread;
    byte.written = {epoch_, warp_epochs_[thread / 32], static_cast<uint16_t>(thread), false, false};
  }
  return std::nullopt;
}

}  // namespace kiln::testing::ptx
