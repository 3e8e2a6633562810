// Products of integers by 8-bit factors (models/onnx/ops/byte_products.h): the standard's values, bit by bit, and which
// of them are sums of products of 8-bit numbers.
#include <algorithm>
#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "tests/onnx/quantized_models.h"

namespace kiln::testing {
namespace {

constexpr auto kInt8 = TensorProto::INT8, kUint8 = TensorProto::UINT8, kInt32 = TensorProto::INT32;

// A convolution of images, as the standard says it, in int32.
struct Convolution {
  Whole x, weight;
  int64_t zero = 0;
  std::vector<int64_t> weight_zeros = {0};
  int64_t groups = 1;
  std::vector<int64_t> pads = {0, 0, 0, 0}, strides = {1, 1};

  std::vector<int32_t> Expected() const {
    const int64_t batch = x.dims[0], in = x.dims[1], h = x.dims[2], w = x.dims[3];
    const int64_t out = weight.dims[0], each = weight.dims[1], kh = weight.dims[2], kw = weight.dims[3];
    const int64_t rows = (h + pads[0] + pads[2] - kh) / strides[0] + 1;
    const int64_t columns = (w + pads[1] + pads[3] - kw) / strides[1] + 1;
    std::vector<int32_t> sums;
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t o = 0; o < out; ++o) {
        const int64_t first = o / (out / groups) * each;
        const int64_t weight_zero = weight_zeros[weight_zeros.size() == 1 ? 0 : static_cast<size_t>(o)];
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = 0; c < columns; ++c) {
            int64_t sum = 0;
            for (int64_t i = 0; i < each * kh * kw; ++i) {
              const int64_t channel = first + i / (kh * kw);
              const int64_t row = r * strides[0] - pads[0] + i / kw % kh, column = c * strides[1] - pads[1] + i % kw;
              if (row < 0 || row >= h || column < 0 || column >= w) continue;
              const int64_t value = x.at(static_cast<size_t>(((n * in + channel) * h + row) * w + column));
              sum += (value - zero) * (weight.at(static_cast<size_t>(o * each * kh * kw + i)) - weight_zero);
            }
            sums.push_back(static_cast<int32_t>(sum));
          }
        }
      }
    }
    return sums;
  }
};

enum class Zeros { kAbsent, kHeld, kHeldInAList, kGiven };

QuantizedModel ConvInteger(const Convolution& from, Zeros zeros) {
  QuantizedModel model;
  const Whole zero{
      from.x.type, zeros == Zeros::kHeldInAList ? std::vector<int64_t>{1} : std::vector<int64_t>{}, {from.zero}};
  model.Input("x", from.x);
  if (zeros == Zeros::kGiven) {
    model.Input("zero", zero);
  } else if (zeros != Zeros::kAbsent) {
    model.Constant("zero", zero);
  }
  model.Constant("w", from.weight);
  const bool one = from.weight_zeros.size() == 1;
  model.Constant("w_zero", {from.weight.type, one ? std::vector<int64_t>{} : std::vector<int64_t>{from.weight.dims[0]},
                            from.weight_zeros});
  model.Node("ConvInteger", {"x", "w", zeros == Zeros::kAbsent ? "" : "zero", "w_zero"});
  model.Ints("pads", from.pads);
  model.Ints("strides", from.strides);
  model.Int("group", from.groups);
  return model;
}

