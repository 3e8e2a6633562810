// FUNCTION and CALL through both engines: against the same program written out
// by hand, and against values.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/graph/graph_text.h"
#include "client/cpp/graph.h"
#include "client/cpp/ops.h"
#include "compiler/compile.h"
#include "runtime/hal/device.h"
#include "tests/support/arguments.h"
#include "tests/support/compare.h"
#include "tests/support/cpu_programs.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

v1::Graph Parsed(const std::string& text) {
  const auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *graph;
}

// Runs `graph` on both engines; what the interpreter gives.
compiler::InterpResult RunBoth(const v1::Graph& graph, const compiler::HostTensors& arguments, Tolerance tolerance) {
  const auto want = RunInterpreted(graph, arguments);
  EXPECT_TRUE(want.ok()) << want.status();
  const auto got = CpuEngine().Run(graph, arguments, ExactOptions());
  EXPECT_TRUE(got.ok()) << got.status();
  if (!want.ok() || !got.ok()) return {};
  EXPECT_EQ(CompareOutcomes(*got, *want, tolerance), "") << PrintGraph(graph);
  return *want;
}

std::vector<int32_t> Ints(const compiler::HostTensor& tensor) {
  std::vector<int32_t> values(tensor.bytes.size() / 4);
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

compiler::HostTensor Int32(const std::vector<int32_t>& values) {
  return {compiler::DType::kInt32,
          {static_cast<int64_t>(values.size())},
          std::string(reinterpret_cast<const char*>(values.data()), values.size() * 4)};
}

// Slots 0 and 1 are int32 vectors of 3; node 7 is the body (a - 2b, a * b).
constexpr char kHead[] = R"(0 CONST [] weakint 3
1 STACK [0]
2 PARAM [1] slot=0 dtype=int32
3 PARAM [1] slot=1 dtype=int32
4 CONST [] weakint 2
5 MUL [3, 4]
6 SUB [2, 5]
7 MUL [2, 3]
8 TUPLE [6, 7]
)";

TEST(Functions, ScopesAndTuples) {
  // (f(b, a)[0] + f(a, b)[1], f(f(a, b)[1], a)[0]).
  const v1::Graph graph = Parsed(absl::StrCat(kHead, R"(9 FUNCTION [8, 3, 2]
10 GETTUPLE [9] index=0
11 FUNCTION [8, 2, 3]
12 GETTUPLE [11] index=1
13 ADD [10, 12]
14 FUNCTION [8, 12, 2]
15 GETTUPLE [14] index=0
16 TUPLE [13, 15]
)"));
  const auto outcome = RunBoth(graph, {{0, Int32({1, 2, 3})}, {1, Int32({10, -20, 30})}}, {});
  ASSERT_EQ(outcome.results.size(), 2u);
  EXPECT_EQ(Ints(outcome.results[0]), (std::vector<int32_t>{10 - 2 + 10, -20 - 4 - 40, 30 - 6 + 90}));
  EXPECT_EQ(Ints(outcome.results[1]), (std::vector<int32_t>{10 - 2, -40 - 4, 90 - 6}));
}

TEST(Functions, ACallUpdatesItsArgumentsAndReadsThemAsTheyWere) {
  // swap-like: p0 = a - 2b, p1 = a * b of what both were before; twice, the second
  // time on what the first left.
  const v1::Graph graph = Parsed(absl::StrCat(kHead, R"(9 STORE [2, 6]
10 AFTER [2, 9]
11 STORE [3, 7]
12 AFTER [3, 11]
13 SINK [10, 12]
14 CALL [13, 2, 3]
15 AFTER [2, 14]
16 AFTER [3, 14]
17 CALL [13, 15, 16]
18 AFTER [15, 17]
19 AFTER [16, 17]
20 TUPLE [18, 19]
)"));
  const auto outcome = RunBoth(graph, {{0, Int32({1, 2, 3})}, {1, Int32({4, 5, -6})}}, {});
  ASSERT_EQ(outcome.results.size(), 2u);
  const std::vector<int32_t> a = {1 - 8, 2 - 10, 3 + 12}, b = {4, 10, -18};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Ints(outcome.results[0])[i], a[i] - 2 * b[i]);
    EXPECT_EQ(Ints(outcome.results[1])[i], a[i] * b[i]);
  }
}

