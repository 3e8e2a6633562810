// Running sums, products and maxima: rows, columns, both directions, what stands before
// and behind, and each length of a last vector. Against the interpreter, which makes all
// the sums; large ones against a loop, which only linear work can finish.
#include <gtest/gtest.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/cpp/graph.h"
#include "client/cpp/ops.h"
#include "client/cpp/window.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

using client::Shape;
using client::Tensor;

// Integers from -8 to 7, whose sums are exact in every dtype used here.
compiler::HostTensor Numbers(v1::DType dtype, const Shape& shape) {
  compiler::HostTensor tensor;
  tensor.dtype = compiler::FromWire(dtype);
  tensor.shape.assign(shape.begin(), shape.end());
  uint32_t state = 1;
  for (int64_t i = 0; i < compiler::NumElements(tensor.shape); ++i) {
    state = state * 1664525 + 1013904223;
    const int number = static_cast<int>(state >> 28) - 8;
    const auto append = [&](auto value) { tensor.bytes.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
    switch (dtype) {
      case v1::INT8: append(static_cast<int8_t>(number)); break;
      case v1::FLOAT64: append(static_cast<double>(number)); break;
      case v1::INT32: append(static_cast<int32_t>(number)); break;
      default: append(static_cast<float>(number));
    }
  }
  return tensor;
}

template <typename Program>
v1::Graph GraphOf(v1::DType dtype, const Shape& shape, Program program) {
  client::Graph graph;
  graph.Output(program(graph.Param(0, dtype, shape)));
  const auto built = graph.Build();
  EXPECT_TRUE(built.ok()) << built.status();
  return *built;
}

void ExpectSame(const v1::Graph& graph, const compiler::HostTensor& x) {
  CpuEngine one(/*threads=*/1), several(/*threads=*/3);
  const auto got = one.Run(graph, {{0, x}}, {});
  const auto shared = several.Run(graph, {{0, x}}, {});
  const auto want = RunInterpreted(graph, {{0, x}});
  ASSERT_TRUE(got.ok() && shared.ok() && want.ok()) << got.status() << want.status();
  EXPECT_EQ(got->results[0].bytes, want->results[0].bytes);
  EXPECT_EQ(shared->results[0].bytes, want->results[0].bytes);
}

// Of all windows that end at an element, padded with `fill`.
Tensor Windows(Tensor x, int64_t axis, client::Scalar fill) {
  client::AxisRanges padding(x.rank(), {0, 0});
  const int64_t size = x.shape()[axis];
  padding[axis] = {size - 1, 0};
  return client::SlidingWindow(client::Pad(x, padding, fill), axis, {.size = size});
}

TEST(Scan, SumsAlongEachAxisAndBothWays) {
  for (const v1::DType dtype : {v1::FLOAT32, v1::INT32, v1::FLOAT64, v1::INT8}) {
    for (const Shape& shape : {Shape{1, 300}, Shape{7, 64}, Shape{5, 3}, Shape{40, 129}, Shape{2, 17}, Shape{3, 2}}) {
      SCOPED_TRACE(absl::StrCat(v1::DType_Name(dtype), " ", shape[0], "x", shape[1]));
      const compiler::HostTensor x = Numbers(dtype, shape);
      for (const int64_t axis : {0, 1}) {
        ExpectSame(GraphOf(dtype, shape, [&](Tensor x) { return client::CumSum(x, axis); }), x);
        ExpectSame(
            GraphOf(dtype, shape,
                    [&](Tensor x) { return client::Flip(client::CumSum(client::Flip(x, {axis}), axis), {axis}); }),
            x);
      }
    }
  }
}

TEST(Scan, MaximaAndProducts) {
  for (const int64_t size : {5, 16, 50, 64}) {
    const Shape shape = {3, size};
    for (const int64_t axis : {0, 1}) {
      SCOPED_TRACE(absl::StrCat(size, " ", axis));
      const compiler::HostTensor x = Numbers(v1::INT32, shape);
      ExpectSame(
          GraphOf(v1::INT32, shape,
                  [&](Tensor x) { return client::Max(Windows(x, axis, std::numeric_limits<int32_t>::min()), -1); }),
          x);
      ExpectSame(GraphOf(v1::INT32, shape, [&](Tensor x) { return client::Prod(Windows(x, axis, 1), -1); }), x);
    }
  }
}

TEST(Scan, WhatStandsBeforeAndBehindIsInTheSameKernel) {
  const Shape shape = {6, 77};
  const auto program = [](Tensor x) { return client::CumSum(x * x - 3, 1) * 2 + x; };
  const v1::Graph graph = GraphOf(v1::FLOAT32, shape, program);
  ExpectSame(graph, Numbers(v1::FLOAT32, shape));
}

// x[j] for j up to i, by a mask of comparisons.
TEST(Scan, TriangularMasks) {
  for (const int64_t size : {4, 33, 200}) {
    const auto program = [&](Tensor x, bool from) {
      const Tensor column = client::Reshape(x.graph()->Arange(size), {size, 1});
      const Tensor row = client::Reshape(x.graph()->Arange(size), {1, size});
      return client::Sum(client::Where(from ? row < column : column < row, 0, client::Reshape(x, {1, size})), 1);
    };
    const compiler::HostTensor x = Numbers(v1::FLOAT32, {size});
    for (const bool from : {false, true})
      ExpectSame(GraphOf(v1::FLOAT32, {size}, [&](Tensor x) { return program(x, from); }), x);
  }
}

TEST(Scan, AMillionInLinearWork) {
  constexpr int64_t kSize = (1 << 20) + 3;
  const compiler::HostTensor x = Numbers(v1::INT32, {kSize});
  const v1::Graph graph = GraphOf(v1::INT32, {kSize}, [](Tensor x) { return client::CumSum(x, 0); });
  const auto got = CpuEngine(1).Run(graph, {{0, x}}, {});
  ASSERT_TRUE(got.ok()) << got.status();
  int32_t sum = 0;
  for (int64_t i = 0; i < kSize; ++i) {
    int32_t element = 0, value = 0;
    std::memcpy(&element, x.bytes.data() + 4 * i, 4);
    std::memcpy(&value, got->results[0].bytes.data() + 4 * i, 4);
    sum += element;
    ASSERT_EQ(value, sum) << i;
  }
}

}  // namespace
}  // namespace kiln::testing