TEST(ByteProducts, ConvolutionsSubtractAZeroPointThatIsHeldAfterwards) {
  struct Row {
    TensorProto::DataType x, weight;
    int64_t zero;
    Zeros zeros;
  };
  for (const Row& row : {Row{kUint8, kInt8, 0, Zeros::kAbsent}, Row{kUint8, kInt8, 0, Zeros::kHeld},
                         Row{kUint8, kInt8, 128, Zeros::kHeld}, Row{kUint8, kInt8, 3, Zeros::kHeldInAList},
                         Row{kInt8, kInt8, 3, Zeros::kHeld}, Row{kInt8, kInt8, -128, Zeros::kHeldInAList},
                         Row{kInt8, kUint8, -5, Zeros::kHeld}, Row{kUint8, kUint8, 200, Zeros::kHeld}}) {
    for (const int64_t groups : {1, 2}) {
      for (const std::vector<int64_t>& pads : {std::vector<int64_t>{0, 0, 0, 0}, {1, 0, 2, 1}}) {
        Convolution from{Drawn(row.x, {2, 4, 5, 6}, 1), Drawn(row.weight, {6, 4 / groups, 3, 2}, 2), row.zero};
        from.groups = groups;
        from.pads = pads;
        from.strides = {2, 1};
        QuantizedModel model = ConvInteger(from, row.zeros);
        EXPECT_EQ(model.Run<int32_t>(), from.Expected()) << row.zero << " " << groups << " " << pads[0];
        EXPECT_TRUE(model.SumsBytes());
        // The sums of the weight are a constant; there is one for no zero point of 0.
        int reductions = 0;
        for (const v1::UOp& uop : model.model().graph.nodes()) reductions += uop.op() == v1::REDUCE ? 1 : 0;
        EXPECT_EQ(reductions, 1);
      }
    }
  }
}

TEST(ByteProducts, AZeroPointThatEachCallGivesIsNoPadding) {
  Convolution from{Drawn(kUint8, {1, 3, 4, 4}, 3), Drawn(kInt8, {20, 3, 2, 2}, 4), 77};
  QuantizedModel whole = ConvInteger(from, Zeros::kGiven);
  // More channels than stand in the program: the sums of the weight are a constant of their own.
  EXPECT_EQ(whole.Run<int32_t>(), from.Expected());
  EXPECT_TRUE(whole.SumsBytes());
  EXPECT_EQ(whole.model().constants.size(), 2);
  // That the value is offered does not make it a part of the program.
  onnx::ImportOptions offered;
  offered.values["zero"] = client::HostTensor::Scalar<uint8_t>(5);
  EXPECT_EQ(whole.Run<int32_t>(offered), from.Expected());
  EXPECT_FALSE(whole.model().inputs[1].fixed);

  from.pads = {1, 1, 1, 1};
  QuantizedModel padded = ConvInteger(from, Zeros::kGiven);
  EXPECT_EQ(padded.Run<int32_t>(), from.Expected());
  EXPECT_FALSE(padded.SumsBytes());
}

TEST(ByteProducts, AWeightWithZeroPointsIsCentred) {
  Convolution from{Drawn(kUint8, {1, 2, 4, 4}, 5), Drawn(kInt8, {3, 2, 2, 2}, 6), 9};
  from.weight_zeros = {0, 0, 0};
  QuantizedModel zeros = ConvInteger(from, Zeros::kHeld);
  EXPECT_EQ(zeros.Run<int32_t>(), from.Expected());
  EXPECT_TRUE(zeros.SumsBytes());
  for (const std::vector<int64_t>& points : {std::vector<int64_t>{0, 7, 0}, {4}}) {
    from.weight_zeros = points;
    QuantizedModel model = ConvInteger(from, Zeros::kHeld);
    EXPECT_EQ(model.Run<int32_t>(), from.Expected());
    EXPECT_FALSE(model.SumsBytes());
  }
}

TEST(ByteProducts, WhatMayNotBeAddedUpAtImportTheProgramAddsUp) {
  const Convolution from{Drawn(kUint8, {1, 3, 4, 4}, 3), Drawn(kInt8, {20, 3, 2, 2}, 4), 77};
  QuantizedModel model = ConvInteger(from, Zeros::kHeld);
  onnx::ImportOptions options;
  options.limits.added_bytes = 20 * 3 * 4 - 1;
  EXPECT_EQ(model.Run<int32_t>(options), from.Expected());
  EXPECT_TRUE(model.SumsBytes());
  EXPECT_EQ(model.model().constants.size(), 1);
  options.limits.added_bytes += 1;
  EXPECT_EQ(model.Run<int32_t>(options), from.Expected());
  EXPECT_EQ(model.model().constants.size(), 2);
}

