#include "tests/bench/suite/team.h"

#include <algorithm>

namespace kiln::bench {
namespace {

constexpr int kSpins = 10'000;  // of 10 to 40 ns
constexpr uint32_t kPiecesEach = 8;

void Pause() { __builtin_ia32_pause(); }

uint32_t Front(uint64_t state) { return static_cast<uint32_t>(state >> 16) & 0xFFFF; }
uint32_t Back(uint64_t state) { return static_cast<uint32_t>(state) & 0xFFFF; }

}  // namespace

Team::Team(int threads) : threads_(threads), pieces_(threads == 1 ? 1 : kPiecesEach * static_cast<uint32_t>(threads)) {
  for (int worker = 1; worker < threads; ++worker) workers_.emplace_back([this] { WorkerMain(); });
}

Team::~Team() {
  ending_ = true;
  round_.fetch_add(1);
  round_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Team::Work(bool from_the_back) {
  uint64_t state = state_.load(std::memory_order_acquire);
  while (Front(state) < Back(state)) {
    const uint64_t next = from_the_back ? state - 1 : state + (1 << 16);
    if (!state_.compare_exchange_weak(state, next, std::memory_order_acq_rel)) continue;
    const int64_t piece = from_the_back ? Back(next) : Front(state);
    const int64_t grains = (count_ + grain_ - 1) / grain_;
    const int64_t begin = grains * piece / pieces_ * grain_;
    const int64_t end = std::min(count_, grains * (piece + 1) / pieces_ * grain_);
    if (begin < end) (*body_)(begin, end);
    done_.fetch_add(1, std::memory_order_release);
    state = state_.load(std::memory_order_acquire);
  }
}

void Team::For(int64_t count, const Body& body, int64_t grain) {
  body_ = &body;
  count_ = count;
  grain_ = grain;
  done_.store(0, std::memory_order_relaxed);
  const uint32_t round = round_.load(std::memory_order_relaxed) + 1;
  state_.store(uint64_t{round} << 32 | pieces_, std::memory_order_release);
  round_.store(round, std::memory_order_release);
  if (!workers_.empty()) round_.notify_all();
  Work(/*from_the_back=*/false);
  for (int spin = 0; done_.load(std::memory_order_acquire) != pieces_; ++spin) {
    // A worker may have been woken on this very core.
    spin < kSpins / 10 ? Pause() : std::this_thread::yield();
  }
}

void Team::WorkerMain() {
  uint32_t seen = 0;
  while (!ending_) {
    for (int spin = 0; spin < kSpins && round_.load(std::memory_order_acquire) == seen; ++spin) Pause();
    round_.wait(seen, std::memory_order_acquire);
    seen = round_.load(std::memory_order_acquire);
    Work(/*from_the_back=*/true);
  }
}

}  // namespace kiln::bench
