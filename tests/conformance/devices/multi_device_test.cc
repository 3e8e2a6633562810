// Tuples of devices in the interpreter: tinyspec's collectives give what their
// definitions say, each value is where it should be, and what would move elements
// between devices unasked is refused.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/import/wire.h"
#include "tests/conformance/devices/collective_graphs.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

using compiler::DType;
using compiler::HostTensor;
using Numbers = std::vector<int32_t>;

HostTensor Ints(const Numbers& values) {
  HostTensor tensor{DType::kInt32, {static_cast<int64_t>(values.size())}, ""};
  tensor.bytes.assign(reinterpret_cast<const char*>(values.data()), 4 * values.size());
  return tensor;
}

Numbers Values(const HostTensor& tensor) {
  Numbers values(tensor.bytes.size() / 4);
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

void Expect(const std::string& name, const v1::Graph& graph, const Numbers& input, const Numbers& result,
            int64_t devices, int axis) {
  compiler::Graph nodes;
  const auto root = compiler::FromWire(graph, compiler::Limits(), nodes);
  ASSERT_TRUE(root.ok()) << name << ": " << root.status();
  EXPECT_EQ((*root)->src(0)->device(), absl::StrJoin(Devices(devices), ",")) << name;
  EXPECT_EQ((*root)->src(0)->axis(), axis) << name;
  const auto run = RunInterpreted(graph, {{0, Ints(input)}});
  ASSERT_TRUE(run.ok()) << name << ": " << run.status();
  EXPECT_EQ(Values(run->results[0]), result) << name;
  // As text and back it is the same program.
  compiler::Graph again;
  const auto back = compiler::FromWire(compiler::ToWire(*root), compiler::Limits(), again);
  ASSERT_TRUE(back.ok()) << name << ": " << back.status();
  EXPECT_EQ((*back)->src(0)->axis(), axis) << name;

  const auto compiled = CpuEngine().Run(graph, {{0, Ints(input)}}, ExactOptions());
  ASSERT_FALSE(compiled.ok()) << name;
  EXPECT_EQ(DetailOf(compiled.status())->code(), v1::UNSUPPORTED_OP) << compiled.status();
  EXPECT_NE(compiled.status().message().find("tuple of devices"), absl::string_view::npos) << compiled.status();
}

TEST(MultiDevice, CollectivesGiveWhatTheyAreDefinedAs) {
  for (const int64_t n : {2, 4}) {
    const int64_t s = 8;
    Numbers one, many, sums(s, 0);
    for (int32_t i = 0; i < s; ++i) one.push_back(i * i - 7);
    for (int32_t i = 0; i < n * s; ++i) {
      many.push_back(3 * i - i * i % 11);
      sums[i % s] += many.back();
    }
    const auto run = [&](const char* name, bool all, const std::function<Node(Collectives&, Node)>& make,
                         const Numbers& result, int64_t devices, int axis) {
      Collectives c(n);
      const Node input = c.Input(all ? n * s : s, all);
      Expect(absl::StrCat(name, " over ", n), c.Graph(make(c, input)), all ? many : one, result, devices, axis);
    };
    using C = Collectives;
    run("broadcast", false, [&](C& c, Node x) { return c.Broadcast(x, s); }, one, n, -1);
    run("scatter", false, [&](C& c, Node x) { return c.Scatter(x); }, one, n, 0);
    run("gather", true, [&](C& c, Node x) { return c.Gather(x); }, many, 1, -1);
    run("reduce", true, [&](C& c, Node x) { return c.Reduce(x, s); }, sums, 1, -1);
    run("allgather", true, [&](C& c, Node x) { return c.AllGather(x, n * s); }, many, n, -1);
    run("reduce_scatter", true, [&](C& c, Node x) { return c.ReduceScatter(x, s); }, sums, n, 0);
    run("allreduce", true, [&](C& c, Node x) { return c.AllReduce(x, s); }, sums, n, -1);
  }
}

// x: slot 0, int32 (4, 6), split over D0 and D1; y: slot 1, int32 (6), the same.
constexpr char kSplit[] =
    "0 CONST [] weakint 4\n1 CONST [] weakint 6\n2 STACK [0, 1]\n"
    "3 PARAM [2] slot=0 dtype=int32 device=(\"D0\", \"D1\")\n"
    "4 STACK [1]\n5 PARAM [4] slot=1 dtype=int32 device=(\"D0\", \"D1\")\n";

v1::Graph GraphOf(const std::string& nodes) {
  const int last = static_cast<int>(std::count(nodes.begin(), nodes.end(), '\n')) + 5;
  auto graph = ParseGraph(absl::StrCat(kSplit, nodes, last + 1, " TUPLE [", last, "]\n"));
  EXPECT_TRUE(graph.ok()) << graph.status() << nodes;
  return *std::move(graph);
}

TEST(MultiDevice, OpsCarryTheShardAxisOrEndIt) {
  struct Row {
    const char* nodes;
    int axis;
    compiler::Shape shape;
  };
  const Row rows[] = {
      {"6 PERMUTE [3] axes=(1, 0)\n", 1, {6, 4}},
      {"6 REDUCE [3] ADD axes=(0)\n", -1, {1, 6}},
      {"6 REDUCE [3] ADD axes=(1)\n", 0, {4, 1}},
      {"6 RESHAPE [3] axes=(1, 4, 2, 3)\n", 1, {1, 4, 2, 3}},
      {"6 RESHAPE [3] axes=(2, 12)\n", 0, {2, 12}},
      {"6 RESHAPE [3] axes=(24)\n", 0, {24}},
      {"6 ADD [3, 3]\n", 0, {4, 6}},
      {"6 REDUCE [3] ADD axes=(0)\n7 ADD [3, 6]\n", 0, {4, 6}},
      {"6 CONST [] int32 1\n7 ADD [3, 6]\n", 0, {4, 6}},
      {"6 PAD [3] axes=(0, 0, 1, 1)\n", 0, {4, 8}},
      {"6 SHRINK [3] axes=(0, 4, 1, 3)\n", 0, {4, 2}},
      {"6 FLIP [3] flip=(0, 1)\n", 0, {4, 6}},
      {"6 STACK [3, 3]\n", 1, {2, 4, 6}},
      {"6 CONTIGUOUS [3]\n", 0, {4, 6}},
      {"6 COPY [3] load device=(\"D1\")\n", -1, {4, 6}},
      {"6 PERMUTE [3] axes=(1, 0)\n7 COPY [6] load device=(\"D0\", \"D1\")\n", 0, {6, 4}},
      {"6 MSELECT [3] index=1\n", -1, {2, 6}},
      {"6 ALLREDUCE [3] allreduce=MAX\n", -1, {2, 6}},
      {"6 MSELECT [3] index=0\n7 MSELECT [3] index=1\n8 MSTACK [6, 7]\n", 0, {2, 2, 6}},
      {"6 MSELECT [3] index=0\n7 MSELECT [3] index=1\n8 MSTACK [6, 7]\n9 MULTI [8] index=1\n", 1, {2, 12}},
      {"6 RESHAPE [3] axes=(2, 2, 6)\n7 UNSHARD [6] index=0\n", 0, {4, 6}},
  };
  for (const Row& row : rows) {
    compiler::Graph nodes;
    const auto root = compiler::FromWire(GraphOf(row.nodes), compiler::Limits(), nodes);
    ASSERT_TRUE(root.ok()) << row.nodes << root.status();
    EXPECT_EQ((*root)->src(0)->axis(), row.axis) << row.nodes;
    EXPECT_EQ((*root)->src(0)->shape(), row.shape) << row.nodes;
  }
}

TEST(MultiDevice, ShardsAreTakenApartAndJoined) {
  Numbers x(24), y(6, 0);
  for (int32_t i = 0; i < 24; ++i) x[i] = 5 * i % 17;
  const auto run = [&](const char* nodes) {
    const auto result = RunInterpreted(GraphOf(nodes), {{0, Ints(x)}, {1, Ints(y)}});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? Values(result->results[0]) : Numbers();
  };
  EXPECT_EQ(run("6 MSELECT [3] index=1\n"), Numbers(x.begin() + 12, x.end()));
  EXPECT_EQ(run("6 MSELECT [3] index=0\n7 MSELECT [3] index=1\n8 MSTACK [6, 7]\n9 MULTI [8] index=0\n"), x);
  Numbers greatest(12);
  for (int i = 0; i < 12; ++i) greatest[i] = std::max(x[i], x[i + 12]);
  EXPECT_EQ(run("6 ALLREDUCE [3] allreduce=MAX\n"), greatest);
}

TEST(MultiDevice, RefusesWhatWouldMoveElementsUnasked) {
  struct Fault {
    const char* nodes;
    uint32_t node;
    const char* text;
  };
  const Fault faults[] = {
      {"6 ADD [3, 5]\n", 6, "axis 0 and axis 1"},
      {"6 RESHAPE [3] axes=(3, 8)\n", 6, "borders"},
      {"6 FLIP [3] flip=(1, 0)\n", 6, "COPY first"},
      {"6 PAD [3] axes=(1, 1, 0, 0)\n", 6, "COPY first"},
      {"6 SHRINK [3] axes=(0, 2, 0, 6)\n", 6, "COPY first"},
      {"6 CONST [] int32 1\n7 INDEX [3, 6]\n", 7, "COPY first"},
      {"6 COPY [3] load device=(\"D0\", \"D1\", \"D2\")\n", 6, "equal shares"},
      {"6 COPY [3] load device=(\"D0\", \"D0\")\n", 6, "twice"},
      {"6 COPY [3] load device=(\"D0,D1\")\n", 6, "no name"},
      {"6 COPY [3] load device=(\"D0\")\n7 ADD [6, 3]\n", 7, "two devices"},
      {"6 REPLICATED [3] index=0\n", 6, "replica"},
      {"6 REPLICATED [3] index=2\n", 6, "axis 2"},
      {"6 REDUCE [3] ADD axes=(0, 1)\n7 RESHAPE [6] axes=()\n8 COPY [7] load device=(\"D0\", \"D1\")\n", 8,
       "equal shares"},
      {"6 MSELECT [3] index=2\n", 6, "device 2 of 2"},
      {"6 MSTACK [3, 3]\n", 6, "one device each"},
      {"6 MULTI [3] index=0\n", 6, "stack of shards"},
      {"6 MULTI [3]\n", 6, "MULTI wants an index as its argument: along which axis"},
      {"6 UNSHARD [3] axes=(0)\n", 6, "UNSHARD wants an index"},
      {"6 MSELECT [3]\n", 6, "which of the devices"},
      {"6 ALLREDUCE [3]\n", 6, "ALLREDUCE"},
  };
  for (const Fault& fault : faults) {
    compiler::Graph nodes;
    const auto root = compiler::FromWire(GraphOf(fault.nodes), compiler::Limits(), nodes);
    ASSERT_FALSE(root.ok()) << fault.nodes;
    const v1::ErrorDetail detail = DetailOf(root.status()).value_or(v1::ErrorDetail());
    EXPECT_EQ(detail.code(), v1::BAD_ARGUMENT) << fault.nodes << root.status();
    EXPECT_EQ(detail.node(), fault.node) << fault.nodes << root.status();
    EXPECT_NE(root.status().message().find(fault.text), absl::string_view::npos) << fault.nodes << root.status();
  }
}

// One device by name is the device there is: a COPY to it computes.
TEST(MultiDevice, OneDeviceCompiles) {
  const auto graph = ParseGraph(
      "0 CONST [] weakint 3\n1 STACK [0]\n2 PARAM [1] slot=0 dtype=int32 device=(\"PYTHON\")\n"
      "3 COPY [2] load device=(\"CPU\")\n4 PARAM [1] slot=1 dtype=int32 device=(\"CPU\")\n5 ADD [3, 4]\n6 TUPLE [5]\n");
  ASSERT_TRUE(graph.ok());
  const auto run = CpuEngine().Run(*graph, {{0, Ints({1, 2, 3})}, {1, Ints({10, 20, 30})}}, ExactOptions());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(Values(run->results[0]), (Numbers{11, 22, 33}));
}

}  // namespace
}  // namespace kiln::testing
