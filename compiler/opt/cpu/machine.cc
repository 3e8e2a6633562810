#include "compiler/opt/cpu/machine.h"

#include <algorithm>

namespace kiln::compiler {
namespace {

// Figures where there are none.
constexpr double kFmasPerCycle = 2, kFmaLatency = 4, kLoadsPerCycle = 2, kL2LoadCycles = 1.5, kL2StoreCycles = 4;
constexpr double kFarBytesPerCycle = 8, kGatherCycles = 1;
constexpr int64_t kWidestBytes = 64;  // of these vectors

// Of the loads that the ports could do, so many are done beside multiply-adds: each waits for a line or a place in a
// queue now and then.
constexpr double kLoadShare = 0.75;
// Of a copied vector, at least: its row is found, it is loaded, and it is stored.
constexpr double kMinCopyCycles = 2;
// More than of a plain copy: shuffles; a gate, and what it is computed from.
constexpr double kShuffleCycles = 2, kGateCycles = 4;
// Of the line of an element that lies apart, which is rarely in the L1 cache, nor its page at hand.
constexpr double kLineCycles = 4;

double Or(float figure, double usual) { return figure > 0 ? static_cast<double>(figure) : usual; }

}  // namespace

Machine::Machine(const v1::Target& target, int64_t item) {
  const v1::Target::Tuning& tuning = target.tuning();
  const int64_t vector_bytes = tuning.vector_bytes() ? tuning.vector_bytes() : 16;
  lanes = std::max<int64_t>(1, vector_bytes / item);
  registers = tuning.vector_registers() ? tuning.vector_registers() : 16;
  cores = std::max<int64_t>(1, tuning.cores());
  l1_bytes = tuning.l1_bytes() ? static_cast<int64_t>(tuning.l1_bytes()) : 32 << 10;
  l2_bytes = tuning.l2_bytes() ? static_cast<int64_t>(tuning.l2_bytes()) : 1 << 20;

  const v1::Target::Tuning::Core& core = tuning.core();
  const double loads = Or(core.loads_per_cycle(), kLoadsPerCycle);
  const double l2_load = Or(core.l2_load_cycles(), kL2LoadCycles);
  const double l2_store = Or(core.l2_store_cycles(), kL2StoreCycles);
  fmas_per_cycle_ = Or(core.fmas_per_cycle(), kFmasPerCycle);
  fma_latency_ = Or(core.fma_latency(), kFmaLatency);
  loads_per_cycle_ = kLoadShare * loads;
  far_bytes_per_cycle_ = Or(core.far_bytes_per_cycle(), kFarBytesPerCycle);
  l2_bytes_per_cycle_ = static_cast<double>(core.l2_load_cycles() > 0 ? vector_bytes : kWidestBytes) / l2_load;
  l2_vector_cycles = std::max(0.0, l2_load - 1 / loads);
  // A load and a store of two vectors go on at once. A panel ends in the L2 cache.
  copy_cycles = std::max({l2_load, l2_store, kMinCopyCycles});
  transpose_cycles = copy_cycles + kShuffleCycles;
  gated_cycles = copy_cycles + kGateCycles;
  gather_cycles = Or(core.gather_cycles(), kGatherCycles) + kLineCycles;
}

double Machine::MultiplyCycles(double rows, double vectors) const {
  return std::max({rows * vectors / fmas_per_cycle_, (rows + vectors) / loads_per_cycle_, fma_latency_});
}

double Machine::FarBytesPerCycle(double overlap) const {
  return std::min(overlap * far_bytes_per_cycle_, std::max(far_bytes_per_cycle_, l2_bytes_per_cycle_));
}

}  // namespace kiln::compiler
