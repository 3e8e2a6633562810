// Products of matrices: square ones, transposed ones, many small ones, and with a vector; and of
// narrow dtypes, summed up in 32 bits.
#include "tests/bench/suite/hand.h"
#include "tests/bench/suite/peers.h"
#include "tests/bench/suite/suite.h"

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

// Few results, each of a long sum.
Row DeepSgemm(int64_t n, int64_t k) {
  return {.name = "sgemm " + std::to_string(n) + " x " + std::to_string(n) + " over " + std::to_string(k),
          .flops = 2.0 * static_cast<double>(n * n * k),
          .bytes = 4.0 * static_cast<double>(2 * n * k + n * n),
          .inputs = {{{n, k}}, {{k, n}}},
          .program = Product,
          .peers = {OneDnnSgemm(n, n, k), OpenBlasSgemm(n, n, k)},
          .tolerance = 1e-3};
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

Tensor ProductInInt32(const std::vector<Tensor>& inputs) {
  return client::Cast(client::Matmul(client::Cast(inputs[0], v1::INT32), client::Cast(inputs[1], v1::INT32)),
                      v1::FLOAT32);
}

// Of 8-bit integers, summed up in int32.
Row Integers(int64_t m, int64_t n, int64_t k, v1::DType a) {
  const float low = a == v1::INT8 ? -128 : 0, high = a == v1::INT8 ? 128 : 256;
  return {.name = std::string(a == v1::INT8 ? "s8" : "u8") + " x s8 " + std::to_string(m) + " x " + std::to_string(n) +
                  " over " + std::to_string(k),
          .flops = 2.0 * static_cast<double>(m * n * k),
          .bytes = static_cast<double>(m * k + k * n + 4 * m * n),
          .inputs = {{{m, k}, low, high, 0, a}, {{k, n}, -128, 128, 0, v1::INT8}},
          .program = ProductInInt32,
          .peers = {OneDnnMatmul(m, n, k, a, v1::INT8)}};
}

Tensor ProductInFloat32(const std::vector<Tensor>& inputs) {
  return client::Matmul(client::Cast(inputs[0], v1::FLOAT32), client::Cast(inputs[1], v1::FLOAT32));
}

// Of 16-bit floats, summed up in float32.
Row HalfFloats(int64_t n, v1::DType dtype) {
  return {.name = std::string(dtype == v1::BFLOAT16 ? "bf16 " : "f16 ") + std::to_string(n),
          .flops = 2.0 * static_cast<double>(n * n * n),
          .bytes = 8.0 * static_cast<double>(n * n),
          .inputs = {{{n, n}, -1, 1, 0, dtype}, {{n, n}, -1, 1, 0, dtype}},
          .program = ProductInFloat32,
          .peers = {}};
}

// The peer multiplies as the processor's dot products do, which take subnormal numbers for zeros: what
// fast_math allows.
Row FastBfloats(int64_t n) {
  Row row = HalfFloats(n, v1::BFLOAT16);
  row.name += ", fast_math";
  row.peers = {OneDnnMatmul(n, n, n, v1::BFLOAT16, v1::BFLOAT16)};
  row.fast_math = true;
  return row;
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
  if (smoke) {
    return {Sgemm(24),      Sgemm(37),    TransposedB(9, 50, 33),          Integers(9, 50, 32, v1::INT8),
            Batched(3, 16), Gemv(40, 72), Integers(20, 33, 36, v1::UINT8), HalfFloats(24, v1::BFLOAT16),
            FastBfloats(32)};
  }
  // 50257: the words of GPT-2.
  return {Sgemm(128),
          Sgemm(256),
          Sgemm(512),
          Sgemm(1007),
          Sgemm(1024),
          Sgemm(2048),
          TransposedB(1024, 1024, 1024),
          TransposedB(64, 50257, 768),
          TransposedB(512, 512, 8192),
          DeepSgemm(256, 65536),
          DeepSgemm(64, 100000),
          Integers(512, 512, 512, v1::UINT8),
          Integers(512, 512, 512, v1::INT8),
          Integers(1024, 1024, 1024, v1::UINT8),
          Integers(1024, 1024, 1024, v1::INT8),
          FastBfloats(512),
          FastBfloats(1024),
          HalfFloats(512, v1::BFLOAT16),
          HalfFloats(1024, v1::BFLOAT16),
          HalfFloats(512, v1::FLOAT16),
          HalfFloats(1024, v1::FLOAT16),
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
