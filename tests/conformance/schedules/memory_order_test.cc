// Kernels that walk memory in another order than their loops are written: transposes,
// whose tiles change rows and lanes in registers, and large sums, whose parts threads share.
#include <gtest/gtest.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/cpp/graph.h"
#include "client/cpp/ops.h"
#include "runtime/exec/load.h"
#include "tests/support/cpu_programs.h"
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

TEST(MemoryOrder, TransposesMoveEachElement) {
  for (const v1::DType dtype : {v1::FLOAT32, v1::FLOAT64, v1::INT8, v1::INT32}) {
    for (const Shape& shape : {Shape{64, 64}, Shape{16, 128}, Shape{40, 24}, Shape{12, 36}, Shape{33, 65}}) {
      SCOPED_TRACE(absl::StrCat(v1::DType_Name(dtype), " ", shape[0], "x", shape[1]));
      ExpectSame(GraphOf(dtype, shape, [](Tensor x) { return client::Transpose(x) * 1; }), Numbers(dtype, shape));
    }
  }
}

TEST(MemoryOrder, LayoutsMoveEachElement) {
  const Shape shape = {3, 16, 8, 16};
  const compiler::HostTensor x = Numbers(v1::FLOAT32, shape);
  for (const auto& order : {std::vector<int64_t>{0, 2, 3, 1}, {0, 3, 2, 1}, {3, 1, 2, 0}, {1, 0, 3, 2}}) {
    ExpectSame(GraphOf(v1::FLOAT32, shape, [&](Tensor x) { return client::Permute(x, order) + 1.0; }), x);
  }
  // Beside what is read as it is written.
  ExpectSame(GraphOf(v1::FLOAT32, {64, 64}, [](Tensor x) { return x + client::Transpose(x); }),
             Numbers(v1::FLOAT32, {64, 64}));
}

TEST(MemoryOrder, LargeSumsAreTheSameOnEveryNumberOfThreads) {
  for (const Shape& shape : {Shape{1 << 18}, Shape{512, 1024}, Shape{4096, 70}, Shape{1 << 17, 2}}) {
    SCOPED_TRACE(absl::StrCat(shape[0]));
    const compiler::HostTensor x = Numbers(v1::FLOAT32, shape);
    ExpectSame(GraphOf(v1::FLOAT32, shape, [](Tensor x) { return client::Sum(x); }), x);
    ExpectSame(GraphOf(v1::FLOAT32, shape, [](Tensor x) { return client::Max(x, 0); }), x);
    ExpectSame(GraphOf(v1::FLOAT32, shape, [](Tensor x) { return client::Sum(x * x, 0, true); }), x);
    const v1::Graph sum = GraphOf(v1::FLOAT32, shape, [](Tensor x) { return client::Sum(x); });
    for (const auto& [cpu, executable] : CompiledForEachCpu(sum)) EXPECT_EQ(executable.steps_size(), 2) << cpu;
  }
}

TEST(MemoryOrder, PrefixSumsAreTheInterpreters) {
  for (const v1::DType dtype : {v1::FLOAT32, v1::INT32, v1::FLOAT64}) {
    for (const Shape& shape : {Shape{1, 300}, Shape{7, 64}, Shape{5, 3}, Shape{40, 129}}) {
      SCOPED_TRACE(absl::StrCat(v1::DType_Name(dtype), " ", shape[0], "x", shape[1]));
      const compiler::HostTensor x = Numbers(dtype, shape);
      ExpectSame(GraphOf(dtype, shape, [](Tensor x) { return client::CumSum(x, 1); }), x);
      ExpectSame(GraphOf(dtype, shape, [](Tensor x) { return client::CumSum(x, 0) + 1; }), x);
    }
  }
}

}  // namespace
}  // namespace kiln::testing
