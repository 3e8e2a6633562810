// Products of what DequantizeLinear makes (models/onnx/ops/byte_products.h): their values, and which of them are sums
// of products of 8-bit numbers. Scales are powers of two and sums are small, so that no engine has anything to round.
#include <algorithm>
#include <utility>

#include "gtest/gtest.h"
#include "tests/onnx/quantized_models.h"

namespace kiln::testing {
namespace {

constexpr auto kInt8 = TensorProto::INT8, kUint8 = TensorProto::UINT8, kInt32 = TensorProto::INT32;

// A tensor as a model has it: numbers, scales and zero points along an axis, or one for all.
struct Quantized {
  Whole q;
  std::vector<float> scales;
  std::vector<int64_t> zeros = {0};
  int64_t axis = 0;
  bool lists = false;  // one number, as a list of one

  std::vector<double> Floats() const {
    std::vector<double> floats;
    int64_t after = 1;
    for (size_t i = static_cast<size_t>(axis) + 1; i < q.dims.size(); ++i) after *= q.dims[i];
    for (size_t i = 0; i < q.values.size(); ++i) {
      const size_t place = static_cast<size_t>(static_cast<int64_t>(i) / after);
      floats.push_back(static_cast<double>(q.values[i] - zeros[place % zeros.size()]) * scales[place % scales.size()]);
    }
    return floats;
  }

  // `name` as floats, of `name`_q, which each call gives, or the file holds.
  void AddTo(QuantizedModel& model, const std::string& name, bool held) const {
    held ? model.Constant(name + "_q", q) : model.Input(name + "_q", q);
    const bool scalar = scales.size() == 1 && !lists;
    model.Floats(name + "_scale", scales, scalar);
    std::vector<int64_t> points = zeros;
    points.resize(scales.size(), zeros[0]);
    model.Constant(
        name + "_zero",
        {q.type, scalar ? std::vector<int64_t>{} : std::vector<int64_t>{static_cast<int64_t>(scales.size())}, points});
    const bool plain = std::all_of(zeros.begin(), zeros.end(), [](int64_t zero) { return zero == 0; });
    std::vector<std::string> inputs = {name + "_q", name + "_scale"};
    if (!plain || scalar) inputs.push_back(name + "_zero");
    model.Node("DequantizeLinear", inputs, name);
    if (!scalar) model.Int("axis", axis);
  }
};

std::vector<float> Product(const std::vector<double>& a, const std::vector<double>& b, int64_t k, bool turned_b) {
  const auto inner = static_cast<size_t>(k), rows = a.size() / inner, columns = b.size() / inner;
  std::vector<float> product;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      double sum = 0;
      for (size_t i = 0; i < inner; ++i)
        sum += a[row * inner + i] * b[turned_b ? column * inner + i : i * columns + column];
      product.push_back(static_cast<float>(sum));
    }
  }
  return product;
}

TEST(DequantizedProducts, MatricesWithScalesOfColumns) {
  for (const auto& dims : {std::vector<int64_t>{3, 8}, {8}, {2, 2, 8}}) {
    for (const int64_t zero : {0, 128, 3}) {
      for (const bool lists : {false, true}) {
        const Quantized a{Drawn(kUint8, dims, 1), {0.5f}, {zero}, 0, lists};
        const Quantized b{Drawn(kInt8, {8, 4}, 2), {0.25f, 2.0f, 0.125f, 1.0f}, {0}, 1};
        QuantizedModel model;
        a.AddTo(model, "a", false);
        b.AddTo(model, "b", true);
        model.Node("MatMul", {"a", "b"});
        EXPECT_EQ(model.Run<float>(), Product(a.Floats(), b.Floats(), 8, false));
        EXPECT_TRUE(model.SumsBytes());
      }
    }
  }
}

TEST(DequantizedProducts, OfBothThatEachCallGives) {
  const Quantized a{Drawn(kInt8, {3, 8}, 1), {0.5f}, {-9}}, b{Drawn(kUint8, {8, 4}, 2), {0.25f}};
  QuantizedModel model(13);
  a.AddTo(model, "a", false);
  b.AddTo(model, "b", false);
  model.Node("MatMul", {"a", "b"});
  EXPECT_EQ(model.Run<float>(), Product(a.Floats(), b.Floats(), 8, false));
  EXPECT_TRUE(model.SumsBytes());
}

