// Products of quantized tensors as sums of products of 8-bit numbers.
//
// A quantized tensor stands for (q - zero point) * scale. Who subtracts before multiplying has factors of 9 bits, which
// no machine multiplies many at a time; of factors that are 8-bit numbers, widened and nothing else, the compiler makes
// dot products (compiler/kernel/dots.h). Where the weight's zero point is 0 and x's is one number, the subtraction may
// come afterwards:
//
//   sum of (x - z) * w  =  sum of x * w  -  z * sum of w
//
// The second sum is of the weight alone: a number for each channel that leaves. Of a weight that the file holds it is
// computed at import. All is in int32, which wraps, so the two sides are equal bit by bit.
#ifndef KILN_MODELS_ONNX_OPS_BYTE_PRODUCTS_H_
#define KILN_MODELS_ONNX_OPS_BYTE_PRODUCTS_H_

#include <cstdint>
#include <optional>

#include "models/onnx/ops/spatial.h"

namespace kiln::onnx {

struct ByteFactors {
  Tensor x, weight;  // int8 or uint8, as they are
  // x's zero point: a number, or where only each call knows it an int32 of shape ().
  std::optional<int32_t> number;
  Tensor zero;
};

bool IsByte(v1::DType dtype);

// Whether something is around what the windows slide over.
bool IsPadded(const Window& window);

// None where x and weight are no such factors: then the zero points must be subtracted first. Zero points that are
// invalid are 0. `padded`: x will have its zero point around it, as a number that the program knows.
std::optional<ByteFactors> ByteFactorsOf(Node& node, Tensor x, Tensor zero, Tensor weight, Tensor weight_zero,
                                         bool padded = false);

// The int32 sums of Convolved, with x's zero point for padding.
absl::StatusOr<Tensor> ConvolvedBytes(Node& node, const ByteFactors& factors, int64_t groups, const Window& window);
// Those of a product of matrices, each turned first if it says so.
Tensor MultipliedBytes(Node& node, const ByteFactors& factors, bool turned_x = false, bool turned_weight = false);

// A product of floats that DequantizeLinear made of such factors:
//
//   sum of (x - z) * x_scale * w * w_scale  =  (sum of (x - z) * w) * (x_scale * w_scale)
//
// The sum of integers is exact, and rounded once when it becomes a float; the sum of floats is rounded at each term, so
// the two may differ by as much as that.
struct ScaledFactors {
  ByteFactors factors;
  Tensor scale;  // of the sums: of shape (), or one for each channel
};
// Of the inputs 0, x, and 1, the weight, if they are that: x has one scale, the weight may have one for each place
// along its axis `channels`, and the sum of `terms` products does not wrap. Else none.
std::optional<ScaledFactors> ScaledFactorsOf(Node& node, int64_t channels, int64_t terms, bool padded = false);

}  // namespace kiln::onnx

#endif  // KILN_MODELS_ONNX_OPS_BYTE_PRODUCTS_H_
