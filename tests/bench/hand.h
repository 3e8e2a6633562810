// Loops by hand, as wide as the machine: what memory allows, and the only peer of
// work that no library does. Written with vector extensions of the compiler and
// compiled for several generations of x86, of which the loader takes the best.
#ifndef KILN_TESTS_BENCH_HAND_H_
#define KILN_TESTS_BENCH_HAND_H_

#include "tests/bench/suite.h"

namespace kiln::bench {

// What the machine does at most on so many threads: fused multiply-adds, and copies
// of 4 MiB (caches) and 256 MiB (memory), counting bytes read and written.
struct Peaks {
  double gflops, cache_gbs, memory_gbs;
};
Peaks MeasurePeaks(int threads);

// (m, n) times (n), row by row.
Peer HandGemv(int64_t m, int64_t n);

}  // namespace kiln::bench

#endif  // KILN_TESTS_BENCH_HAND_H_