TEST(DequantizedProducts, GemmTurnsEitherAndAddsItsBias) {
  const Quantized a{Drawn(kInt8, {8, 3}, 3), {0.5f}, {7}}, b{Drawn(kInt8, {4, 8}, 4), {0.25f, 2, 0.125f, 1}};
  const Quantized bias{{kInt32, {4}, {100, -7, 65, 0}}, {0.125f}};
  QuantizedModel model(13);
  a.AddTo(model, "a", false);
  b.AddTo(model, "b", true);
  bias.AddTo(model, "bias", true);
  model.Node("Gemm", {"a", "b", "bias"});
  model.Int("transA", 1);
  model.Int("transB", 1);
  std::vector<double> turned;
  const std::vector<double> columns = a.Floats(), more = bias.Floats();
  for (size_t row = 0; row < 3; ++row) {
    for (size_t i = 0; i < 8; ++i) turned.push_back(columns[i * 3 + row]);
  }
  std::vector<float> expected = Product(turned, b.Floats(), 8, true);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += static_cast<float>(more[i % 4]);
  EXPECT_EQ(model.Run<float>(), expected);
  EXPECT_TRUE(model.SumsBytes());
}

struct ConvCase {
  TensorProto::DataType type;
  int64_t zero;
  int64_t groups;
  std::vector<int64_t> pads;
};

// x (1, 4, 4, 4), weights of 3 x 3.
std::vector<float> Convolved(const Quantized& x, const Quantized& weight, const ConvCase& of,
                             const std::vector<double>& bias) {
  const std::vector<double> xs = x.Floats(), ws = weight.Floats();
  const int64_t out = weight.q.dims[0], each = weight.q.dims[1];
  std::vector<float> values;
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t r = -of.pads[0]; r + 3 <= 4 + of.pads[2]; ++r) {
      for (int64_t c = -of.pads[1]; c + 3 <= 4 + of.pads[3]; ++c) {
        double sum = bias[static_cast<size_t>(o)];
        for (int64_t i = 0; i < each * 9; ++i) {
          const int64_t channel = o / (out / of.groups) * each + i / 9, row = r + i / 3 % 3, column = c + i % 3;
          if (row < 0 || row >= 4 || column < 0 || column >= 4) continue;
          sum += xs[static_cast<size_t>((channel * 4 + row) * 4 + column)] * ws[static_cast<size_t>(o * each * 9 + i)];
        }
        values.push_back(static_cast<float>(sum));
      }
    }
  }
  return values;
}

TEST(DequantizedProducts, ConvolutionsWithScalesOfChannels) {
  for (const ConvCase& of : {ConvCase{kUint8, 128, 1, {1, 1, 1, 1}}, ConvCase{kUint8, 3, 2, {1, 0, 0, 1}},
                             ConvCase{kUint8, 0, 4, {1, 1, 1, 1}}, ConvCase{kInt8, -100, 1, {0, 0, 0, 0}},
                             ConvCase{kInt8, 0, 2, {1, 1, 1, 1}}}) {
    const Quantized x{Drawn(of.type, {1, 4, 4, 4}, 5), {0.5f}, {of.zero}};
    const Quantized weight{Drawn(kInt8, {4, 4 / of.groups, 3, 3}, 6), {0.25f, 2.0f, 0.125f, 1.0f}};
    const Quantized bias{{kInt32, {4}, {1000, -2000, 31, 0}}, {0.125f, 1.0f, 0.0625f, 0.5f}};
    QuantizedModel model;
    x.AddTo(model, "x", false);
    weight.AddTo(model, "w", true);
    bias.AddTo(model, "bias", true);
    model.Node("Conv", {"x", "w", "bias"});
    model.Ints("pads", of.pads);
    model.Int("group", of.groups);
    EXPECT_EQ(model.Run<float>(), Convolved(x, weight, of, bias.Floats())) << of.zero;
    EXPECT_TRUE(model.SumsBytes()) << of.zero;
  }
}

