#include "models/onnx/known.h"

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "client/cpp/ops.h"
#include "gtest/gtest.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are what is tested with

// Values of a graph whose parameters are `given`, by slot; and which were made use of.
struct Fixture {
  Graph graph;
  std::map<uint32_t, HostTensor> given;
  std::set<uint32_t> used;
  KnownValues known{&graph, Limits(),
                    [this](uint32_t slot) { return given.contains(slot) ? &given.at(slot) : nullptr; },
                    [this](uint32_t slot) { used.insert(slot); }};

  Tensor Ints(const std::vector<int64_t>& values) {
    std::vector<Tensor> elements;
    for (const int64_t value : values) elements.push_back(graph.Constant(value, v1::INT64));
    return Stack(elements);
  }
  std::vector<int64_t> Numbers(Tensor tensor) {
    const Known* found = known.Find(tensor);
    return found != nullptr ? found->Numbers().value_or(std::vector<int64_t>{-999}) : std::vector<int64_t>{-998};
  }
};

TEST(KnownValues, IntegersAreComputedAsTheIrSays) {
  Fixture f;
  const Tensor a = f.Ints({-7, 7, 5, 0}), b = f.Ints({2, -2, 0, 3});
  EXPECT_EQ(f.Numbers(a + b), (std::vector<int64_t>{-5, 5, 5, 3}));
  EXPECT_EQ(f.Numbers(FloorDiv(a, b)), (std::vector<int64_t>{-4, -4, 0, 0}));
  EXPECT_EQ(f.Numbers(Mod(a, b)), (std::vector<int64_t>{1, -1, 5, 0}));
  EXPECT_EQ(f.Numbers(Maximum(a, b)), (std::vector<int64_t>{2, 7, 5, 3}));
  EXPECT_EQ(f.Numbers(Where(a < b, a, b)), (std::vector<int64_t>{-7, -2, 0, 0}));
  EXPECT_EQ(f.Numbers(Cast(f.Ints({300, -1}), v1::UINT8)), (std::vector<int64_t>{44, 255}));
  const int64_t least = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(f.Numbers(FloorDiv(f.Ints({least}), f.Ints({-1}))), (std::vector<int64_t>{least}));
}

TEST(RealsFromHost, NumbersOfEachKindAreTheSameAsReals) {
  EXPECT_EQ(RealsFromHost(HostTensor::Of<uint8_t>({3}, {0, 6, 255})), (std::vector<double>{0, 6, 255}));
  EXPECT_EQ(RealsFromHost(HostTensor::Of<int8_t>({2}, {-128, 127})), (std::vector<double>{-128, 127}));
  EXPECT_EQ(RealsFromHost(HostTensor::Of<int64_t>({2}, {-5, int64_t{1} << 40})), (std::vector<double>{-5, 0x1p40}));
  EXPECT_EQ(RealsFromHost(HostTensor::Of<float>({2}, {-0.5F, 3})), (std::vector<double>{-0.5, 3}));
  EXPECT_EQ(RealsFromHost(HostTensor::Of<double>({0}, {})), std::vector<double>());
  HostTensor half = HostTensor::Of<uint16_t>({1}, {0x3E00});
  half.dtype = v1::FLOAT16;
  EXPECT_EQ(RealsFromHost(half), std::vector<double>{1.5});
  EXPECT_EQ(RealsFromHost(HostTensor()), std::nullopt);
}

TEST(KnownValues, FloatsRoundAndCastsSaturate) {
  Fixture f;
  const Tensor x = f.graph.Constants({0.1, -2.5, 1e10}, v1::FLOAT32);
  const Known* found = f.known.Find(x * 2);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->reals[0], static_cast<double>(0.1F * 2));
  EXPECT_EQ(f.Numbers(Cast(x, v1::INT32)), (std::vector<int64_t>{0, -2, 2147483647}));
  EXPECT_EQ(f.Numbers(x < 0.0), (std::vector<int64_t>{0, 1, 0}));
}