TEST(Functions, ACallMayBeTheWholeProgram) {
  const v1::Graph graph = Parsed(absl::StrCat(kHead, R"(9 STORE [2, 6]
10 AFTER [2, 9]
11 SINK [10]
12 CALL [11, 3, 2]
)"));
  const auto outcome = RunBoth(graph, {{0, Int32({1, 2, 3})}, {1, Int32({4, 5, -6})}}, {});
  ASSERT_EQ(outcome.written.size(), 1u);
  EXPECT_EQ(Ints(outcome.written.at(1)), (std::vector<int32_t>{2, 1, -12}));
}

// A block of three layers, relu(x w + b), four times over; nested: two blocks are
// a stage, called twice.
constexpr int64_t kBatch = 8, kWidth = 16;

client::Tensor Block(client::Tensor x, const std::vector<client::Tensor>& weights) {
  for (int layer = 0; layer < 3; ++layer)
    x = client::Relu(client::Matmul(x, weights[2 * layer]) + weights[2 * layer + 1]);
  return x;
}

std::vector<client::Tensor> Weights(client::Graph& graph) {
  std::vector<client::Tensor> weights;
  for (uint32_t layer = 0; layer < 3; ++layer) {
    weights.push_back(graph.Param(1 + 2 * layer, v1::FLOAT32, {kWidth, kWidth}));
    weights.push_back(graph.Param(2 + 2 * layer, v1::FLOAT32, {kWidth}));
  }
  return weights;
}

v1::Graph BlocksByHand() {
  client::Graph graph;
  client::Tensor x = graph.Param(0, v1::FLOAT32, {kBatch, kWidth});
  const auto weights = Weights(graph);
  for (int block = 0; block < 4; ++block) x = Block(x, weights);
  graph.Output(x);
  return *graph.Build();
}

v1::Graph BlocksAsFunctions() {
  client::Graph graph;
  const client::Tensor x = graph.Param(0, v1::FLOAT32, {kBatch, kWidth});
  const auto weights = Weights(graph);
  graph.Output(Block(x, weights));
  v1::Graph wire = *graph.Build();  // its root, the TUPLE, is the body
  std::vector<uint32_t> param(7);
  for (int i = 0; i < wire.nodes_size(); ++i) {
    if (wire.nodes(i).op() == v1::PARAM) param[wire.nodes(i).buffer().slot()] = static_cast<uint32_t>(i);
  }
  const auto add = [&](v1::Op op, std::vector<uint32_t> src) {
    v1::UOp& node = *wire.add_nodes();
    node.set_op(op);
    node.mutable_src()->Assign(src.begin(), src.end());
    return static_cast<uint32_t>(wire.nodes_size() - 1);
  };
  const auto call = [&](uint32_t body, uint32_t first) {
    std::vector<uint32_t> src = {body, first};
    src.insert(src.end(), param.begin() + 1, param.end());
    const uint32_t node = add(v1::GETTUPLE, {add(v1::FUNCTION, src)});
    wire.mutable_nodes(static_cast<int>(node))->set_index(0);
    return node;
  };
  const auto body = static_cast<uint32_t>(wire.nodes_size() - 1);
  const uint32_t stage = add(v1::TUPLE, {call(body, call(body, param[0]))});
  add(v1::TUPLE, {call(stage, call(stage, param[0]))});
  return wire;
}

TEST(Functions, ABlockCalledFourTimesIsCompiledOnce) {
  const v1::Graph graph = BlocksAsFunctions(), by_hand = BlocksByHand();
  const auto arguments = RandomArguments(by_hand, 5);
  ASSERT_TRUE(arguments.ok());
  // Sums of products of small integers: exact for a block or two, then rounded in
  // the order of the reduction.
  const auto outcome = RunBoth(graph, *arguments, {.ulp = 16});
  const auto want = RunInterpreted(by_hand, *arguments);
  ASSERT_TRUE(want.ok()) << want.status();
  EXPECT_EQ(CompareOutcomes(outcome, *want, {}), "");

  for (const auto& [cpu, executable] : CompiledForEachCpu(graph)) {
    EXPECT_EQ(executable.steps_size(), 12) << cpu;
    EXPECT_EQ(executable.kernels_size(), 1) << cpu;  // all layers are alike, too
  }
}

TEST(Functions, ASmallBodyIsFused) {
  // relu is too small for a boundary: one kernel for relu(relu(x) + 1).
  const v1::Graph graph = Parsed(R"(0 CONST [] weakint 64
1 STACK [0]
2 PARAM [1] slot=0 dtype=float32
3 CONST [] weakint 0
4 MAX [2, 3]
5 TUPLE [4]
6 FUNCTION [5, 2]
7 GETTUPLE [6] index=0
8 CONST [] weakint 1
9 ADD [7, 8]
10 FUNCTION [5, 9]
11 GETTUPLE [10] index=0
12 TUPLE [11]
)");
  for (const auto& [cpu, executable] : CompiledForEachCpu(graph)) EXPECT_EQ(executable.steps_size(), 1) << cpu;
}

TEST(Functions, AnInvalidArgumentStaysInvalid) {
  // A reused body with a REDUCE that skips what a PAD without fill adds: the
  // boundary must not turn it into zeros.
  const v1::Graph graph = Parsed(R"(0 CONST [] weakint 4
1 STACK [0]
2 PARAM [1] slot=0 dtype=int32
3 CONST [] weakint -1
4 MUL [2, 3]
5 ADD [4, 2]
6 MUL [5, 5]
7 ADD [6, 2]
8 XOR [7, 4]
9 XOR [8, 4]
10 MUL [9, 9]
11 ADD [10, 9]
12 XOR [11, 10]
13 XOR [12, 10]
14 REDUCE [9] MAX axes=(0)
15 REDUCE [13] MAX axes=(0)
16 TUPLE [14, 15]
17 CONST [] weakint 1
18 CONST [] weakint 2
19 STACK [17]
20 STACK [18]
21 SHRINK [2, 19, 20]
22 MUL [21, 3]
23 PAD [22, 19, 1]
24 FUNCTION [16, 23]
25 GETTUPLE [24] index=0
26 FUNCTION [16, 2]
27 GETTUPLE [26] index=1
28 TUPLE [25, 27]
)");
  const auto outcome = RunBoth(graph, {{0, Int32({1, 2, 3, 4})}}, {});
  ASSERT_EQ(outcome.results.size(), 2u);
  EXPECT_EQ(Ints(outcome.results[0]), std::vector<int32_t>{-2});
  EXPECT_EQ(Ints(outcome.results[1]), std::vector<int32_t>{20});
}

}  // namespace
}  // namespace kiln::testing
