#include "tests/bench/team.h"

#include <algorithm>

namespace kiln::bench {
namespace {

constexpr int kSpins = 1000;  // of some 20 ns

void Pause() { __builtin_ia32_pause(); }

}  // namespace

Team::Team(int threads) {
  for (int part = 1; part < threads; ++part) workers_.emplace_back([this, part] { Work(part); });
}

Team::~Team() {
  ending_ = true;
  round_.fetch_add(1);
  round_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Team::RunPart(int part) const {
  const int64_t grains = (count_ + grain_ - 1) / grain_;
  const int64_t begin = grains * part / threads() * grain_;
  const int64_t end = std::min(count_, grains * (part + 1) / threads() * grain_);
  if (begin < end) (*body_)(begin, end);
}

void Team::For(int64_t count, const Body& body, int64_t grain) {
  body_ = &body;
  count_ = count;
  grain_ = grain;
  if (!workers_.empty()) {
    left_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
  }
  RunPart(0);
  while (left_.load(std::memory_order_acquire) != 0) Pause();
}

void Team::Work(int part) {
  uint32_t seen = 0;
  while (true) {
    for (int spin = 0; spin < kSpins && round_.load(std::memory_order_acquire) == seen; ++spin) Pause();
    while (round_.load(std::memory_order_acquire) == seen) round_.wait(seen, std::memory_order_acquire);
    seen = round_.load(std::memory_order_acquire);
    if (ending_) return;
    RunPart(part);
    left_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace kiln::bench
