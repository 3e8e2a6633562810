// Libraries that a suite's rows are measured beside. They are bound when a row asks
// for them, so that building and testing Kiln needs none; `./dev bench --setup`
// installs them. Where one is not there its Call is empty.
//
// Matrices are dense and row-major. Operands as the row's program takes them.
#ifndef KILN_TESTS_BENCH_SUITE_PEERS_H_
#define KILN_TESTS_BENCH_SUITE_PEERS_H_

#include "tests/bench/suite/suite.h"

namespace kiln::bench {

// The first library of these that the loader finds in the folder that KILN_PEERS
// names, or where it finds libraries by itself; null if none.
void* OpenLibrary(const std::vector<std::string>& names);

// scale * a * b into c on the calling thread alone; b is (k, n), or (n, k) if it is to
// be transposed.
using SingleSgemm = std::function<void(bool transpose_b, int64_t m, int64_t n, int64_t k, float scale, const float* a,
                                       const float* b, float* c)>;
SingleSgemm OpenBlasSingle();
SingleSgemm OneDnnSingle();

// (m, k) times (k, n), or times a transposed (n, k).
Peer OpenBlasSgemm(int64_t m, int64_t n, int64_t k, bool transpose_b = false);
Peer OneDnnSgemm(int64_t m, int64_t n, int64_t k, bool transpose_b = false);
// `count` products of (n, n) and (n, n).
Peer OpenBlasBatched(int64_t count, int64_t n);
Peer OneDnnBatched(int64_t count, int64_t n);
// (m, k) times (k, n) of other dtypes, into float32.
Peer OneDnnMatmul(int64_t m, int64_t n, int64_t k, v1::DType a, v1::DType b);
Peer XsmmBatched(int64_t count, int64_t n);
// (m, n) times (n).
Peer OpenBlasSgemv(int64_t m, int64_t n);

// Of one image (1, in, image, image) with weights (out, in, kernel, kernel), padded by
// half the kernel.
struct ConvolutionSizes {
  int64_t in, out, kernel, stride, image;
  int64_t side() const { return (image + 2 * (kernel / 2) - kernel) / stride + 1; }  // of the result
};
// In the layouts that it chooses for all three, which it is given beforehand.
Peer OneDnnConvolution(const ConvolutionSizes& sizes);

// Of each element; the values are oneDNN's.
enum class Function { kExp = 191, kLog = 239, kTanh = 47 };
Peer OneDnnElementwise(Function function, int64_t count);

// Of (n, n).
Peer OneDnnTranspose(int64_t n);

// Along the rows.
Peer OneDnnSoftmax(int64_t rows, int64_t columns);
// Of x, weight and bias.
Peer OneDnnLayerNorm(int64_t rows, int64_t columns);

}  // namespace kiln::bench

#endif  // KILN_TESTS_BENCH_SUITE_PEERS_H_
