// Symbolic sizes on four devices: one compile for all values of the variables, whole on
// each device and split over them, against the interpreter, which binds them first.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "tests/support/arguments.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"
#include "tests/support/engines/multi_engine.h"

namespace kiln::testing {
namespace {

using compiler::VariableValues;

constexpr int kDevices = 4;

// n, 1 to 5, is slot 8, m, 0 to 3, slot 9. On four devices: x (11), int32 (n*4, m), split
// along n*4; y (13), int32 (8, n). On the request's device: z (15), int32 (m, n); w (16),
// of x's shape.
constexpr char kHead[] = R"(0 STACK []
1 PARAM [0] slot=8 dtype=int32 space=ALU name="n" min=1 max=5
2 PARAM [0] slot=9 dtype=int32 space=ALU name="m" min=0 max=3
3 CONST [] weakint 1
4 CONST [] weakint 4
5 CONST [] weakint 8
6 CONST [] weakint 0
7 MUL [1, 4]
8 STACK [6]
9 STACK [7]
10 STACK [7, 2]
11 PARAM [10] slot=0 dtype=int32 device=("D0", "D1", "D2", "D3")
12 STACK [5, 1]
13 PARAM [12] slot=1 dtype=int32 device=("D0", "D1", "D2", "D3")
14 STACK [2, 1]
15 PARAM [14] slot=2 dtype=int32
16 PARAM [10] slot=3 dtype=int32
)";

v1::Graph Parsed(const std::string& nodes) {
  const auto graph = ParseGraph(absl::StrCat(kHead, nodes));
  EXPECT_TRUE(graph.ok()) << graph.status() << nodes;
  return graph.ok() ? *graph : v1::Graph();
}

TEST(MultiSymbolic, CompiledEqualsInterpretedForAllValues) {
  const char* rows[] = {
      "17 ADD [11, 11]\n18 TUPLE [17]\n",
      "17 REDUCE [11] ADD axes=(0)\n18 MUL [11, 17]\n19 TUPLE [18, 17]\n",
      "17 REDUCE [13] MAX axes=(0)\n18 ADD [13, 17]\n19 TUPLE [18]\n",
      "17 REDUCE [13] ADD axes=(0, 1)\n18 TUPLE [17]\n",
      // To one device, and back.
      "17 COPY [11] load device=(\"D2\")\n18 FLIP [17] flip=(1, 0)\n"
      "19 COPY [18] load device=(\"D0\", \"D1\", \"D2\", \"D3\")\n20 ADD [11, 19]\n21 TUPLE [20, 18]\n",
      "17 COPY [13] load device=(\"D1\")\n18 TUPLE [17]\n",
      // From axis to axis.
      "17 STACK [1, 5]\n18 PERMUTE [13] axes=(1, 0)\n19 COPY [18] load device=(\"D3\")\n20 PERMUTE [19] axes=(1, 0)\n"
      "21 COPY [20] load device=(\"D0\", \"D1\", \"D2\", \"D3\")\n22 MUL [21, 13]\n23 TUPLE [22]\n",
      // Whole on each; each takes its part of it.
      "17 STACK [3, 7, 2]\n18 STACK [4, 7, 2]\n19 RESHAPE [16, 17]\n20 EXPAND [19, 18]\n"
      "21 COPY [20] load device=(\"D0\", \"D1\", \"D2\", \"D3\")\n22 REPLICATED [21] index=0\n23 ADD [22, 11]\n"
      "24 TUPLE [23, 22]\n",
      "17 STACK [3, 2, 1]\n18 STACK [4, 2, 1]\n19 RESHAPE [15, 17]\n20 EXPAND [19, 18]\n"
      "21 COPY [20] load device=(\"D0\", \"D1\", \"D2\", \"D3\")\n22 REPLICATED [21] index=0\n23 MUL [22, 22]\n"
      "24 TUPLE [23]\n",
      "17 ADD [16, 11]\n18 TUPLE [17]\n",
      "17 STACK [4, 1, 2]\n18 RESHAPE [11, 17]\n19 REDUCE [18] ADD axes=(1)\n20 TUPLE [19]\n",
      // In place.
      "17 ADD [11, 11]\n18 STORE [11, 17]\n19 AFTER [11, 18]\n20 REDUCE [19] ADD axes=(0)\n21 TUPLE [19, 20]\n",
      // Their values count too.
      "17 MUL [11, 1]\n18 TUPLE [17]\n",
  };
  for (const char* nodes : rows) {
    const v1::Graph graph = Parsed(nodes);
    MultiEngine four(kDevices), named(kDevices, /*as_one=*/true);
    const auto message = four.Compile(graph, ExactOptions());
    ASSERT_TRUE(message.ok()) << nodes << message.status();
    const auto program = four.Load(*message), alone = named.Load(*message);
    ASSERT_TRUE(program.ok() && alone.ok()) << nodes << program.status() << alone.status();
    for (const int64_t n : {2, 1, 5, 5, 3}) {
      for (const int64_t m : {3, 1, 0}) {
        const std::string what = absl::StrCat("n = ", n, ", m = ", m, "\n", nodes);
        const VariableValues values = {{8, n}, {9, m}};
        const auto arguments = RandomArguments(graph, static_cast<uint64_t>(10 * n + m), values);
        ASSERT_TRUE(arguments.ok()) << arguments.status();
        const auto wanted = RunInterpreted(graph, *arguments, values);
        ASSERT_TRUE(wanted.ok()) << what << wanted.status();
        for (const bool one : {false, true}) {
          const auto got =
              one ? named.RunLoaded(*alone, *arguments, values) : four.RunLoaded(*program, *arguments, values);
          ASSERT_TRUE(got.ok()) << what << got.status();
          ASSERT_EQ(got->results.size(), wanted->results.size());
          for (size_t i = 0; i < got->results.size(); ++i) {
            EXPECT_EQ(got->results[i].shape, wanted->results[i].shape) << what;
            EXPECT_EQ(got->results[i].bytes, wanted->results[i].bytes) << what << " result " << i;
          }
          for (const auto& [slot, tensor] : wanted->written)
            EXPECT_EQ(got->written.at(slot).bytes, tensor.bytes) << what << " slot " << slot;
        }
      }
    }
  }
}

TEST(MultiSymbolic, ASplitSizeDividesForEveryValue) {
  const auto graph = ParseGraph(R"(0 STACK []
1 PARAM [0] slot=8 dtype=int32 space=ALU name="n" min=4 max=8
2 STACK [1]
3 PARAM [2] slot=0 dtype=int32 device=("D0", "D1", "D2", "D3")
4 TUPLE [3]
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto program = MultiEngine(kDevices).Compile(*graph, ExactOptions());
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(DetailOf(program.status())->code(), v1::UNSUPPORTED_SHARD) << program.status();
  EXPECT_EQ(DetailOf(program.status())->node(), 3u) << program.status();
  EXPECT_NE(program.status().message().find("4 times a variable"), absl::string_view::npos) << program.status();
}

// A share begins at the device's number times its size: one variable more than a size may have.
TEST(MultiSymbolic, ProductsOfManyVariables) {
  for (const int variables : {5, 6}) {
    std::string text = "0 STACK []\n";
    for (int i = 1; i <= variables; ++i)
      absl::StrAppend(&text, i, " PARAM [0] slot=", i, " dtype=int32 space=ALU name=\"v", i, "\" min=1 max=3\n");
    absl::StrAppend(&text, variables + 1, " CONST [] weakint 4\n");
    int node = variables + 1;
    for (int i = 1; i <= variables; ++i, ++node) absl::StrAppend(&text, node + 1, " MUL [", node, ", ", i, "]\n");
    absl::StrAppend(&text, node + 1, " STACK [", node, "]\n", node + 2, " PARAM [", node + 1,
                    "] slot=0 dtype=float32\n", node + 3, " SIN [", node + 2, "]\n", node + 4, " COPY [", node + 3,
                    "] load device=(\"D0\", \"D1\", \"D2\", \"D3\")\n", node + 5, " TUPLE [", node + 4, "]\n");
    const auto graph = ParseGraph(text);
    ASSERT_TRUE(graph.ok()) << graph.status() << text;
    const absl::Status compiled = MultiEngine(kDevices).Compile(*graph, ExactOptions()).status();
    EXPECT_TRUE(compiled.ok() || DetailOf(compiled)->code() == v1::UNSUPPORTED_SHARD) << compiled << text;
    EXPECT_TRUE(compiled.ok() || variables == 6) << compiled;
  }
}

// Also where no segment computes anything: two negative sizes would be a positive number of bytes.
TEST(MultiSymbolic, NegativeSizesAreRefused) {
  const auto graph = ParseGraph(R"(0 STACK []
1 PARAM [0] slot=8 dtype=int32 space=ALU name="n" min=1 max=8
2 PARAM [0] slot=9 dtype=int32 space=ALU name="m" min=1 max=8
3 CONST [] weakint -4
4 ADD [1, 3]
5 ADD [2, 3]
6 CONST [] weakint 2
7 MUL [4, 6]
8 STACK [7, 5]
9 PARAM [8] slot=0 dtype=int32
10 COPY [9] load device=("D0", "D1")
11 TUPLE [10]
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  MultiEngine two(kDevices);
  const auto message = two.Compile(*graph, ExactOptions());
  ASSERT_TRUE(message.ok()) << message.status();
  const auto program = two.Load(*message);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_TRUE((*program)->At({4, 5}).ok());
  for (const std::vector<int64_t>& values : {std::vector<int64_t>{2, 2}, {2, 6}, {6, 2}}) {
    const absl::Status refused = (*program)->CheckValues(values);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(DetailOf(refused)->code(), v1::OUT_OF_BOUNDS) << refused;
    EXPECT_NE(refused.message().find("a size is negative"), absl::string_view::npos) << refused;
  }
}

TEST(MultiSymbolic, ValuesOutsideTheirRangeAreRefused) {
  MultiEngine four(kDevices);
  const auto program = four.Load(*four.Compile(Parsed("17 ADD [11, 11]\n18 TUPLE [17]\n"), ExactOptions()));
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(DetailOf((*program)->At({6, 1}).status())->code(), v1::BAD_ARGUMENT);
  EXPECT_EQ(DetailOf((*program)->At({6, 1}).status())->slot(), 8u);
  const std::vector<int64_t> values = {3, 2};
  EXPECT_EQ(*(*program)->At(values), *(*program)->At(values));  // made once
}

}  // namespace
}  // namespace kiln::testing
