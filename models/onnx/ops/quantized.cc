// Integers that stand for floats: x = (q - zero point) * scale.
//
// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include "models/onnx/ops/byte_products.h"
#include "models/onnx/ops/common.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

// A scale or zero point as x needs it: one for all, one along an axis, or one for each block of an axis.
absl::StatusOr<Tensor> Spread(Node& node, Tensor parameter, Tensor x) {
  if (parameter.rank() == 0) return parameter;
  const int64_t block = node.Int("block_size");
  if (parameter.rank() == 1 && block == 0) {
    if (parameter.size(0) == 1) return Reshape(parameter, Sizes());
    KILN_ASSIGN_OR_RETURN(const int64_t axis, node.Axis(node.Int("axis", 1), x.rank()));
    return Along(parameter, axis, x.rank());
  }
  KILN_ASSIGN_OR_RETURN(const int64_t axis, node.Axis(node.Int("axis", 1), x.rank()));
  if (block < 1 || parameter.rank() != x.rank())
    return node.Bad(absl::StrCat("scales of ", ShapeText(parameter.sizes()), " for ", ShapeText(x.sizes())));
  KILN_ASSIGN_OR_RETURN(const int64_t size, node.Dim(x, axis));
  Sizes wide = parameter.sizes(), joined = parameter.sizes();
  wide.insert(wide.begin() + axis + 1, block);
  joined[axis] = joined[axis] * block;
  return Part(Reshape(BroadcastTo(Unsqueeze(parameter, axis + 1), wide), joined), axis, 0, size);
}

Result QuantizeLinear(Node& node) {
  const Tensor x = node.In(0);
  v1::DType dtype = v1::UINT8;
  if (node.HasAttribute("output_dtype") && node.Int("output_dtype") != 0) {
    KILN_ASSIGN_OR_RETURN(dtype, DTypeOf(static_cast<int>(node.Int("output_dtype"))));
  }
  if (node.Has(2)) dtype = node.In(2).dtype();
  KILN_ASSIGN_OR_RETURN(Tensor scale, Spread(node, node.In(1), x));
  Tensor quotient = Cast(Cast(x, v1::FLOAT32) / Cast(scale, v1::FLOAT32), v1::FLOAT32);
  // The division is in x's own type.
  if (IsNarrow(x.dtype()) && scale.dtype() == x.dtype()) quotient = Cast(Cast(quotient, x.dtype()), v1::FLOAT32);
  if (IsFloat(dtype)) {
    if (node.Int("saturate", 1) == 0) return Cast(quotient, dtype);
    const double most = dtype == v1::FLOAT8_E4M3 ? 448 : dtype == v1::FLOAT8_E4M3_FNUZ ? 240 : 57344;
    return Cast(Clamp(quotient, -most, most), dtype);
  }
  quotient = RoundEven(quotient);
  if (node.Has(2)) {
    KILN_ASSIGN_OR_RETURN(const Tensor zero, Spread(node, node.In(2), x));
    quotient = quotient + Cast(zero, v1::FLOAT32);
  }
  return SaturatedWhole(quotient, dtype);
}

// For the products of it that are sums of integers (byte_products.h). The floats are made all the same: who else wants
// them has them, and if nobody does, they are not in the program.
absl::Status Remember(Node& node, Tensor made) {
  const Tensor x = node.In(0), scale = node.In(1);
  const bool floats = made.dtype() == v1::FLOAT32 && scale.dtype() == v1::FLOAT32;
  if (!floats || !IsByte(x.dtype()) || scale.rank() > 1 || node.Int("block_size") != 0) return absl::OkStatus();
  if (made.sizes() != x.sizes()) return absl::OkStatus();
  Dequantized from{x, scale, node.In(2)};
  if (scale.rank() == 0 || scale.size(0) == 1) {
    from.scale = Reshape(scale, Sizes());
  } else {
    KILN_ASSIGN_OR_RETURN(from.axis, node.Axis(node.Int("axis", 1), x.rank()));
  }
  node.RememberDequantized(made, from);
  return absl::OkStatus();
}