// Matrices (…, m, k) and (k, n), with a zero point for each row.
std::vector<int32_t> Multiplied(const Whole& a, const Whole& b, const std::vector<int64_t>& zeros) {
  const int64_t k = a.dims.back(), n = b.dims.size() == 1 ? 1 : b.dims[1];
  std::vector<int32_t> sums;
  for (int64_t row = 0; row < static_cast<int64_t>(a.values.size()) / k; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      int64_t sum = 0;
      for (int64_t i = 0; i < k; ++i) {
        const int64_t zero = zeros[static_cast<size_t>(row) % zeros.size()];
        sum += (a.at(static_cast<size_t>(row * k + i)) - zero) * b.at(static_cast<size_t>(i * n + column));
      }
      sums.push_back(static_cast<int32_t>(sum));
    }
  }
  return sums;
}

TEST(ByteProducts, AWeightIsAddedUpOnceForAllThatMultiplyByIt) {
  const Whole a = Drawn(kUint8, {4, 6}, 1), b = Drawn(kUint8, {4, 6}, 2), weight = Drawn(kInt8, {6, 20}, 3);
  QuantizedModel model;
  model.Input("a", a);
  model.Input("b", b);
  model.Constant("weight", weight);
  model.Constant("zero", {kUint8, {}, {9}});
  model.Node("MatMulInteger", {"a", "weight", "zero"}, "of_a");
  model.Node("MatMulInteger", {"b", "weight", "zero"}, "of_b");
  model.Node("Add", {"of_a", "of_b"});
  std::vector<int32_t> expected = Multiplied(a, weight, {9});
  const std::vector<int32_t> more = Multiplied(b, weight, {9});
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += more[i];
  EXPECT_EQ(model.Run<int32_t>(), expected);
  EXPECT_TRUE(model.SumsBytes());
  EXPECT_EQ(model.model().constants.size(), 2) << "the weight, and its columns' sums";
}

TEST(ByteProducts, MatricesOfAnyRank) {
  const Whole wide = Drawn(kInt8, {6, 5}, 8), column = Drawn(kInt8, {17}, 9);
  for (const auto& dims : {std::vector<int64_t>{4, 6}, {6}, {2, 3, 6}}) {
    for (const bool given : {false, true}) {
      for (const int64_t zero : {0, 128, 3}) {
        // Vectors of more elements than stand in the program.
        std::vector<int64_t> longer = dims;
        longer.back() = 17;
        for (const bool vector : {false, true}) {
          const Whole a = Drawn(kUint8, vector ? longer : dims, 7), b = vector ? column : wide;
          QuantizedModel model;
          model.Input("a", a);
          if (given) model.Input("zero", {kUint8, {}, {zero}});
          if (!given) model.Constant("zero", {kUint8, {1}, {zero}});
          model.Constant("b", b);
          model.Node("MatMulInteger", {"a", "b", "zero"});
          EXPECT_EQ(model.Run<int32_t>(), Multiplied(a, b, {zero})) << dims.size() << given << zero << vector;
          EXPECT_TRUE(model.SumsBytes());
        }
      }
    }
  }
}

TEST(ByteProducts, AMatrixThatEachCallGivesIsAddedUpByTheProgram) {
  const Whole a = Drawn(kInt8, {3, 8}, 10), b = Drawn(kUint8, {8, 4}, 11);
  QuantizedModel model;
  model.Input("a", a);
  model.Input("b", b);
  model.Constant("zero", {kInt8, {}, {-7}});
  model.Node("MatMulInteger", {"a", "b", "zero"});
  EXPECT_EQ(model.Run<int32_t>(), Multiplied(a, b, {-7}));
  EXPECT_TRUE(model.SumsBytes());
}

