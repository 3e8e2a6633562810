#include "tests/bench/accuracy.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <random>
#include <thread>

#include "base/check.h"
#include "compiler/options/options.h"
#include "tests/support/engines/cpu_engine.h"

namespace kiln::bench {
namespace {

using compiler::DType;
using compiler::HostTensor;

constexpr int64_t kChunk = 1 << 16;

double Ulp(bool wide, long double truth) {
  const int least = wide ? -1074 : -149, mantissa = wide ? 52 : 23;
  if (truth == 0) return std::ldexp(1.0, least);
  return std::ldexp(1.0, std::max(std::ilogb(truth) - mantissa, least));
}

// Whether a float32 is surely no farther than `worst` from the truth: a quick look
// at what most samples are. An ulp is 2^-23 of the binade's least value, and that
// is more than half the truth.
bool Within(float got, long double truth, double worst) {
  const double value = static_cast<double>(truth), distance = std::fabs(got - value);
  return distance <= worst * 0x1p-24 * std::fabs(value) && std::fabs(value) < 1e38 && value != 0;
}
bool Within(double, long double, double) { return false; }

// -- Which arguments are tried

template <typename T, typename Bits, int mantissa>
class Sampler {
 public:
  explicit Sampler(uint64_t seed) : random_(seed) {}

  // The i-th of all exponents and signs in turn, with a random fraction.
  T Stratum(uint64_t i) {
    const Bits top = static_cast<Bits>(i) << mantissa;
    return std::bit_cast<T>(static_cast<Bits>(top | (static_cast<Bits>(random_()) & kFraction)));
  }

  T Special(uint64_t i) {
    constexpr T kInf = std::numeric_limits<T>::infinity(), kNan = std::numeric_limits<T>::quiet_NaN();
    constexpr T kMinPositive = std::numeric_limits<T>::denorm_min(), kNormal = std::numeric_limits<T>::min();
    constexpr T kMaxFinite = std::numeric_limits<T>::max(), kNext = 1 + std::numeric_limits<T>::epsilon();
    const T table[] = {0,         1,
                       2,         3,
                       0.5,       kInf,
                       kNan,      kMinPositive,
                       kNormal,   kMaxFinite,
                       kNext,     1.5,
                       1e3,       1024.5,
                       1e9,       1 / kNext,
                       0.25,      127,
                       128,       149,
                       150,       1023,
                       1024,      1074.5,
                       1e7,       16777215,
                       1e15,      T(9007199254740991.0),
                       T(0.3333), kMaxFinite / 2,
                       100,       10};
    const T value = table[i / 2 % std::size(table)];
    return i % 2 == 0 ? value : -value;
  }
  static constexpr uint64_t kSpecials = 64;

  T Unary(uint64_t i) {
    if (i < kSpecials) return Special(i);
    switch (i % 4) {
      case 0:  // near a multiple of pi/2, where sin is hardest
        return std::nextafter(static_cast<T>(1.5707963267948966192L * (random_() >> random_() % 63)),
                              std::numeric_limits<T>::max());
      case 1: return static_cast<T>(std::ldexp(static_cast<double>(random_()), -60) * (i % 8 == 1 ? 100 : -100));
      default: return Stratum(i / 4 * 2 + i % 2);
    }
  }

  // (x, y) whose power is mostly finite.
  void Pair(uint64_t i, T& x, T& y) {
    if (i < kSpecials * kSpecials) {
      x = Special(i / kSpecials);
      y = Special(i % kSpecials);
      return;
    }
    x = i % 3 == 0 ? static_cast<T>(std::exp2(std::ldexp(static_cast<double>(random_()), -63) - 1)) : Stratum(i);
    constexpr double kMaxExponent = sizeof(T) == 8 ? 1100 : 155;
    const double wanted = (std::ldexp(static_cast<double>(random_()), -63) - 1) * kMaxExponent;
    y = static_cast<T>(wanted / std::log2(std::fabs(static_cast<double>(x))));
    if (i % 5 < 2) y = std::nearbyint(y);
  }

 private:
  static constexpr Bits kFraction = (Bits{1} << mantissa) - 1;
  std::mt19937_64 random_;
};

// -- One chunk

template <typename T>
HostTensor TensorOf(const std::vector<T>& values) {
  HostTensor tensor;
  tensor.dtype = sizeof(T) == 8 ? DType::kFloat64 : DType::kFloat32;
  tensor.shape = {static_cast<int64_t>(values.size())};
  tensor.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return tensor;
}

// Both programs, on one thread.
class Runner {
 public:
  explicit Runner(const Function& function) : function_(function) {
    for (bool contraction : {true, false}) {
      compiler::Options options;
      options.contraction = contraction;
      auto program = engine_.Load(function.graph(kChunk), options);
      KILN_CHECK(program.ok());
      programs_.push_back(*std::move(program));
    }
  }