Result DequantizeLinear(Node& node) {
  const Tensor x = node.In(0);
  KILN_ASSIGN_OR_RETURN(const Tensor scale, Spread(node, node.In(1), x));
  Tensor centred;
  if (IsFloat(x.dtype()) || !node.Has(2)) {
    centred = Cast(x, v1::FLOAT32);
  } else {
    KILN_ASSIGN_OR_RETURN(const Tensor zero, Spread(node, node.In(2), x));
    centred = Cast(Cast(x, v1::INT32) - Cast(zero, v1::INT32), v1::FLOAT32);
  }
  v1::DType dtype = scale.dtype();
  if (node.HasAttribute("output_dtype") && node.Int("output_dtype") != 0) {
    KILN_ASSIGN_OR_RETURN(dtype, DTypeOf(static_cast<int>(node.Int("output_dtype"))));
  }
  const Tensor made = Cast(centred * Cast(scale, v1::FLOAT32), dtype);
  KILN_RETURN_IF_ERROR(Remember(node, made));
  return made;
}

Result DynamicQuantizeLinear(Node& node) {
  const Tensor x = node.In(0);
  const Tensor most = Maximum(Max(x), 0.0), least = Minimum(Min(x), Filled(Min(x), 0));
  const Tensor range = most - least;
  const Tensor scale = Where(range == 0.0, Filled(range, 1), range) / 255.0;
  const Tensor zero = RoundEven(Clamp(0.0 - least / scale, 0, 255));
  return std::vector<Tensor>{SaturatedWhole(RoundEven(x / scale) + zero, v1::UINT8), scale, Cast(zero, v1::UINT8)};
}

// A zero point of the left is one a row, of the right one a column.
Tensor Centred(Tensor x, Tensor zero, bool rows) {
  const Tensor wide = Cast(x, v1::INT32);
  if (!zero.valid()) return wide;
  const Tensor point = Cast(zero, v1::INT32);
  if (zero.rank() == 1 && zero.size(0) == 1) return wide - Reshape(point, Sizes());
  return wide - (rows && zero.rank() == 1 ? Unsqueeze(point, -1) : point);
}

// By 8-bit factors where that is possible, else by what is left of them without their zero points.
Tensor IntegerSum(Node& node, Tensor a, Tensor zero_of_a, Tensor b, Tensor zero_of_b) {
  if (const auto factors = ByteFactorsOf(node, a, zero_of_a, b, zero_of_b)) return MultipliedBytes(node, *factors);
  return Matmul(Centred(a, zero_of_a, true), Centred(b, zero_of_b, false));
}

Result MatMulInteger(Node& node) { return IntegerSum(node, node.In(0), node.In(2), node.In(1), node.In(3)); }

Tensor Scale(Tensor scale, bool rows) {
  const Tensor wide = Widened(scale);
  if (scale.rank() == 1 && scale.size(0) == 1) return Reshape(wide, Sizes());
  return rows && scale.rank() == 1 ? Unsqueeze(wide, -1) : wide;
}

Result QLinearMatMul(Node& node) {
  const Tensor sum = IntegerSum(node, node.In(0), node.In(2), node.In(3), node.In(5));
  const Tensor scale = Scale(node.In(1), true) * Scale(node.In(4), false) / Scale(node.In(6), true);
  const Tensor zero = node.In(7).rank() == 1 && node.In(7).size(0) == 1 ? Reshape(node.In(7), Sizes()) : node.In(7);
  return SaturatedWhole(RoundEven(Cast(sum, v1::FLOAT32) * scale) + Cast(zero, v1::FLOAT32), node.In(7).dtype());
}

constexpr OpRow kRows[] = {
    {"QuantizeLinear", 10, QuantizeLinear, 2, 3},
    {"DequantizeLinear", 10, DequantizeLinear, 2, 3, kStandard, false, true},
    {"DynamicQuantizeLinear", 11, DynamicQuantizeLinear, 1, 1},
    {"MatMulInteger", 10, MatMulInteger, 2, 4},
    {"QLinearMatMul", 10, QLinearMatMul, 8, 8},
    {"QuantizeLinear", 1, QuantizeLinear, 2, 3, kMicrosoft},
    {"DequantizeLinear", 1, DequantizeLinear, 2, 3, kMicrosoft, false, true},
};

}  // namespace

OpRows QuantizedOps() { return kRows; }

}  // namespace kiln::onnx
