// Ops of com.microsoft on integers that stand for floats: x = (q - zero point) * scale.
//
// Those that begin with QLinear take and give integers. Each is the op on the floats, quantized again; what a machine
// gains from integers it gains by reading a quarter of the bytes, for the products go by another way (byte_products.h,
// as QLinearConv and QLinearMatMul, which are the standard's).
//
// Tested by tests/onnx/fused_quantized_test.py.
#include "models/onnx/ops/byte_products.h"
#include "models/onnx/ops/spatial.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

// A scale or a zero point that is one number, of shape () or (1).
absl::StatusOr<Tensor> One(Node& node, size_t i) {
  const Tensor given = node.In(i);
  if (!given.valid() || given.sizes().Count() == 1) return given.valid() ? Reshape(given, Sizes()) : given;
  return node.Refuse(absl::StrCat("input ", i, " of ", ShapeText(given.sizes()), "; one number is taken"));
}

// The floats that input i stands for: its scale and zero point are the two after it.
absl::StatusOr<Tensor> Real(Node& node, size_t i) {
  if (!node.Has(i) || !node.Has(i + 1)) return node.Bad(absl::StrCat("input ", i, " or its scale is missing"));
  if (!IsByte(node.In(i).dtype()))
    return node.Refuse(absl::StrCat(DTypeName(node.In(i).dtype()), "; int8 and uint8 are taken"));
  KILN_ASSIGN_OR_RETURN(const Tensor scale, One(node, i + 1));
  KILN_ASSIGN_OR_RETURN(const Tensor zero, One(node, i + 2));
  Tensor whole = Cast(node.In(i), v1::INT32);
  if (zero.valid()) whole = whole - Cast(zero, v1::INT32);
  return Cast(whole, v1::FLOAT32) * Cast(scale, v1::FLOAT32);
}

// And back: the scale is input i, the zero point, if there is one, the one after it. Of x's dtype.
Result Whole(Node& node, Tensor real, size_t i, v1::DType dtype) {
  KILN_ASSIGN_OR_RETURN(const Tensor scale, One(node, i));
  KILN_ASSIGN_OR_RETURN(const Tensor zero, One(node, i + 1));
  if (!scale.valid()) return node.Bad(absl::StrCat("input ", i, ", a scale, is missing"));
  if (!IsByte(dtype)) return node.Refuse(absl::StrCat(DTypeName(dtype), "; int8 and uint8 are taken"));
  const Tensor quotient = RoundEven(real / Cast(scale, v1::FLOAT32));
  return SaturatedWhole(zero.valid() ? quotient + Cast(zero, v1::FLOAT32) : quotient, dtype);
}

// x, its scale and zero point, and those of the result.
template <typename F>
Result OfOne(Node& node, F&& f) {
  KILN_ASSIGN_OR_RETURN(const Tensor real, Real(node, 0));
  KILN_ASSIGN_OR_RETURN(const Tensor made, f(real));
  return Whole(node, made, 3, node.In(0).dtype());
}

// a and b, each with its scale and zero point, and those of the result.
template <typename F>
Result OfTwo(Node& node, F&& f) {
  KILN_ASSIGN_OR_RETURN(const Tensor a, Real(node, 0));
  KILN_ASSIGN_OR_RETURN(const Tensor b, Real(node, 3));
  return Whole(node, f(a, b), 6, node.In(0).dtype());
}

Result QLinearLeakyRelu(Node& node) {
  const double alpha = node.Float("alpha", 0.01F);
  return OfOne(node, [&](Tensor x) -> absl::StatusOr<Tensor> { return Where(x < 0.0, x * alpha, x); });
}

// Before opset 13 of the standard, which an attribute names, all axes from `axis` on are one. The axis itself is the
// last where it is not said: the standard's older default, 1, is not this op's.
Result QLinearSoftmax(Node& node) {
  return OfOne(node, [&](Tensor x) -> absl::StatusOr<Tensor> {
    const bool one = node.Int("opset") >= 13;
    KILN_ASSIGN_OR_RETURN(const int64_t axis, node.Axis(node.Int("axis", -1), x.rank()));
    if (one) return Softmax(x, axis);
    return Reshape(Softmax(client::Flatten(x, axis), axis), x.sizes());
  });
}

