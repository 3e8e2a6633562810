// Products of float32 matrices: square ones, transposed ones, many small ones, and with a vector.
#include "tests/bench/hand.h"
#include "tests/bench/peers.h"
#include "tests/bench/suite.h"

namespace kiln::bench {
namespace {

using client::Tensor;

Tensor Product(const std::vector<Tensor>& inputs) { return client::Matmul(inputs[0], inputs[1]); }

Row Sgemm(int64_t n) {
  return {.name = "sgemm " + std::to_string(n),
          .flops = 2.0 * static_cast<double>(n * n * n),
          .bytes = 12.0 * static_cast<double>(n * n),
          .inputs = {{{n, n}}, {{n, n}}},
          .program = Product,
          .peers = {OneDnnSgemm(n, n, n), OpenBlasSgemm(n, n, n)}};
}

Tensor ProductOfRows(const std::vector<Tensor>& inputs) {
  return client::Matmul(inputs[0], client::Transpose(inputs[1]));
}

// With the second transposed: rows by rows, as the layers of networks have their weights.
Row TransposedB(int64_t m, int64_t n, int64_t k) {
  return {.name = "sgemm " + std::to_string(m) + " x " + std::to_string(n) + " over " + std::to_string(k) + ", b^T",
          .flops = 2.0 * static_cast<double>(m * n * k),
          .bytes = 4.0 * static_cast<double>(m * k + n * k + m * n),
          .inputs = {{{m, k}}, {{n, k}}},
          .program = ProductOfRows,
          .peers = {OneDnnSgemm(m, n, k, true), OpenBlasSgemm(m, n, k, true)}};
}

Row Batched(int64_t count, int64_t n) {
  return {.name = "batched " + std::to_string(count) + " x " + std::to_string(n) + "^3",
          .flops = 2.0 * static_cast<double>(count * n * n * n),
          .bytes = 12.0 * static_cast<double>(count * n * n),
          .inputs = {{{count, n, n}}, {{count, n, n}}},
          .program = Product,
          .peers = {OneDnnBatched(count, n), XsmmBatched(count, n), OpenBlasBatched(count, n)}};
}

// So little is computed that only the matrix's bytes count.
Row Gemv(int64_t m, int64_t n) {
  return {.name = "gemv " + std::to_string(m) + " x " + std::to_string(n),
          .bytes = 4.0 * static_cast<double>(m * n + m + n),
          .inputs = {{{m, n}}, {{n}}},
          .program = Product,
          .peers = {OpenBlasSgemv(m, n), HandGemv(m, n)}};
}

std::vector<Row> Rows(bool smoke) {
  if (smoke) return {Sgemm(24), Sgemm(37), TransposedB(9, 50, 33), Batched(3, 16), Gemv(40, 72)};
  // 50257: the words of GPT-2.
  return {Sgemm(128),
          Sgemm(256),
          Sgemm(512),
          Sgemm(1007),
          Sgemm(1024),
          Sgemm(2048),
          TransposedB(1024, 1024, 1024),
          TransposedB(64, 50257, 768),
          Batched(256, 16),
          Batched(64, 32),
          Batched(16, 64),
          Batched(4, 128),
          Gemv(1024, 4096),
          Gemv(8192, 8192)};
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) { return kiln::bench::RunSuite(argc, argv, "gemm", kiln::bench::Rows); }
