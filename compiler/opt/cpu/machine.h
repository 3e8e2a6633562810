// The CPU as the model of cycles sees it (matmul.cc, lanes_apart.cc): vectors, caches, and what a core does in a cycle,
// as it was measured (Target.Tuning.Core) or, where it was not, as on a server core of Intel with vectors of 64 bytes.
//
// A figure is of one thing alone, over and over. What of it is left beside multiply-adds stands here, too: it was found
// on such a core by timing products and convolutions, and says how much the processor overlaps, which cores have in
// common. On AMD's Zen 4 and 5 these have not been timed.
//
// Tested by tests/conformance/schedules/four_cores_test.cc.
#ifndef KILN_COMPILER_OPT_CPU_MACHINE_H_
#define KILN_COMPILER_OPT_CPU_MACHINE_H_

#include <cstdint>

#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// -- Cycles that nobody measures: what cores of the last ten years have in common.
inline constexpr double kLoadWeight = 0.04;      // of a load that the ports have room for: it may miss
inline constexpr double kPackedCycles = 3;       // of one vector of a copy that was made beforehand: it lies far away
inline constexpr double kApartCycles = 3;        // of one element that is copied by itself
inline constexpr double kPackCycles = 12;        // of one vector of words, for dot products
inline constexpr double kTileCycles = 16;        // of a product of two registers of a matrix unit
inline constexpr double kTileLoadCycles = 20;    // of such a register, from the L2 cache
inline constexpr double kTileStartCycles = 60;   // of a sum of them that begins, and is read
inline constexpr double kMemoryStartFactor = 2;  // times the cost of a new tile, if accumulators come from memory
inline constexpr double kReduceCycles = 6;       // of the lanes of one accumulator onto each other
// -- Sizes.
inline constexpr int64_t kRowsApart = 8;          // rows that one set of the L1 cache can hold at once
inline constexpr int64_t kMinBlock = 96;          // rows that are worth a copy of the other operand
inline constexpr int64_t kMinShare = 16;          // of which one of a core's own is better than none
inline constexpr int64_t kIterationsPerCore = 8;  // enough for an even share

// How much faster bytes come from beyond the L2 cache than one after the other, as most of the wait hides: of an
// operand that each panel reads anew; of what a chain of kernels streams; of pixels, which are few beside the
// multiply-adds.
inline constexpr double kReadAnewOverlap = 1.5, kStreamOverlap = 2, kPixelOverlap = 2.5;

struct Machine {
  // `item`: bytes of an element.
  Machine(const v1::Target& target, int64_t item);

  // Of `rows` times `vectors` multiply-adds, whose operands are loaded for them from the L1 cache.
  double MultiplyCycles(double rows, double vectors) const;
  // With one of the overlaps above, but never faster than the L2 cache.
  double FarBytesPerCycle(double overlap) const;

  int64_t lanes, registers, cores, l1_bytes, l2_bytes;

  // Cycles of one vector from the L2 cache, as far as that does not hide; of one into a local buffer, plainly, through
  // a transposed square tile, and under a gate; and of one element that lies apart.
  double l2_vector_cycles, copy_cycles, transpose_cycles, gated_cycles, gather_cycles;

 private:
  double fmas_per_cycle_, fma_latency_, loads_per_cycle_, far_bytes_per_cycle_, l2_bytes_per_cycle_;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_CPU_MACHINE_H_