  template <typename T>
  void Try(const std::vector<T>& x, const std::vector<T>& y, Finding& finding) {
    compiler::HostTensors arguments;
    arguments[0] = TensorOf(x);
    if (function_.arguments == 2) arguments[1] = TensorOf(y);
    truth_.resize(x.size());
    for (size_t i = 0; i < x.size(); ++i) truth_[i] = function_.truth(x[i], y.empty() ? 0 : y[i]);
    finding.samples += x.size();
    for (int k = 0; k < 2; ++k) {
      const auto outcome = engine_.RunLoaded(programs_[k], arguments);
      KILN_CHECK(outcome.ok());
      const auto* got = reinterpret_cast<const T*>(outcome->results[0].bytes.data());
      for (size_t i = 0; i < x.size(); ++i) {
        if (Within(got[i], truth_[i], finding.worst[k])) continue;
        const double error = UlpError(function_.wide, got[i], truth_[i]);
        if (error <= finding.worst[k]) continue;
        finding.worst[k] = error;
        finding.at[k][0] = x[i];
        finding.at[k][1] = y.empty() ? 0 : y[i];
      }
    }
  }

 private:
  const Function& function_;
  testing::CpuEngine engine_{/*threads=*/1};
  std::vector<std::shared_ptr<runtime::LoadedExecutable>> programs_;
  std::vector<long double> truth_;
};

template <typename T, typename Bits, int mantissa>
void TryChunk(const Function& function, Runner& runner, uint64_t chunk, uint64_t share, Finding& finding) {
  std::vector<T> x(kChunk), y(function.arguments == 2 ? kChunk : 0);
  if (sizeof(T) == 4 && function.arguments == 1) {
    for (int64_t i = 0; i < kChunk; ++i) {
      const uint64_t index = (chunk * kChunk + static_cast<uint64_t>(i)) * share;
      x[i] = std::bit_cast<T>(static_cast<Bits>(index + (share > 1 ? chunk % share : 0)));
    }
  } else {
    Sampler<T, Bits, mantissa> sampler(chunk);
    for (int64_t i = 0; i < kChunk; ++i) {
      const uint64_t index = chunk * kChunk + static_cast<uint64_t>(i);
      if (function.arguments == 1) {
        x[i] = sampler.Unary(index);
      } else {
        sampler.Pair(index, x[i], y[i]);
      }
    }
  }
  runner.Try(x, y, finding);
}

}  // namespace

double UlpError(bool wide, double got, long double truth) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (std::isnan(got) || std::isnan(truth)) return std::isnan(got) && std::isnan(truth) ? 0 : kInf;
  // Beyond the greatest value infinity is right; so is the greatest value up to
  // the bound, if it is as near.
  const long double most = wide ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  const double gap = wide ? 0x1p971 : 0x1p104;
  if (std::isinf(got)) {
    if (std::isinf(truth)) return std::signbit(got) == std::signbit(truth) ? 0 : kInf;
    if (std::signbit(got) != std::signbit(truth)) return kInf;
    const long double beyond = most + gap / 2 - std::fabs(truth);
    return beyond <= 0 ? 0 : static_cast<double>(beyond / gap) + 0.5;
  }
  if (std::isinf(truth)) return kInf;
  if (truth == 0 && got == 0) return std::signbit(got) == std::signbit(truth) ? 0 : kInf;
  return static_cast<double>(std::fabs(static_cast<long double>(got) - truth) / Ulp(wide, truth));
}

Finding Examine(const Function& function, uint64_t share, int threads) {
  const bool all = !function.wide && function.arguments == 1;
  const uint64_t chunks = std::max<uint64_t>(1, (uint64_t{1} << 32) / kChunk / share / (all ? 1 : 64));
  Finding total;
  std::mutex mutex;
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      Runner runner(function);
      Finding mine;
      for (uint64_t chunk = static_cast<uint64_t>(t); chunk < chunks; chunk += static_cast<uint64_t>(threads)) {
        if (function.wide) {
          TryChunk<double, uint64_t, 52>(function, runner, chunk, share, mine);
        } else {
          TryChunk<float, uint32_t, 23>(function, runner, chunk, share, mine);
        }
      }
      const std::lock_guard lock(mutex);
      total.samples += mine.samples;
      for (int k = 0; k < 2; ++k) {
        if (mine.worst[k] <= total.worst[k]) continue;
        total.worst[k] = mine.worst[k];
        std::copy(mine.at[k], mine.at[k] + 2, total.at[k]);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  return total;
}

}  // namespace kiln::bench
