#include "tests/gpu/tile_cases.h"

#include "client/cpp/ops.h"

namespace kiln::testing {
namespace {

using client::ConvOptions;
using client::Shape;
using client::Tensor;
using client::Transpose;

constexpr v1::DType kHalf = v1::FLOAT16, kBfloat = v1::BFLOAT16, kFloat = v1::FLOAT32, kDouble = v1::FLOAT64;

// In what factors of the dtype are added up in.
Tensor Product(const Tensor& a, const Tensor& b, v1::DType dtype) {
  return In(dtype == v1::INT8 ? v1::INT32 : dtype == kDouble ? kDouble : kFloat, a, b);
}

Tensor Conv(Made& m, v1::DType dtype, const Shape& image, const Shape& weight, const ConvOptions& options = {}) {
  const Tensor x = m.Param(dtype, image);
  return client::Conv2d(x, m.Param(dtype, weight), Tensor(), options);
}

// Rows of A and columns of B; of each the neighbours in memory are along the depth, or not.
template <int64_t kRows, int64_t kColumns, int64_t kDepth>
Tensor Plain(Made& m, v1::DType t) {
  const Tensor a = m.Param(t, {kRows, kDepth});
  return Product(a, m.Param(t, {kDepth, kColumns}), t);
}
template <int64_t kRows, int64_t kColumns, int64_t kDepth>
Tensor OfTransposedB(Made& m, v1::DType t) {
  const Tensor a = m.Param(t, {kRows, kDepth});
  return Product(a, Transpose(m.Param(t, {kColumns, kDepth})), t);
}
template <int64_t kRows, int64_t kColumns, int64_t kDepth>
Tensor OfTransposedA(Made& m, v1::DType t) {
  const Tensor a = Transpose(m.Param(t, {kDepth, kRows}));
  return Product(a, m.Param(t, {kDepth, kColumns}), t);
}
template <int64_t kRows, int64_t kColumns, int64_t kDepth>
Tensor OfBothTransposed(Made& m, v1::DType t) {
  const Tensor a = Transpose(m.Param(t, {kDepth, kRows}));
  return Product(a, Transpose(m.Param(t, {kColumns, kDepth})), t);
}

// All that may be done with a product in its kernel.
template <int64_t kRows, int64_t kColumns, int64_t kDepth>
Tensor Followed(Made& m, v1::DType t) {
  const Tensor a = m.Param(t, {kRows, kDepth});
  const Tensor product = client::Matmul(a, m.Param(t, {kDepth, kColumns}));
  const Tensor bias = client::Relu(product + m.Param(t, {kColumns}));
  return client::Cast(bias + m.Param(t, {kRows, kColumns}), kFloat);
}

template <int64_t kBatch, int64_t kRows, int64_t kColumns, int64_t kDepth>
Tensor Batched(Made& m, v1::DType t) {
  const Tensor a = m.Param(t, {kBatch, kRows, kDepth});
  return Product(a, m.Param(t, {kBatch, kDepth, kColumns}), t);
}

// Of a matrix that begins at row 3 and column `kColumn` of another.
template <int64_t kColumn>
Tensor InTheMiddle(Made& m, v1::DType t) {
  const Tensor a = client::Slice(client::Slice(m.Param(t, {2051, 272}), 1, kColumn, kColumn + 256), 0, 3, 2051);
  return Product(a, m.Param(t, {256, 2304}), t);
}

Tensor ChannelsLast(Made& m, v1::DType t) {
  const Tensor x = client::Permute(m.Param(t, {8, 56, 56, 64}), {0, 3, 1, 2});
  const Tensor w = client::Permute(m.Param(t, {128, 3, 3, 64}), {0, 3, 1, 2});
  return client::Permute(client::Conv2d(x, w, Tensor(), {.padding = {1, 1}}), {0, 2, 3, 1});
}

Tensor FollowedConvolution(Made& m, v1::DType t) {
  const Tensor x = m.Param(t, {4, 16, 56, 56});
  const Tensor made = client::Conv2d(x, m.Param(t, {16, 16, 3, 3}), m.Param(t, {16}), {.padding = {1, 1}});
  return client::Cast(client::Relu(made + x), kFloat);
}

}  // namespace

const std::vector<TileCase>& TileCases() {
  static const std::vector<TileCase> cases = {
      {"float16, wide tiles", kHalf, Plain<2304, 2048, 256>},
      {"bfloat16, wide tiles, B transposed", kBfloat, OfTransposedB<2304, 2048, 264>},
      {"float16, odd rows and columns", kHalf, OfTransposedB<2301, 2043, 200>},
      {"bfloat16, an odd depth, A transposed", kBfloat, OfTransposedA<2304, 2048, 333>},
      {"float16, fewer cores' worth", kHalf, Plain<1536, 1536, 512>},
      {"bfloat16, a deep product", kBfloat, OfTransposedB<1024, 2304, 4096>},
      {"float16, all odd", kHalf, Plain<2027, 2531, 333>},
      {"bfloat16, all odd, both transposed", kBfloat, OfBothTransposed<1027, 1531, 77>},
      {"float16, small", kHalf, Plain<300, 200, 500>},
      {"float16, batched", kHalf, Batched<5, 1000, 1024, 104>},
      {"bfloat16, batched, odd", kBfloat, Batched<7, 515, 509, 75>},
      {"float16, with what follows", kHalf, Followed<2304, 2048, 64>},
      {"float16, odd, with what follows", kHalf, Followed<1999, 2049, 61>},
      {"float16, beginning in the middle", kHalf, InTheMiddle<8>},
      {"float16, beginning beside 16 bytes", kHalf, InTheMiddle<3>},
      {"float8_e4m3", v1::FLOAT8_E4M3, Plain<2048, 2304, 256>},
      {"float8_e5m2, odd, B transposed", v1::FLOAT8_E5M2, OfTransposedB<2027, 2301, 205>},
      {"int8, B transposed", v1::INT8, OfTransposedB<2048, 2304, 256>},
      {"int8, odd", v1::INT8, Plain<2027, 2301, 205>},
      {"int8, batched, small", v1::INT8, Batched<6, 130, 250, 90>},
      {"float64", kDouble, Plain<2048, 2304, 128>},
      {"float64, odd, both transposed", kDouble, OfBothTransposed<1027, 1531, 77>},
      {"float32 by tf32", kFloat, Plain<2048, 2304, 256>, true},
      {"float32 by tf32, odd, A transposed", kFloat, OfTransposedA<2027, 2301, 205>, true},
      {"float32", kFloat, Plain<2304, 4096, 256>},
      {"float32, odd, B transposed", kFloat, OfTransposedB<2027, 2301, 205>},
      {"float32, with what follows", kFloat, Followed<2304, 4097, 64>},
      {"1x1 convolution", kHalf, [](Made& m, v1::DType t) { return Conv(m, t, {8, 64, 56, 56}, {128, 64, 1, 1}); }},
      {"1x1 convolution, every other pixel", kHalf,
       [](Made& m, v1::DType t) { return Conv(m, t, {8, 64, 56, 56}, {128, 64, 1, 1}, {.stride = {2, 2}}); }},
      {"3x3 convolution", kHalf,
       [](Made& m, v1::DType t) { return Conv(m, t, {8, 64, 56, 56}, {128, 64, 3, 3}, {.padding = {1, 1}}); }},
      {"3x3 convolution, channels last", kHalf, ChannelsLast},
      {"3x3 convolution, odd, dilated", kBfloat,
       [](Made& m, v1::DType t) {
         return Conv(m, t, {3, 37, 51, 49}, {99, 37, 3, 3}, {.padding = {2, 2}, .dilation = {2, 2}});
       }},
      {"7x7 convolution, every other pixel", kHalf,
       [](Made& m, v1::DType t) {
         return Conv(m, t, {4, 3, 112, 112}, {64, 3, 7, 7}, {.stride = {2, 2}, .padding = {3, 3}});
       }},
      {"3x3 convolution, with what follows", kHalf, FollowedConvolution},
  };
  return cases;
}

}  // namespace kiln::testing
