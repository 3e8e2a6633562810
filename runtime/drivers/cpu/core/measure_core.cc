#include "runtime/drivers/cpu/core/measure_core.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/algorithm/container.h"
#include "absl/functional/function_ref.h"
#include "runtime/drivers/cpu/core/loops.h"

namespace kiln::runtime::cpu {
namespace {

using Core = v1::Target::Tuning::Core;
using Clock = std::chrono::steady_clock;

// Other work on the machine makes a loop slower, never faster: the best of several times is the core's. Each round
// measures everything once, so that all of these times lie far apart. Where the time is over, it is over.
constexpr int kRounds = 16, kFewestRounds = 2;
constexpr std::chrono::milliseconds kTime{80};

constexpr int64_t kIterations = 1000;  // of a loop in registers: some microseconds
constexpr int64_t kMinFar = int64_t{8} << 20, kMaxFar = int64_t{16} << 20;
constexpr int64_t kNearBytes = 4096, kPlaceStep = 256;

// A full vector is slower than two halves if its clock is: by how much, before anybody should care.
constexpr double kSlower = 1.125;

double Seconds(absl::FunctionRef<void()> loop) {
  const Clock::time_point begin = Clock::now();
  loop();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The best times of a loop, and of a chain of additions right behind it, when the clock is still that of the loop.
class Best {
 public:
  void Try(absl::FunctionRef<void()> loop) {
    loop();  // caches are filled, and units that slept are awake
    TryCold(loop);
  }
  void TryCold(absl::FunctionRef<void()> loop) {
    loop_ = std::min(loop_, Seconds(loop));
    adds_ = std::min(adds_, Seconds([] { AddChain(kAdds); }));
  }
  double seconds() const { return loop_; }
  double cycles() const { return loop_ / adds_ * static_cast<double>(kAdds * kAddsUnrolled); }

 private:
  static constexpr int64_t kAdds = 300;
  double loop_ = std::numeric_limits<double>::infinity(), adds_ = std::numeric_limits<double>::infinity();
};

// Memory that is there: each page has been written.
class Memory {
 public:
  explicit Memory(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
    void* data = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (data == MAP_FAILED) return;
    data_ = static_cast<char*>(data);
    // Pages that were only read may all be one.
    for (size_t at = 0; at < bytes_; at += 4096) data_[at] = 1;
  }
  ~Memory() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  char* data() const { return data_; }

 private:
  size_t bytes_;
  char* data_ = nullptr;
};

bool Has(const v1::Target& target, const char* feature) { return absl::c_linear_search(target.features(), feature); }

// -- Rounding.

// Of something of which a core has a whole number, of which other work takes a part.
double Ports(double measured) { return std::clamp(std::ceil(measured - 0.4), 1.0, 4.0); }

// 1, 2, 4, 8, …: the caches that all cores share, and the memory, are busy with others' work.
double Octaves(double measured, double least, double most) {
  return std::exp2(std::round(std::log2(std::clamp(measured, least, most))));
}

// 1, 1.5, 2, 3, 4, 6, 8, 12, …
double HalfOctaves(double measured, double least, double most) {
  const double step = std::round(2 * std::log2(std::clamp(measured, least, most)));
  const double octave = std::exp2(std::floor(step / 2));
  return std::fmod(step, 2) == 0 ? octave : octave * 1.5;
}

bool Known(double figure) { return std::isfinite(figure) && figure > 0; }

}  // namespace

Core MeasureCore(const v1::Target& target) {
  const v1::Target::Tuning& tuning = target.tuning();
  const VectorLoops* loops = LoopsOf(tuning.vector_bytes());
  const VectorLoops* halves = LoopsOf(tuning.vector_bytes() / 2);
  if (loops == nullptr || !Has(target, "+avx2") || !Has(target, "+fma")) return Core();
  if (loops->vector_bytes == 64 && !Has(target, "+avx512f")) return Core();

  const auto l2_bytes = static_cast<int64_t>(tuning.l2_bytes());
  const int64_t far_bytes = std::clamp(4 * l2_bytes, kMinFar, kMaxFar);
  const Memory memory(far_bytes);
  char* const data = memory.data();
  if (data == nullptr) return Core();
  int64_t places[8];
  for (int64_t i = 0; i < 8; ++i) places[i] = i * kPlaceStep;

  const Clock::time_point end = Clock::now() + kTime;
  if (halves != nullptr) {
    Best full, half;
    for (int round = 0; round < kRounds && (round < kFewestRounds || Clock::now() < end); ++round) {
      full.Try([&] { loops->fmas(2 * kIterations); });
      half.Try([&] { halves->fmas(2 * kIterations); });
    }
    // As many FMAs of half as many lanes.
    if (2 * half.seconds() * kSlower < full.seconds()) loops = halves;
  }
  const int64_t step = kUnrolled * loops->vector_bytes;
  const int64_t l2_iterations = std::clamp(l2_bytes / 4, 2 * kNearBytes, far_bytes) / step;
  const int64_t far_iterations = far_bytes / step;
  Best fmas, chain, loads, l2_loads, l2_stores, gathers, far;
  for (int round = 0; round < kRounds && (round < kFewestRounds || Clock::now() < end); ++round) {
    fmas.Try([&] { loops->fmas(2 * kIterations); });
    chain.Try([&] { loops->fma_chain(kIterations / 4); });
    loads.Try([&] { loops->loads(data, 0, 2 * kIterations); });
    gathers.Try([&] { loops->gathers(data, places, kIterations / 2); });
    l2_loads.Try([&] { loops->loads(data, step, l2_iterations); });
    l2_stores.Try([&] { loops->stores(data, step, l2_iterations); });
    far.TryCold([&] { loops->loads(data, step, far_iterations); });
  }
  Core core;
  core.set_vector_bytes(loops->vector_bytes);
  core.set_fmas_per_cycle(static_cast<float>(2 * kIterations * kAccumulators / fmas.cycles()));
  core.set_fma_latency(static_cast<float>(chain.cycles() / (kIterations / 4 * kAccumulators)));
  core.set_loads_per_cycle(static_cast<float>(2 * kIterations * kUnrolled / loads.cycles()));
  core.set_l2_load_cycles(static_cast<float>(l2_loads.cycles() / static_cast<double>(l2_iterations * kUnrolled)));
  core.set_l2_store_cycles(static_cast<float>(l2_stores.cycles() / static_cast<double>(l2_iterations * kUnrolled)));
  core.set_far_bytes_per_cycle(static_cast<float>(static_cast<double>(far_iterations * step) / far.cycles()));
  core.set_gather_cycles(static_cast<float>(gathers.cycles() / static_cast<double>(kIterations / 2 * loops->gathered)));
  return core;
}

Core Rounded(const Core& measured) {
  Core core;
  if (measured.vector_bytes() != 64 && measured.vector_bytes() != 32) return core;
  core.set_vector_bytes(measured.vector_bytes());
  const auto set = [&](double figure, double rounded, void (Core::*setter)(float)) {
    if (Known(figure)) (core.*setter)(static_cast<float>(rounded));
  };
  const double fmas = measured.fmas_per_cycle(), latency = measured.fma_latency(), loads = measured.loads_per_cycle();
  const double l2_load = measured.l2_load_cycles(), l2_store = measured.l2_store_cycles();
  const double far = measured.far_bytes_per_cycle(), gather = measured.gather_cycles();
  set(fmas, Ports(fmas), &Core::set_fmas_per_cycle);
  set(latency, std::clamp(std::round(latency), 2.0, 10.0), &Core::set_fma_latency);
  set(loads, Ports(loads), &Core::set_loads_per_cycle);
  set(l2_load, HalfOctaves(l2_load, 0.5, 8), &Core::set_l2_load_cycles);
  set(l2_store, HalfOctaves(l2_store, 0.5, 16), &Core::set_l2_store_cycles);
  set(far, Octaves(far, 1, 64), &Core::set_far_bytes_per_cycle);
  set(gather, HalfOctaves(gather, 1, 16), &Core::set_gather_cycles);
  return core;
}

}  // namespace kiln::runtime::cpu