TEST(DequantizedProducts, AZeroPointThatIsComputedIsNoPadding) {
  const Quantized numbers{Drawn(kUint8, {1, 4, 4, 4}, 5), {1.0f}};
  const Quantized weight{Drawn(kInt8, {4, 4, 3, 3}, 6), {0.25f}};
  for (const bool padded : {false, true}) {
    QuantizedModel model;
    model.Input("whole", numbers.q);
    model.Node("Cast", {"whole"}, "float");
    model.Int("to", TensorProto::FLOAT);
    model.Node("DynamicQuantizeLinear", {"float"}, std::vector<std::string>{"q", "scale", "zero"});
    model.Node("DequantizeLinear", {"q", "scale", "zero"}, "x");
    weight.AddTo(model, "w", true);
    model.Node("Conv", {"x", "w"});
    const ConvCase of{kUint8, 0, 1, std::vector<int64_t>(4, padded ? 1 : 0)};
    model.Ints("pads", of.pads);
    const std::vector<float> expected = Convolved(numbers, weight, of, {0, 0, 0, 0}), got = model.Run<float>();
    ASSERT_EQ(got.size(), expected.size());
    // Half a step of what was quantized, 36 times; the numbers reach from about 0 to about 255.
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 36 * 0.51 * 128 * 0.25) << i;
    EXPECT_EQ(model.SumsBytes(), !padded);
  }
}

// What stays a product of floats, with the right values all the same.
TEST(DequantizedProducts, OthersAreOfFloats) {
  const Quantized a{Drawn(kUint8, {3, 8}, 1), {0.5f}, {3}}, b{Drawn(kInt8, {8, 4}, 2), {0.25f}};
  Quantized rows = a, columns = b, moved = b;
  rows.scales = {0.5f, 1.0f, 2.0f};
  columns.scales = std::vector<float>(8, 0.5f);  // along what is summed
  moved.zeros = {5};
  moved.scales = {0.5f};
  const Quantized wide{{kInt32, {8, 4}, b.q.values}, {0.25f}};
  for (const auto& [left, right] : {std::pair{rows, b}, {a, columns}, {a, moved}, {a, wide}}) {
    QuantizedModel model;
    left.AddTo(model, "a", false);
    right.AddTo(model, "b", true);
    model.Node("MatMul", {"a", "b"});
    EXPECT_EQ(model.Run<float>(), Product(left.Floats(), right.Floats(), 8, false));
    EXPECT_FALSE(model.SumsBytes());
  }
}

// 255 * 128 times as often as int32 holds, and once more.
TEST(DequantizedProducts, ASumThatIntegersCouldNotHoldIsOfFloats) {
  for (const int64_t k : {65793, 65794}) {
    const Quantized a{{kUint8, {1, k}, std::vector<int64_t>(static_cast<size_t>(k), 255)}, {0.5f}};
    const Quantized b{{kInt8, {k, 1}, std::vector<int64_t>(static_cast<size_t>(k), -128)}, {0.5f}};
    QuantizedModel model;
    a.AddTo(model, "a", false);
    b.AddTo(model, "b", true);
    model.Node("MatMul", {"a", "b"});
    const std::vector<float> got = model.Run<float>();
    ASSERT_EQ(got.size(), 1);
    EXPECT_NEAR(got[0] / (-255.0 * 128 * 0.25 * static_cast<double>(k)), 1, 1e-3);
    EXPECT_EQ(model.SumsBytes(), k == 65793);
  }
}

TEST(DequantizedProducts, TheFloatsAreThereForOthers) {
  const Quantized a{Drawn(kUint8, {4, 4}, 1), {0.5f}, {3}}, b{Drawn(kInt8, {4, 4}, 2), {0.25f}};
  QuantizedModel model;
  a.AddTo(model, "a", false);
  b.AddTo(model, "b", true);
  model.Node("MatMul", {"a", "b"}, "product");
  model.Node("Add", {"product", "a"});
  const std::vector<double> floats = a.Floats();
  std::vector<float> expected = Product(floats, b.Floats(), 4, false);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += static_cast<float>(floats[i]);
  EXPECT_EQ(model.Run<float>(), expected);
}

}  // namespace
}  // namespace kiln::testing
