// Graphs on tuples of devices, compiled and run on two to four of them: the same as in
// the interpreter; what moves between devices is what the graph means, and no more.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "tests/conformance/devices/collective_graphs.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"
#include "tests/support/engines/multi_engine.h"

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

// The nodes of a text numbered as they stand in it.
std::string Renumbered(const std::string& text) {
  std::map<std::string, size_t> number;
  std::string made;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const size_t space = line.find(' '), open = line.find('['), close = line.find(']');
    const std::string own(line.substr(0, space));
    std::vector<std::string> sources;
    for (absl::string_view source : absl::StrSplit(line.substr(open + 1, close - open - 1), ", ", absl::SkipEmpty()))
      sources.push_back(absl::StrCat(number.at(std::string(source))));
    const size_t place = number.size();
    number[own] = place;
    absl::StrAppend(&made, place, line.substr(space, open - space + 1), absl::StrJoin(sources, ", "),
                    line.substr(close), "\n");
  }
  return made;
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

// (m, k) x (k, n) with operands split by rows, by columns, along k, and over a grid of
// two by two; against three loops.
TEST(MultiDeviceCompiled, MatrixProductsAreSplitEveryWay) {
  const HostTensor a = Ints({4, 8}), b = Ints({8, 6});
  std::vector<int32_t> x(32), y(48), product(24, 0);
  std::memcpy(x.data(), a.bytes.data(), a.bytes.size());
  std::memcpy(y.data(), b.bytes.data(), b.bytes.size());
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 6; ++j) {
      for (int k = 0; k < 8; ++k) product[i * 6 + j] += x[i * 8 + k] * y[k * 6 + j];
    }
  }
  const std::string wanted(reinterpret_cast<const char*>(product.data()), 4 * product.size());
  const std::string sizes =
      "0 CONST [] weakint 4\n1 CONST [] weakint 8\n2 CONST [] weakint 6\n3 STACK [0, 1]\n4 STACK [1, 2]\n"
      "5 PARAM [3] slot=0 dtype=int32\n6 PARAM [4] slot=1 dtype=int32\n";
  // From 20 and 21, operands of (4, 8, 1) and (1, 8, 6) once broadcast.
  const std::string multiply = "30 MUL [20, 21]\n31 REDUCE [30] ADD axes=(1)\n";
  struct Row {
    const char* name;
    std::string operands;  // ends with nodes 20 and 21
    std::vector<std::string> transfers;
  };
  const std::string whole_b =
      "15 RESHAPE [6] axes=(1, 48)\n16 EXPAND [15] axes=(2, 48)\n"
      "17 COPY [16] load device=(\"D0\", \"D1\")\n18 REPLICATED [17] index=0\n"
      "21 RESHAPE [18] axes=(1, 8, 6)\n";
  const std::string whole_a =
      "15 RESHAPE [5] axes=(1, 32)\n16 EXPAND [15] axes=(2, 32)\n"
      "17 COPY [16] load device=(\"D0\", \"D1\")\n18 REPLICATED [17] index=0\n"
      "20 RESHAPE [18] axes=(4, 8, 1)\n";
  const std::string columns_of_b =
      "10 PERMUTE [6] axes=(1, 0)\n11 COPY [10] load device=(\"D0\", \"D1\")\n"
      "12 PERMUTE [11] axes=(1, 0)\n21 RESHAPE [12] axes=(1, 8, 6)\n";
  const Row rows[] = {
      {"rows of a",
       "7 COPY [5] load device=(\"D0\", \"D1\")\n20 RESHAPE [7] axes=(4, 8, 1)\n" + whole_b,
       {"SCATTER", "BROADCAST"}},
      {"columns of b", columns_of_b + whole_a, {"BROADCAST", "SCATTER"}},
      {"along k",
       "7 PERMUTE [5] axes=(1, 0)\n8 COPY [7] load device=(\"D0\", \"D1\")\n9 PERMUTE [8] axes=(1, 0)\n"
       "20 RESHAPE [9] axes=(4, 8, 1)\n10 COPY [6] load device=(\"D0\", \"D1\")\n21 RESHAPE [10] axes=(1, 8, 6)\n",
       {"SCATTER", "SCATTER", "ALL_REDUCE"}},
      // Four devices: rows of a over two halves of them, columns of b over the others of
      // each half. The first axis of four is the grid's place.
      {"a grid",
       "7 RESHAPE [5] axes=(2, 1, 2, 8)\n8 EXPAND [7] axes=(2, 2, 2, 8)\n9 RESHAPE [8] axes=(4, 2, 8, 1)\n"
       "10 COPY [9] load device=(\"D0\", \"D1\", \"D2\", \"D3\")\n"
       "11 RESHAPE [6] axes=(8, 2, 3)\n12 PERMUTE [11] axes=(1, 0, 2)\n13 RESHAPE [12] axes=(1, 2, 8, 3)\n"
       "14 EXPAND [13] axes=(2, 2, 8, 3)\n15 RESHAPE [14] axes=(4, 1, 8, 3)\n"
       "16 COPY [15] load device=(\"D0\", \"D1\", \"D2\", \"D3\")\n17 MUL [10, 16]\n18 REDUCE [17] ADD axes=(2)\n"
       "19 COPY [18] load device=(\"D0\")\n22 RESHAPE [19] axes=(2, 2, 2, 3)\n23 PERMUTE [22] axes=(0, 2, 1, 3)\n"
       "24 RESHAPE [23] axes=(4, 6)\n",
       {"SCATTER", "SCATTER", "GATHER"}},
  };
  for (const Row& row : rows) {
    const bool grid = row.transfers.back() == "GATHER";
    const std::string text = sizes + row.operands + (grid ? "32 TUPLE [24]\n" : multiply + "32 TUPLE [31]\n");
    const auto graph = ParseGraph(Renumbered(text));
    ASSERT_TRUE(graph.ok()) << row.name << graph.status();
    MultiEngine engine(4);
    const auto got = engine.Run(*graph, {{0, a}, {1, b}}, ExactOptions());
    ASSERT_TRUE(got.ok()) << row.name << got.status();
    EXPECT_EQ(got->results[0].bytes, wanted) << row.name;
    EXPECT_EQ(Transfers(*engine.Compile(*graph, ExactOptions())), row.transfers) << row.name;
  }
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