TEST(ByteProducts, AZeroPointForEachRowIsSubtractedFirst) {
  const Whole a = Drawn(kUint8, {3, 8}, 12), b = Drawn(kInt8, {8, 4}, 13);
  QuantizedModel model;
  model.Input("a", a);
  model.Constant("b", b);
  model.Constant("zero", {kUint8, {3}, {1, 0, 200}});
  model.Node("MatMulInteger", {"a", "b", "zero"});
  EXPECT_EQ(model.Run<int32_t>(), Multiplied(a, b, {1, 0, 200}));
  EXPECT_FALSE(model.SumsBytes());
}

// Powers of two, so that nothing is rounded but the quotient.
template <typename T>
std::vector<T> Requantized(const std::vector<int32_t>& sums, const std::vector<float>& scales, int64_t zero) {
  std::vector<T> values;
  for (size_t i = 0; i < sums.size(); ++i) {
    const double whole = std::nearbyint(sums[i] * double{scales[i % scales.size()]}) + static_cast<double>(zero);
    const double least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
    values.push_back(static_cast<T>(std::clamp(whole, least, most)));
  }
  return values;
}

TEST(ByteProducts, QLinearMatMulScalesTheSum) {
  const Whole a = Drawn(kUint8, {5, 16}, 14), b = Drawn(kInt8, {16, 2}, 15);
  QuantizedModel model;
  model.Input("a", a);
  model.Constant("b", b);
  model.Floats("a_scale", {0.5f}, true);
  model.Floats("b_scale", {0.25f, 0.125f});
  model.Floats("y_scale", {32.0f}, true);
  model.Constant("a_zero", {kUint8, {}, {128}});
  model.Constant("b_zero", {kInt8, {2}, {0, 0}});
  model.Constant("y_zero", {kUint8, {}, {100}});
  model.Node("QLinearMatMul", {"a", "a_scale", "a_zero", "b", "b_scale", "b_zero", "y_scale", "y_zero"});
  EXPECT_EQ(model.Run<uint8_t>(), Requantized<uint8_t>(Multiplied(a, b, {128}), {1.0f / 256, 1.0f / 512}, 100));
  EXPECT_TRUE(model.SumsBytes());
}

TEST(ByteProducts, QLinearConvAddsItsBiasToTheSum) {
  Convolution from{Drawn(kInt8, {1, 3, 5, 5}, 16), Drawn(kInt8, {2, 3, 3, 3}, 17), -11};
  from.pads = {1, 1, 1, 1};
  QuantizedModel model;
  model.Input("x", from.x);
  model.Constant("w", from.weight);
  model.Constant("bias", {kInt32, {2}, {4000, -9000}});
  model.Floats("x_scale", {0.5f}, true);
  model.Floats("w_scale", {0.25f, 0.125f});
  model.Floats("y_scale", {64.0f}, true);
  model.Constant("x_zero", {kInt8, {}, {from.zero}});
  model.Constant("w_zero", {kInt8, {2}, {0, 0}});
  model.Constant("y_zero", {kInt8, {}, {4}});
  model.Node("QLinearConv", {"x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero", "bias"});
  model.Ints("pads", from.pads);
  std::vector<int32_t> sums = from.Expected();
  std::vector<float> scales;
  for (size_t i = 0; i < sums.size(); ++i) {
    const bool second = i >= sums.size() / 2;
    sums[i] += second ? -9000 : 4000;
    scales.push_back((second ? 0.5f : 1.0f) / 512);
  }
  EXPECT_EQ(model.Run<int8_t>(), Requantized<int8_t>(sums, scales, 4));
  EXPECT_TRUE(model.SumsBytes());
}

}  // namespace
}  // namespace kiln::testing