// As sizes are computed that are rounded.
TEST(KnownValues, BitsAreThoseOfTheOtherType) {
  Fixture f;
  const Tensor x = f.graph.Constants({1.0, -2.5, -0.0}, v1::FLOAT32);
  EXPECT_EQ(f.Numbers(Bitcast(x, v1::INT32)), (std::vector<int64_t>{0x3F800000, -0x3FE00000, INT32_MIN}));
  EXPECT_EQ(f.Numbers(Bitcast(x, v1::UINT32)), (std::vector<int64_t>{0x3F800000, 0xC0200000, 0x80000000}));
  const Tensor size = Bitcast(Bitcast(x, v1::UINT32) & 0x7FFFFFFF, v1::FLOAT32);
  EXPECT_EQ(f.Numbers(Cast(size * 2, v1::INT64)), (std::vector<int64_t>{2, 5, 0}));
}

TEST(KnownValues, ElementsMoveAndReduce) {
  Fixture f;
  const Tensor m = Reshape(f.Ints({1, 2, 3, 4, 5, 6}), {2, 3});
  EXPECT_EQ(f.Numbers(Transpose(m)), (std::vector<int64_t>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(f.Numbers(Flip(m, {1})), (std::vector<int64_t>{3, 2, 1, 6, 5, 4}));
  EXPECT_EQ(f.Numbers(Slice(m, 1, 1, 3)), (std::vector<int64_t>{2, 3, 5, 6}));
  EXPECT_EQ(f.Numbers(Pad(f.Ints({8}), {{1, 1}}, 9)), (std::vector<int64_t>{9, 8, 9}));
  EXPECT_EQ(f.Numbers(Concat({f.Ints({1}), f.Ints({2, 3})}, 0)), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(f.Numbers(IndexSelect(m, 1, f.Ints({2, 0, 9}))), (std::vector<int64_t>{3, 1, 0, 6, 4, 0}));
  EXPECT_EQ(f.Numbers(Sum(m, 0)), (std::vector<int64_t>{5, 7, 9}));
  EXPECT_EQ(f.Numbers(Prod(m, 1)), (std::vector<int64_t>{6, 120}));
  EXPECT_EQ(f.Numbers(BroadcastTo(f.Ints({4}), {3})), (std::vector<int64_t>{4, 4, 4}));
}

TEST(KnownValues, SizesOfVariablesStayExact) {
  Fixture f;
  const Size n = f.graph.Variable(0, 1, 8, "n");
  const Tensor number = f.graph.Number(n * 2 + 4, v1::INT64);
  const Known* half = f.known.Find(FloorDiv(number, f.graph.Constant(2, v1::INT64)));
  ASSERT_NE(half, nullptr);
  EXPECT_EQ(half->integers[0], n + 2);
  EXPECT_FALSE(half->Numbers().has_value());
  EXPECT_EQ(f.Numbers(number > f.graph.Constant(5, v1::INT64)), std::vector<int64_t>{1});
  EXPECT_EQ(f.known.Find(number > f.graph.Constant(7, v1::INT64)), nullptr);
  EXPECT_EQ(f.known.Find(Mod(number, f.graph.Constant(3, v1::INT64))), nullptr);
}

TEST(KnownValues, ParametersAreKnownIfGivenAndToldOfIfUsed) {
  Fixture f;
  f.given[0] = HostTensor::Of<int64_t>({2}, {3, 4});
  f.given[2] = HostTensor::Of<int64_t>({2}, {1, 1});
  const Tensor a = f.graph.Param(0, v1::INT64, {2}), b = f.graph.Param(1, v1::INT64, {2}),
               c = f.graph.Param(2, v1::INT64, {2});
  EXPECT_EQ(f.known.Find(b), nullptr);
  EXPECT_EQ(f.known.Find(b + c), nullptr);
  EXPECT_TRUE(f.used.empty());
  EXPECT_EQ(f.Numbers(a * 2), (std::vector<int64_t>{6, 8}));
  EXPECT_EQ(f.used, std::set<uint32_t>{0});
}

TEST(KnownValues, WhatIsTooLargeIsUnknown) {
  Fixture f;
  EXPECT_EQ(f.known.Find(f.graph.Zeros({1 << 20}, v1::INT64)), nullptr);
  Tensor sum = f.graph.Zeros({1 << 15}, v1::INT64);
  for (int i = 0; i < 2000; ++i) sum = sum + 1;
  EXPECT_EQ(f.known.Find(sum), nullptr);  // more work than is granted
}

}  // namespace
}  // namespace kiln::onnx