// Channels may be last: then they are moved to where the standard has them, and back.
template <typename F>
absl::StatusOr<Tensor> ChannelsSecond(Node& node, Tensor x, F&& f) {
  if (x.rank() < 3) return node.Bad("takes (batch, channels, d1, …)");
  if (node.Int("channels_last") == 0) return f(x);
  std::vector<int64_t> forth = AllAxes(x.rank()), back = forth;
  std::rotate(forth.begin() + 1, forth.end() - 1, forth.end());
  std::rotate(back.begin() + 1, back.begin() + 2, back.end());
  KILN_ASSIGN_OR_RETURN(const Tensor made, f(Permute(x, forth)));
  return Permute(made, back);
}

Result QLinearGlobalAveragePool(Node& node) {
  return OfOne(node, [&](Tensor x) {
    return ChannelsSecond(node, x, [](Tensor y) -> absl::StatusOr<Tensor> {
      std::vector<int64_t> axes = AllAxes(y.rank());
      axes.erase(axes.begin(), axes.begin() + 2);
      return Mean(y, axes, true);
    });
  });
}

Result QLinearAveragePool(Node& node) {
  return OfOne(node, [&](Tensor x) { return ChannelsSecond(node, x, [&](Tensor y) { return Averaged(node, y); }); });
}

Result QLinearReduceMean(Node& node) {
  return OfOne(node, [&](Tensor x) -> absl::StatusOr<Tensor> {
    KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, node.Axes(node.Ints("axes", AllAxes(x.rank())), x.rank()));
    return Mean(x, axes, node.Int("keepdims", 1) != 0);
  });
}

// The scale and zero point of the result come first, and then three inputs for each tensor.
Result QLinearConcat(Node& node) {
  if (node.inputs() % 3 != 2) return node.Bad("takes a scale and a zero point, and three inputs for each tensor");
  if (!node.HasAttribute("axis")) return node.Bad("there is no attribute axis");
  std::vector<Tensor> parts;
  for (size_t i = 2; i < node.inputs(); i += 3) {
    if (!node.Has(i)) return node.Bad(absl::StrCat("input ", i, " is missing"));
    KILN_ASSIGN_OR_RETURN(const Tensor real, Real(node, i));
    parts.push_back(real);
  }
  KILN_ASSIGN_OR_RETURN(const int64_t axis, node.Axis(node.Int("axis"), node.In(2).rank()));
  return Whole(node, Joined(parts, axis), 0, node.In(2).dtype());
}

// A condition, and three inputs each for what is taken where it holds and where not.
Result QLinearWhere(Node& node) {
  KILN_ASSIGN_OR_RETURN(const Tensor a, Real(node, 1));
  KILN_ASSIGN_OR_RETURN(const Tensor b, Real(node, 4));
  return Whole(node, Where(node.In(0), a, b), 7, node.In(1).dtype());
}

// One number for all, or one a column.
Tensor Column(Tensor parameter) {
  return parameter.valid() && parameter.sizes().Count() == 1 ? Reshape(parameter, Sizes()) : parameter;
}

// Sums of products of integers, less their zero points. A zero point of b is one a column, where it is several.
absl::StatusOr<Tensor> IntegerSum(Node& node, Tensor a, Tensor zero_of_a, Tensor b, Tensor zero_of_b) {
  if (!IsByte(a.dtype()) || !IsByte(b.dtype()))
    return node.Bad(absl::StrCat(DTypeName(a.dtype()), " times ", DTypeName(b.dtype()), "; int8 and uint8 are taken"));
  if (const auto factors = ByteFactorsOf(node, a, zero_of_a, b, zero_of_b)) return MultipliedBytes(node, *factors);
  const auto centred = [](Tensor x, Tensor zero) {
    return zero.valid() ? Cast(x, v1::INT32) - Cast(Column(zero), v1::INT32) : Cast(x, v1::INT32);
  };
  return Matmul(centred(a, zero_of_a), centred(b, zero_of_b));
}

