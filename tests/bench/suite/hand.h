// Loops by hand, as wide as the machine: what memory allows, and the only peer of
// work that no library does. Written with vector extensions of the compiler and
// compiled for several generations of x86, of which the loader takes the best.
#ifndef KILN_TESTS_BENCH_SUITE_HAND_H_
#define KILN_TESTS_BENCH_SUITE_HAND_H_

#include "tests/bench/suite/peers.h"
#include "tests/bench/suite/suite.h"

namespace kiln::bench {

// What the machine does at most on so many threads: fused multiply-adds, and copies
// of 4 MiB (caches) and 256 MiB (memory), counting bytes read and written.
struct Peaks {
  double gflops, cache_gbs, memory_gbs;
};
Peaks MeasurePeaks(int threads);

// (m, n) times (n), row by row.
Peer HandGemv(int64_t m, int64_t n);

// Counts are multiples of 16 from here on.
enum class Reduce { kSum, kMax };
Peer HandReduceAll(Reduce reduce_op, int64_t count);
Peer HandReduceRows(Reduce reduce_op, int64_t rows, int64_t columns);
Peer HandReduceColumns(Reduce reduce_op, int64_t rows, int64_t columns);
// Along the rows.
Peer HandSoftmax(int64_t rows, int64_t columns);
// Of each row, and its label.
Peer HandCrossEntropy(int64_t rows, int64_t columns);
// Of x, weight and bias.
Peer HandLayerNorm(int64_t rows, int64_t columns);
// Of queries, keys and values (heads, length, width): two products by a library, and
// softmax by hand between them, a head at a time.
Peer AttentionOf(const std::string& name, SingleSgemm (*find)(), int64_t heads, int64_t length, int64_t width);

// a * b + c, and elementwise_bench.cc's chain; streamed: the result past the caches.
Peer HandMulAdd(int64_t count, bool streamed);
Peer HandChain(int64_t count, bool streamed);
Peer HandExp(int64_t count);
// glibc's vector functions: "sinf" and so on, within 4 ulp.
Peer Mvec(const std::string& function, int64_t count);
// Of (n, n).
Peer HandTranspose(int64_t n);
// On one thread: a second one would have to read everything twice.
Peer HandRunningSum(int64_t count);
// Rows of a table, by int32.
Peer HandGather(int64_t ids, int64_t width);

}  // namespace kiln::bench

#endif  // KILN_TESTS_BENCH_SUITE_HAND_H_
