// Graphs on tuples of devices, compiled and run on two to four of them: the same as in
// the interpreter; what moves between devices is what the graph means, and no more.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/error.h"
#include "base/graph_text.h"
#include "tests/conformance/collective_graphs.h"
#include "tests/support/cpu_engine.h"
#include "tests/support/interp_engine.h"
#include "tests/support/multi_engine.h"

namespace kiln::testing {
namespace {

using compiler::DType;
using compiler::HostTensor;
using compiler::HostTensors;
using Kind = v1::TransferStep;

HostTensor Ints(std::vector<int64_t> shape) {
  HostTensor tensor;
  tensor.dtype = DType::kInt32;
  int64_t count = 1;
  for (int64_t size : shape) count *= size, tensor.shape.push_back(size);
  std::vector<int32_t> values;
  for (int32_t i = 0; i < count; ++i) values.push_back((i * 37 + 11) % 101 - 50);
  tensor.bytes.assign(reinterpret_cast<const char*>(values.data()), 4 * values.size());
  return tensor;
}

std::vector<std::string> Transfers(const v1::MultiProgram& program) {
  std::vector<std::string> kinds;
  for (const v1::MultiStep& step : program.steps()) {
    if (step.has_transfer()) kinds.push_back(v1::TransferStep::Kind_Name(step.transfer().kind()));
  }
  return kinds;
}

// Compiled and interpreted are the same; gives the kinds of the transfers.
std::vector<std::string> ExpectSame(const v1::Graph& graph, const HostTensors& arguments, int devices,
                                    const std::string& what) {
  MultiEngine engine(devices);
  const auto wanted = RunInterpreted(graph, arguments);
  EXPECT_TRUE(wanted.ok()) << what << wanted.status();
  const auto got = engine.Run(graph, arguments, ExactOptions());
  EXPECT_TRUE(got.ok()) << what << got.status();
  if (!got.ok() || !wanted.ok()) return {};
  EXPECT_EQ(got->results.size(), wanted->results.size()) << what;
  for (size_t i = 0; i < std::min(got->results.size(), wanted->results.size()); ++i) {
    EXPECT_EQ(got->results[i].shape, wanted->results[i].shape) << what;
    EXPECT_EQ(got->results[i].bytes, wanted->results[i].bytes) << what << " result " << i;
  }
  for (const auto& [slot, tensor] : wanted->written) {
    const auto written = got->written.find(slot);
    EXPECT_TRUE(written != got->written.end() && written->second.bytes == tensor.bytes) << what << " slot " << slot;
  }
  return Transfers(*engine.Compile(graph, ExactOptions()));
}

TEST(MultiDeviceCompiled, CollectivesAreRecognised) {
  for (const int n : {2, 3, 4}) {
    const int64_t s = 12;
    const auto run = [&](const std::string& name, bool all, const std::function<Node(Collectives&, Node)>& make,
                         const std::vector<std::string>& kinds) {
      Collectives c(n);
      const Node input = c.Input(all ? n * s : s, all);
      const std::string what = absl::StrCat(name, " over ", n, "\n");
      EXPECT_EQ(ExpectSame(c.Graph(make(c, input)), {{0, Ints({all ? n * s : s})}}, n, what), kinds) << what;
    };
    using C = Collectives;
    run("broadcast", false, [&](C& c, Node x) { return c.Broadcast(x, s); }, {"BROADCAST"});
    run("scatter", false, [&](C& c, Node x) { return c.Scatter(x); }, {"SCATTER"});
    run("gather", true, [&](C& c, Node x) { return c.Gather(x); }, {"GATHER"});
    run("reduce", true, [&](C& c, Node x) { return c.Reduce(x, s); }, {"REDUCE"});
    run("allgather", true, [&](C& c, Node x) { return c.AllGather(x, n * s); }, {"ALL_GATHER"});
    run("reduce_scatter", true, [&](C& c, Node x) { return c.ReduceScatter(x, s); }, {"REDUCE_SCATTER"});
    run("allreduce", true, [&](C& c, Node x) { return c.AllReduce(x, s); }, {"ALL_REDUCE"});
  }
}

// x: slot 0, int32 (4, 6); y: slot 1, int32 (6, 4), both split over D0 and D1; z: slot 2,
// int32 (4, 6), on the request's device.
constexpr char kSplit[] =
    "0 CONST [] weakint 4\n1 CONST [] weakint 6\n2 STACK [0, 1]\n"
    "3 PARAM [2] slot=0 dtype=int32 device=(\"D0\", \"D1\")\n"
    "4 STACK [1, 0]\n5 PARAM [4] slot=1 dtype=int32 device=(\"D0\", \"D1\")\n"
    "6 PARAM [2] slot=2 dtype=int32\n";

v1::Graph GraphOf(const std::string& nodes) {
  auto graph = ParseGraph(absl::StrCat(kSplit, nodes));
  EXPECT_TRUE(graph.ok()) << graph.status() << nodes;
  return *std::move(graph);
}

HostTensors Arguments() { return {{0, Ints({4, 6})}, {1, Ints({6, 4})}, {2, Ints({4, 6})}}; }

TEST(MultiDeviceCompiled, OpsOnSharesAreAsOnWholeValues) {
  struct Row {
    const char* nodes;
    std::vector<std::string> transfers;
  };
  const Row rows[] = {
      {"7 PERMUTE [3] axes=(1, 0)\n8 TUPLE [7]\n", {}},
      {"7 REDUCE [3] ADD axes=(0)\n8 TUPLE [7]\n", {"ALL_REDUCE"}},
      {"7 REDUCE [3] MAX axes=(0, 1)\n8 TUPLE [7]\n", {"ALL_REDUCE"}},
      {"7 REDUCE [3] MUL axes=(1)\n8 TUPLE [7]\n", {}},
      {"7 RESHAPE [3] axes=(1, 4, 2, 3)\n8 TUPLE [7]\n", {}},
      {"7 RESHAPE [3] axes=(2, 12)\n8 TUPLE [7]\n", {}},
      {"7 ADD [3, 3]\n8 TUPLE [7, 7, 3]\n", {}},
      {"7 REDUCE [3] ADD axes=(0)\n8 ADD [3, 7]\n9 TUPLE [8, 7]\n", {"ALL_REDUCE"}},
      {"7 CONST [] int32 1\n8 ADD [3, 7]\n9 TUPLE [8, 7]\n", {}},
      {"7 PAD [3] axes=(0, 0, 1, 1)\n8 TUPLE [7]\n", {}},
      {"7 SHRINK [3] axes=(0, 4, 1, 3)\n8 FLIP [7] flip=(0, 1)\n9 TUPLE [8]\n", {}},
      {"7 STACK [3, 3]\n8 TUPLE [7]\n", {}},
      {"7 CONTIGUOUS [3]\n8 TUPLE [7]\n", {}},
      {"7 COPY [3] load device=(\"D1\")\n8 TUPLE [7]\n", {"GATHER"}},
      {"7 PERMUTE [3] axes=(1, 0)\n8 COPY [7] load device=(\"D0\", \"D1\")\n9 TUPLE [8]\n", {"RESHARD"}},
      {"7 PERMUTE [3] axes=(1, 0)\n8 COPY [7] load device=(\"D1\")\n9 TUPLE [8]\n", {"RESHARD"}},
      {"7 MSELECT [3] index=1\n8 TUPLE [7]\n", {"GATHER"}},
      {"7 ALLREDUCE [3] allreduce=MAX\n8 TUPLE [7]\n", {"ALL_REDUCE"}},
      {"7 ADD [3, 6]\n8 TUPLE [7]\n", {"BROADCAST"}},
      {"7 MSELECT [3] index=0\n8 MSELECT [3] index=1\n9 MSTACK [7, 8]\n10 TUPLE [9]\n",
       {"GATHER", "GATHER", "RESHARD", "SCATTER"}},
      {"7 COPY [6] load device=(\"D1\", \"D0\")\n8 COPY [7] load device=(\"D0\", \"D1\")\n9 ADD [8, 3]\n10 TUPLE [9]\n",
       {"SCATTER", "RESHARD"}},
  };
  for (const Row& row : rows) EXPECT_EQ(ExpectSame(GraphOf(row.nodes), Arguments(), 2, row.nodes), row.transfers);
}

// What is whole on each device meets shares: each takes its part by its own number.
TEST(MultiDeviceCompiled, WholeOperandsAreCutByTheDevicesNumber) {
  const auto expanded = GraphOf("7 REDUCE [3] MAX axes=(0)\n8 EXPAND [7, 2]\n9 MUL [8, 3]\n10 TUPLE [9]\n");
  EXPECT_EQ(ExpectSame(expanded, Arguments(), 2, "expanded"), (std::vector<std::string>{"ALL_REDUCE"}));
  // 0, 1, 2, ... along the axis that is split: on no device, so made on each.
  const auto counted = GraphOf(
      "7 CONST [] int32 1\n8 STACK [7, 7, 7, 7]\n9 CONST [] int32 5\n10 STACK [7, 9, 7, 9]\n11 ADD [8, 10]\n"
      "12 RESHAPE [11] axes=(4, 1)\n13 MUL [3, 12]\n14 TUPLE [13]\n");
  EXPECT_EQ(ExpectSame(counted, Arguments(), 2, "counted"), (std::vector<std::string>{}));
}

TEST(MultiDeviceCompiled, StoresKeepTheirOrderAcrossTransfers) {
  const char* rows[] = {
      // x += sum over all of x; the sum is of what x was.
      "7 REDUCE [3] ADD axes=(0, 1)\n8 ADD [3, 7]\n9 STORE [3, 8]\n10 AFTER [3, 9]\n11 TUPLE [10, 7]\n",
      // The sum of what x has become.
      "7 ADD [3, 3]\n8 STORE [3, 7]\n9 AFTER [3, 8]\n10 REDUCE [9] ADD axes=(0)\n11 TUPLE [10, 9]\n",
      // Read before, behind a transfer of something else; written at once.
      "7 REDUCE [5] ADD axes=(0, 1)\n8 ADD [3, 7]\n9 ADD [3, 3]\n10 STORE [3, 9]\n11 AFTER [3, 10]\n"
      "12 TUPLE [8, 11]\n",
      // x is copied whole while y, to which it goes, is replaced.
      "7 PERMUTE [3] axes=(1, 0)\n8 COPY [7] load device=(\"D0\", \"D1\")\n9 STORE [5, 8]\n10 AFTER [5, 9]\n"
      "11 COPY [5] load device=(\"D0\")\n12 TUPLE [10, 11]\n",
      // Twice, with a transfer between.
      "7 CONST [] int32 2\n8 MUL [3, 7]\n9 STORE [3, 8]\n10 AFTER [3, 9]\n11 REDUCE [10] MAX axes=(0)\n"
      "12 ADD [10, 11]\n13 STORE [10, 12]\n14 AFTER [10, 13]\n15 TUPLE [14]\n",
  };
  for (const char* nodes : rows) ExpectSame(GraphOf(nodes), Arguments(), 2, nodes);
}

TEST(MultiDeviceCompiled, RefusesAStateThatIsGone) {
  // What x was is read behind a transfer of what it became.
  const auto graph = GraphOf(
      "7 ADD [3, 3]\n8 STORE [3, 7]\n9 AFTER [3, 8]\n10 REDUCE [9] ADD axes=(0)\n11 ADD [3, 10]\n12 TUPLE [11, 9]\n");
  const auto program = MultiEngine(2).Compile(graph, ExactOptions());
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(DetailOf(program.status())->code(), v1::UNSUPPORTED_SHARD) << program.status();
  EXPECT_EQ(DetailOf(program.status())->node(), 8u) << program.status();
}

}  // namespace
}  // namespace kiln::testing