// a, b, their scales and zero points, a bias of floats; the product is float.
Result MatMulIntegerToFloat(Node& node) {
  KILN_ASSIGN_OR_RETURN(const Tensor sum, IntegerSum(node, node.In(0), node.In(4), node.In(1), node.In(5)));
  const Tensor product = Cast(sum, v1::FLOAT32) * (Column(node.In(2)) * Column(node.In(3)));
  return node.Has(6) ? product + node.In(6) : product;
}

// A float times integers: it is quantized first, as DynamicQuantizeLinear does, by the least and the greatest of it.
Result DynamicQuantizeMatMul(Node& node) {
  KILN_ASSIGN_OR_RETURN(const OpRow* row, FindOp(kStandard, "DynamicQuantizeLinear", kAny));
  KILN_ASSIGN_OR_RETURN(const Outputs quantized, row->function(node));
  const Tensor a = quantized.values[0].tensor, scale = quantized.values[1].tensor, zero = quantized.values[2].tensor;
  if (!a.valid()) return a;
  KILN_ASSIGN_OR_RETURN(const Tensor sum, IntegerSum(node, a, zero, node.In(1), node.In(3)));
  const Tensor product = Cast(sum, v1::FLOAT32) * (scale * Column(node.In(2)));
  return node.Has(4) ? product + node.In(4) : product;
}

// Gemm of integers. The bias is of int32, with the product's scale; the result is float if it has no scale.
Result QGemm(Node& node) {
  Tensor a = node.In(0), b = node.In(3);
  if (a.rank() != 2 || b.rank() != 2) return node.Bad("takes matrices");
  if (node.Int("transA") != 0) a = Transpose(a);
  if (node.Int("transB") != 0) b = Transpose(b);
  KILN_ASSIGN_OR_RETURN(Tensor sum, IntegerSum(node, a, node.In(2), b, node.In(5)));
  if (node.Has(6)) sum = sum + Cast(node.In(6), v1::INT32);
  const Tensor product = Cast(sum, v1::FLOAT32) * (Column(node.In(1)) * Column(node.In(4)) * node.Float("alpha", 1));
  if (!node.Has(7)) return product;
  return Whole(node, product, 7, node.Has(8) ? node.In(8).dtype() : node.In(0).dtype());
}

constexpr OpRow kRows[] = {
    {"QLinearAdd", 1, [](Node& node) { return OfTwo(node, [](Tensor a, Tensor b) { return a + b; }); }, 1, 8,
     kMicrosoft},
    {"QLinearMul", 1, [](Node& node) { return OfTwo(node, [](Tensor a, Tensor b) { return a * b; }); }, 1, 8,
     kMicrosoft},
    {"QLinearSigmoid", 1,
     [](Node& node) { return OfOne(node, [](Tensor x) -> absl::StatusOr<Tensor> { return Sigmoid(x); }); }, 1, 5,
     kMicrosoft},
    {"QLinearLeakyRelu", 1, QLinearLeakyRelu, 1, 5, kMicrosoft},
    {"QLinearSoftmax", 1, QLinearSoftmax, 1, 5, kMicrosoft},
    {"QLinearGlobalAveragePool", 1, QLinearGlobalAveragePool, 1, 5, kMicrosoft},
    {"QLinearAveragePool", 1, QLinearAveragePool, 1, 5, kMicrosoft},
    {"QLinearReduceMean", 1, QLinearReduceMean, 1, 5, kMicrosoft},
    {"QLinearConcat", 1, QLinearConcat, 2, kAny, kMicrosoft},
    {"QLinearWhere", 1, QLinearWhere, 1, 9, kMicrosoft},
    {"MatMulIntegerToFloat", 1, MatMulIntegerToFloat, 4, 7, kMicrosoft},
    {"DynamicQuantizeMatMul", 1, DynamicQuantizeMatMul, 3, 5, kMicrosoft},
    {"QGemm", 1, QGemm, 6, 9, kMicrosoft},
};

}  // namespace

OpRows FusedQuantizedOps() { return kRows; }

}  // namespace kiln::onnx
