#include "tests/bench/suite/hand.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "tests/bench/suite/hand_vector.h"

namespace kiln::bench {
namespace {

[[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
float Dot(const float* x, const float* y, int64_t count) {
  Vector a = {}, b = {}, c = {}, d = {};
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    a += At(x + i) * At(y + i);
    b += At(x + i + kLanes) * At(y + i + kLanes);
    c += At(x + i + 2 * kLanes) * At(y + i + 2 * kLanes);
    d += At(x + i + 3 * kLanes) * At(y + i + 3 * kLanes);
  }
  const Vector sums = (a + b) + (c + d);
  float sum = Total(sums);
  for (; i < count; ++i) sum += x[i] * y[i];
  return sum;
}

// So many rounds of 16 independent fused multiply-adds of a whole vector.
[[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
float MultiplyAdd(int64_t rounds) {
  constexpr int kChains = 16;
  Vector sums[kChains];
  Vector x, y;
  for (int chain = 0; chain < kChains; ++chain)
    sums[chain] = Vector{} + static_cast<float>(chain);  // else they are one
  for (int lane = 0; lane < kLanes; ++lane) {
    x[lane] = 0.5f;
    y[lane] = static_cast<float>(lane);
  }
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int chain = 0; chain < kChains; ++chain) sums[chain] = sums[chain] * x + y;
  }
  for (int chain = 1; chain < kChains; ++chain) sums[0] += sums[chain];
  return Total(sums[0]);
}

// The rate of the best of several calls.
template <typename Function>
double BestRate(double amount, int turns, Function function) {
  double best = 1e9;
  for (int turn = 0; turn < turns; ++turn) {
    const auto start = std::chrono::steady_clock::now();
    function();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return amount / best / 1e9;
}

double CopyRate(Team& team, int64_t bytes, int turns) {
  std::vector<char> from(static_cast<size_t>(bytes), 1), to(from.size(), 2);
  return BestRate(2.0 * static_cast<double>(bytes), turns, [&] {
    team.For(bytes, [&](int64_t begin, int64_t end) { std::memcpy(&to[begin], &from[begin], end - begin); }, 4096);
  });
}

}  // namespace

Peaks MeasurePeaks(int threads) {
  Team team(threads);
  constexpr int64_t kRounds = 2'000'000;
  volatile float sink = 0;
  const double flops = 2.0 * 16 * kLanes * kRounds * threads;
  Peaks peaks;
  peaks.gflops =
      BestRate(flops, 20, [&] { team.For(threads, [&](int64_t, int64_t) { sink = MultiplyAdd(kRounds); }); });
  peaks.cache_gbs = CopyRate(team, 4 << 20, 100);
  peaks.memory_gbs = CopyRate(team, 256 << 20, 5);
  return peaks;
}

Peer HandGemv(int64_t m, int64_t n) {
  return {"hand", [=](const Operands& of) -> Call {
            return {[=] {
              of.team.For(m, [&](int64_t begin, int64_t end) {
                for (int64_t row = begin; row < end; ++row) of.out[row] = Dot(of.in[0] + row * n, of.in[1], n);
              });
            }};
          }};
}

}  // namespace kiln::bench
