// Kernels of a client's own that are very large: refused before anything is done with them, or
// compiled in time that grows with them, to code that gives the values. What LLVM does to such
// code takes it time with the square of its length, or, with sums that read the two before them,
// without an end (compiler/target/llvm/large_code.h); then these tests run out of time.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "absl/base/casts.h"
#include "base/error.h"
#include "compiler/compile.h"
#include "tests/support/cpu_targets.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/wire_builder.h"

namespace kiln::testing {
namespace {

using compiler::DType;

constexpr int64_t kSize = 256;

// y[i] = value(x, i) for i of kSize, as one kernel.
class KernelBuilder : public WireBuilder {
 public:
  KernelBuilder() {
    y_ = Param(0, DType::kFloat32, {kSize});
    x_ = Param(1, DType::kFloat32, {kSize});
    i_ = Add(v1::RANGE, {Int(kSize)});
    last()->mutable_range()->add_axis_id(0);
    last()->mutable_range()->set_type(v1::AXIS_LOOP);
  }

  Node Int(int64_t value) { return ConstBits(DType::kWeakint, static_cast<uint64_t>(value)); }
  Node Float(float value) { return ConstBits(DType::kFloat32, absl::bit_cast<uint32_t>(value)); }
  Node Load(Node index) { return Add(v1::INDEX, {x_, index}); }
  Node i() const { return i_; }

  const v1::Graph& Storing(Node value) {
    const Node store = Add(v1::STORE, {Add(v1::INDEX, {y_, i_}), value});
    Add(v1::SINK, {Add(v1::END, {store, i_})});
    return graph();
  }

 private:
  Node y_, x_, i_;
};

std::vector<float> X() {
  std::vector<float> x(kSize);
  for (int i = 0; i < kSize; ++i) x[i] = static_cast<float>(i) / kSize;
  return x;
}

compiler::HostTensor TensorOf(const std::vector<float>& values) {
  compiler::HostTensor tensor{DType::kFloat32, {kSize}, std::string(kSize * sizeof(float), '\0')};
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

// What a kernel stores.
std::vector<float> ValuesOf(const v1::Graph& graph) {
  CpuEngine engine(2);
  const auto got = engine.Run(graph, {{0, TensorOf(std::vector<float>(kSize))}, {1, TensorOf(X())}}, {});
  EXPECT_TRUE(got.ok()) << got.status();
  std::vector<float> values(kSize);
  if (got.ok()) std::memcpy(values.data(), got->written.at(0).bytes.data(), kSize * sizeof(float));
  return values;
}

class Passes : public compiler::CompileObserver {
 public:
  void OnPass(const compiler::PassRecord& record) override { names.emplace_back(record.name); }
  std::vector<std::string> names;
};

// As a frontend writes a chain of stencils: each reads five places of the one before it, and each
// path to the memory is an expression of its own.
Node Stencils(KernelBuilder& kernel, int number, int& path) {
  if (number == 0) {
    const Node place = kernel.Add(v1::ADD, {kernel.i(), kernel.Int(++path)});
    return kernel.Load(kernel.Add(v1::FLOORMOD, {place, kernel.Int(kSize)}));
  }
  Node sum = Stencils(kernel, number - 1, path);
  for (int k = 1; k < 5; ++k) sum = kernel.Add(v1::ADD, {sum, Stencils(kernel, number - 1, path)});
  return kernel.Add(v1::MUL, {sum, kernel.Float(0.2f)});
}

TEST(LargeKernels, FusedStencilsAreRefusedBeforeAnyPass) {
  KernelBuilder kernel;
  int path = 0;
  const v1::Graph graph = kernel.Storing(Stencils(kernel, 6, path));
  ASSERT_GT(graph.nodes_size(), 50'000);
  Passes passes;
  const auto refused = compiler::Compile(graph, TargetOf(CpuModels()[0]), {}, &passes);
  const auto detail = DetailOf(refused.status());
  ASSERT_TRUE(detail.has_value()) << refused.status();
  EXPECT_EQ(detail->code(), v1::GRAPH_TOO_LARGE);
  EXPECT_EQ(detail->limit(), "nodes of a kernel");
  EXPECT_EQ(detail->limit_value(), 50'000u);
  EXPECT_EQ(passes.names, std::vector<std::string>{"normalise"});
}

TEST(LargeKernels, FewerStencilsAreCompiled) {
  KernelBuilder kernel;
  int path = 0;
  const std::vector<float> got = ValuesOf(kernel.Storing(Stencils(kernel, 4, path)));
  ASSERT_EQ(path, 625);
  const std::vector<float> x = X();
  for (int i = 0; i < kSize; ++i) {
    double sum = 0;
    for (int k = 1; k <= path; ++k) sum += x[(i + k) % kSize];
    EXPECT_NEAR(got[i], sum / path, 1e-5) << i;
  }
}

// Some 25 instructions each, which are one block.
TEST(LargeKernels, AChainOfExponentials) {
  constexpr int kMany = 5000;
  KernelBuilder kernel;
  Node value = kernel.Load(kernel.i());
  for (int k = 0; k < kMany; ++k)
    value = kernel.Add(v1::EXP2, {kernel.Add(v1::MUL, {value, kernel.Float(-0.5f - static_cast<float>(k % 3))})});
  const std::vector<float> got = ValuesOf(kernel.Storing(value));
  for (int i = 0; i < kSize; ++i) {
    double want = X()[i];
    for (int k = 0; k < kMany; ++k) want = std::exp2(want * (-0.5 - k % 3));
    EXPECT_NEAR(got[i], want, 1e-5) << i;
  }
}

TEST(LargeKernels, AnIndexOfSumsOfTheTwoBefore) {
  KernelBuilder kernel;
  Node last = kernel.Int(1), sum = kernel.i();
  for (int k = 0; k < 300; ++k) {
    const Node next = kernel.Add(v1::FLOORMOD, {kernel.Add(v1::ADD, {sum, last}), kernel.Int(251 - k % 7)});
    last = sum;
    sum = next;
  }
  const std::vector<float> got = ValuesOf(kernel.Storing(kernel.Load(sum)));
  for (int i = 0; i < kSize; ++i) {
    int a = 1, b = i;
    for (int k = 0; k < 300; ++k) {
      const int next = (a + b) % (251 - k % 7);
      a = b;
      b = next;
    }
    EXPECT_EQ(got[i], X()[b]) << i;
  }
}

}  // namespace
}  // namespace kiln::testing
