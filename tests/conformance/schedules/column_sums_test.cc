// What is reduced along columns whose rows are long: rows are walked from end to end, the
// accumulators in local memory (compiler/opt/outer_reduce.h). Values are those of the definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/graph.h"
#include "client/cpp/ops.h"
#include "compiler/compile.h"
#include "runtime/hal/device.h"
#include "tests/support/cpu_targets.h"
#include "tests/support/engines/c_engine.h"
#include "tests/support/engines/cpu_engine.h"

namespace kiln::testing {
namespace {

using client::Shape;
using client::Tensor;

// Whole numbers from -8 to 8, so that sums are exact in any order.
compiler::HostTensor Numbers(const Shape& shape) {
  compiler::HostTensor tensor;
  tensor.dtype = compiler::DType::kFloat32;
  tensor.shape.assign(shape.begin(), shape.end());
  std::vector<float> values(static_cast<size_t>(*client::ElementCount(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7919 % 17) - 8;
  tensor.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return tensor;
}

std::vector<float> FloatsOf(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

struct Case {
  Shape shape;  // (…, rows, columns)
  Tensor (*program)(const Tensor& x);
  float (*reduce_op)(const std::vector<float>& column);
  bool outside = true;  // whether the rows are
};

float SumOf(const std::vector<float>& column) {
  float sum = 0;
  for (float x : column) sum += x;
  return sum;
}
float MaxOf(const std::vector<float>& column) { return *std::max_element(column.begin(), column.end()); }
// The sum of squares less that of the first value's: two reductions, one behind the other.
float SpreadOf(const std::vector<float>& column) {
  const float most = MaxOf(column);
  float sum = 0;
  for (float x : column) sum += (x - most) * (x - most);
  return sum;
}

Tensor Sums(const Tensor& x) { return client::Sum(x, -2); }
Tensor Maxima(const Tensor& x) { return client::Max(x, -2); }
Tensor Spreads(const Tensor& x) {
  const Tensor apart = x - client::Max(x, -2, true);
  return client::Sum(apart * apart, -2);
}

TEST(ColumnSums, OfEverySize) {
  const std::vector<Case> cases = {
      {{128, 1024}, Sums, SumOf},       {{256, 4096}, Maxima, MaxOf},
      {{130, 1024}, Sums, SumOf},        // rows that are no multiple of those at once
      {{131, 1030}, Maxima, MaxOf},      // nor columns of a vector
      {{300, 777}, Sums, SumOf},         // short rows, which no number of whole vectors fills
      {{3, 128, 1040}, Sums, SumOf},     // several, one after the other
      {{2, 129, 1025}, Maxima, MaxOf},   //
      {{128, 1100}, Spreads, SpreadOf},  //
      {{128, 256}, Sums, SumOf, false},  // short rows of whole vectors: registers do
      {{16, 4096}, Sums, SumOf, false},  // too few rows
      {{2, 131, 70000}, Sums, SumOf},    // accumulators of several pieces
  };
  CEngine c;
  std::vector<v1::Graph> graphs;
  for (const Case& row : cases) {
    client::Graph graph;
    graph.Output(row.program(graph.Param(0, v1::FLOAT32, row.shape)));
    graphs.push_back(graph.Build().value());
    ASSERT_TRUE(c.Add(graphs.back(), {}).ok());
  }
  ASSERT_TRUE(c.Build().ok());
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& row = cases[i];
    const int64_t columns = row.shape.back(), rows = row.shape[row.shape.size() - 2];
    SCOPED_TRACE(absl::StrCat(rows, " x ", columns));
    const compiler::HostTensor x = Numbers(row.shape);
    const std::vector<float> values = FloatsOf(x.bytes);
    std::vector<float> want, column(static_cast<size_t>(rows));
    for (size_t begin = 0; begin < values.size(); begin += static_cast<size_t>(rows * columns)) {
      for (size_t at = 0; at < static_cast<size_t>(columns); ++at) {
        for (size_t r = 0; r < column.size(); ++r) column[r] = values[begin + r * static_cast<size_t>(columns) + at];
        want.push_back(row.reduce_op(column));
      }
    }
    for (const CpuModel& cpu : CpuModels()) {
      const auto made = compiler::Compile(graphs[i], TargetOf(cpu), {});
      ASSERT_TRUE(made.ok()) << made.status();
      bool outside = false;
      for (const auto& kernel : made->kernels()) outside |= absl::StrContains(kernel.schedule(), "SWAP");
      EXPECT_EQ(outside, row.outside) << cpu.arch << ": " << made->kernels(0).schedule();
    }
    for (uint32_t threads : {1u, 2u}) {
      CpuEngine engine(threads);
      const auto got = engine.Run(graphs[i], {{0, x}}, {});
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(FloatsOf(got->results[0].bytes), want) << threads << " threads";
    }
    const auto got = c.Run(i, {{0, x}});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(FloatsOf(got->results[0].bytes), want) << "as C";
  }
}

}  // namespace
}  // namespace kiln::testing
