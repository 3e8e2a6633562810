// What lies a few elements apart, or backwards, is read by whole vectors: the values are
// the interpreter's, and nothing outside of the buffer is touched.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "client/cpp/conv.h"
#include "client/cpp/graph.h"
#include "client/cpp/movement.h"
#include "client/cpp/ops.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"
#include "tests/support/guarded_buffer.h"

namespace kiln::testing {
namespace {

using client::Shape;
using client::Tensor;

compiler::HostTensor Counted(v1::DType dtype, const Shape& shape) {
  compiler::HostTensor tensor;
  tensor.dtype = compiler::FromWire(dtype);
  tensor.shape.assign(shape.begin(), shape.end());
  const int64_t bytes = compiler::NumElements(tensor.shape) * compiler::ItemSize(tensor.dtype);
  // Of floats: the exponent's bits stay away from those of infinity.
  for (int64_t i = 0; i < bytes; ++i) tensor.bytes.push_back(static_cast<char>((i * 37) % 61));
  return tensor;
}

// With the guards' pages before and behind each buffer.
void ExpectSame(const v1::Graph& graph, const compiler::HostTensor& x) {
  const auto want = RunInterpreted(graph, {{0, x}});
  ASSERT_TRUE(want.ok()) << want.status();
  for (const GuardedBuffer::Side side : {GuardedBuffer::Side::kBegin, GuardedBuffer::Side::kEnd}) {
    CpuEngine engine(/*threads=*/1);
    engine.set_buffers([side](runtime::hal::Device& device, uint64_t bytes) {
      return std::make_shared<GuardedBuffer>(&device, bytes, side);
    });
    const auto got = engine.Run(graph, {{0, x}}, {});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->results[0].bytes, want->results[0].bytes);
  }
}

template <typename Program>
v1::Graph GraphOf(v1::DType dtype, const Shape& shape, Program program) {
  client::Graph graph;
  graph.Output(program(graph.Param(0, dtype, shape)));
  const auto built = graph.Build();
  EXPECT_TRUE(built.ok()) << built.status();
  return *built;
}

TEST(StridedLoads, EachStepOfEachSize) {
  for (const v1::DType dtype : {v1::FLOAT32, v1::FLOAT64, v1::INT8, v1::INT16, v1::FLOAT16}) {
    for (const int64_t size : {8, 17, 64, 100, 256}) {
      for (const int64_t step : {2, 3, 4, 5}) {
        SCOPED_TRACE(absl::StrCat(v1::DType_Name(dtype), " ", size, " by ", step));
        const Shape shape = {3, size};
        ExpectSame(GraphOf(dtype, shape, [&](Tensor x) { return client::Slice(x, 1, 0, size, step) + 1; }),
                   Counted(dtype, shape));
        ExpectSame(GraphOf(dtype, shape, [&](Tensor x) { return client::Slice(x, 1, 1, size - 1, step) + 1; }),
                   Counted(dtype, shape));
      }
    }
  }
}

TEST(StridedLoads, Backwards) {
  for (const v1::DType dtype : {v1::FLOAT32, v1::INT8}) {
    for (const int64_t size : {16, 40, 64}) {
      SCOPED_TRACE(absl::StrCat(v1::DType_Name(dtype), " ", size));
      const Shape shape = {5, size};
      ExpectSame(GraphOf(dtype, shape, [](Tensor x) { return client::Flip(x, {1}) + 1; }), Counted(dtype, shape));
      ExpectSame(
          GraphOf(dtype, shape, [&](Tensor x) { return client::Slice(client::Flip(x, {1}), 1, 0, size, 2) + 1; }),
          Counted(dtype, shape));
    }
  }
}

// Lanes outside of the picture are gated.
TEST(StridedLoads, BesideAnEdge) {
  for (const int64_t side : {7, 16, 33, 56}) {
    for (const int64_t stride : {2, 3, 4}) {
      SCOPED_TRACE(absl::StrCat(side, " by ", stride));
      const Shape shape = {1, 4, side, side};
      client::PoolOptions options;
      options.kernel = {3, 3};
      options.stride = {stride, stride};
      options.padding = {1, 1};
      ExpectSame(GraphOf(v1::FLOAT32, shape, [&](Tensor x) { return client::MaxPool2d(x, options); }),
                 Counted(v1::FLOAT32, shape));
    }
  }
}

}  // namespace
}  // namespace kiln::testing
