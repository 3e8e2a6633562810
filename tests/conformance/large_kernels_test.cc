// Kernels of a client's own that are very large: refused before anything is done with them, or
// compiled in time that grows with them, to code that gives the values. What LLVM does to such
// code takes it time with the square of its length, or, with sums that read the two before them,
// without an end (compiler/target/llvm/large_code.h); then these tests run out of time.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/compile.h"
#include "tests/support/cpu_targets.h"
#include "tests/support/engines/cpu_engine.h"

namespace kiln::testing {
namespace {

constexpr int kSize = 256;

// y[i] = value(x, i) for i of kSize, as one kernel, in the text form.
class KernelText {
 public:
  KernelText() {
    const int shape = Node("STACK", {Int(kSize)});
    y_ = Node("PARAM", {shape}, "float32", "slot=0");
    x_ = Node("PARAM", {shape}, "float32", "slot=1");
    i_ = Node("RANGE", {Int(kSize)}, "", "range=(0) type=LOOP");
  }

  int Node(absl::string_view op, const std::vector<int>& sources, absl::string_view dtype = "",
           absl::string_view argument = "") {
    absl::StrAppend(&text_, count_, " ", op, dtype.empty() ? "" : " : ", dtype, " [", absl::StrJoin(sources, ","), "] ",
                    argument, "\n");
    return count_++;
  }
  int Int(int value) { return Node("CONST", {}, "", absl::StrCat("weakint ", value)); }
  int Float(double value) { return Node("CONST", {}, "", absl::StrCat("float32 ", value)); }
  int Load(int index) { return Node("INDEX", {x_, index}); }
  int i() const { return i_; }

  v1::Graph Storing(int value) {
    const int store = Node("STORE", {Node("INDEX", {y_, i_}), value});
    Node("SINK", {Node("END", {store, i_})});
    auto graph = ParseGraph(text_);
    EXPECT_TRUE(graph.ok()) << graph.status();
    return *std::move(graph);
  }

 private:
  std::string text_;
  int count_ = 0, y_, x_, i_;
};

std::vector<float> X() {
  std::vector<float> x(kSize);
  for (int i = 0; i < kSize; ++i) x[i] = static_cast<float>(i) / kSize;
  return x;
}

compiler::HostTensor TensorOf(const std::vector<float>& values) {
  compiler::HostTensor tensor{compiler::DType::kFloat32, {kSize}, std::string(kSize * sizeof(float), '\0')};
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
int Stencils(KernelText& kernel, int number, int& path) {
  if (number == 0) {
    const int place = kernel.Node("ADD", {kernel.i(), kernel.Int(++path)});
    return kernel.Load(kernel.Node("FLOORMOD", {place, kernel.Int(kSize)}));
  }
  int sum = Stencils(kernel, number - 1, path);
  for (int k = 1; k < 5; ++k) sum = kernel.Node("ADD", {sum, Stencils(kernel, number - 1, path)});
  return kernel.Node("MUL", {sum, kernel.Float(0.2)});
}

TEST(LargeKernels, FusedStencilsAreRefusedBeforeAnyPass) {
  KernelText kernel;
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
  KernelText kernel;
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
  KernelText kernel;
  int value = kernel.Load(kernel.i());
  for (int k = 0; k < kMany; ++k)
    value = kernel.Node("EXP2", {kernel.Node("MUL", {value, kernel.Float(-0.5 - k % 3)})});
  const std::vector<float> got = ValuesOf(kernel.Storing(value));
  for (int i = 0; i < kSize; ++i) {
    double want = X()[i];
    for (int k = 0; k < kMany; ++k) want = std::exp2(want * (-0.5 - k % 3));
    EXPECT_NEAR(got[i], want, 1e-5) << i;
  }
}

TEST(LargeKernels, AnIndexOfSumsOfTheTwoBefore) {
  KernelText kernel;
  int last = kernel.Int(1), sum = kernel.i();
  for (int k = 0; k < 300; ++k) {
    const int next = kernel.Node("FLOORMOD", {kernel.Node("ADD", {sum, last}), kernel.Int(251 - k % 7)});
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
