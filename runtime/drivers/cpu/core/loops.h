// Loops whose time says what a core does in a cycle. They are assembly, so that they are the same in every build.
// Tested by runtime/drivers/cpu/core/measure_core_test.cc.
#ifndef KILN_RUNTIME_DRIVERS_CPU_CORE_LOOPS_H_
#define KILN_RUNTIME_DRIVERS_CPU_CORE_LOOPS_H_

#include <cstdint>

namespace kiln::runtime::cpu {

inline constexpr int64_t kUnrolled = 8;       // loads or stores of an iteration
inline constexpr int64_t kAccumulators = 12;  // FMAs of one; more than any core has under way at once
inline constexpr int64_t kAddsUnrolled = 32;

// Those of vectors so wide. `n` is of iterations.
struct VectorLoops {
  uint32_t vector_bytes;
  int64_t gathered;              // elements of a gather
  void (*fmas)(int64_t n);       // kAccumulators, each of its own sum
  void (*fma_chain)(int64_t n);  // kAccumulators, each of what the last one made
  // kUnrolled neighbouring vectors an iteration, which begins `step` bytes behind the last one.
  void (*loads)(const char* data, int64_t step, int64_t n);
  void (*stores)(char* data, int64_t step, int64_t n);
  // One gather of float32 an iteration, from `places` bytes behind `data`, and 4 bytes further each time.
  void (*gathers)(const char* data, const int64_t* places, int64_t n);
};

// Of 64 bytes, which take AVX-512, and of 32, which take AVX2 and FMA: it is the caller who knows that the core has
// them. Null where there are none.
const VectorLoops* LoopsOf(uint32_t vector_bytes);

// kAddsUnrolled additions an iteration, each of what the last one made: a cycle each, on every core. It takes AVX, as
// all of these do.
void AddChain(int64_t n);

}  // namespace kiln::runtime::cpu

#endif  // KILN_RUNTIME_DRIVERS_CPU_CORE_LOOPS_H_
