// Variables in kernels and programs written by hand: one compile for all values, on
// the CPU and in the interpreter (which binds them first), against values computed
// here.
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "base/graph/graph_text.h"
#include "runtime/exec/loaded_executable.h"
#include "tests/conformance/programs/program_cases.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

using Values = std::vector<int32_t>;

// Every graph has n in 1..6 at slot 8 and m in 0..3 at slot 9, writes slot 0 (24
// times -1) and reads slot 1 (0, 3, 6, ...).
constexpr size_t kSize = 24;

struct VariableCase {
  const char* name;
  v1::Graph graph;
  std::function<void(Values& out, const Values& in, int n, int m)> expected;
};

v1::Graph Parsed(const std::string& text) {
  const auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *graph : v1::Graph();
}

// Nodes every graph below begins with.
constexpr char kHead[] = R"(0 STACK []
1 PARAM [0] slot=8 dtype=int64 space=ALU name="n" min=1 max=6
2 PARAM [0] slot=9 dtype=int64 space=ALU name="m" min=0 max=3
3 CONST [] weakint 24
4 STACK [3]
5 PARAM [4] slot=0 dtype=int32
6 PARAM [4] slot=1 dtype=int32
7 CONST [] int64 1
8 CONST [] int64 2
9 CONST [] int64 4
)";

v1::Graph Kernel(const std::string& rest) { return Parsed(kHead + rest); }
v1::Graph Linear(const std::string& rest) { return FlatList(kHead + rest); }

std::vector<VariableCase> Cases() {
  return {
      {"a loop's bound, an offset and a value", Kernel(R"(10 RANGE [1] range=(0) type=LOOP
11 ADD [10, 2]
12 INDEX [6, 11]
13 INDEX [5, 10]
14 CAST [1] to=int32
15 MUL [12, 14]
16 STORE [13, 15]
17 END [16, 10]
18 SINK [17] kernel name="window"
)"),
       [](Values& out, const Values& in, int n, int m) {
         for (int i = 0; i < n; ++i) out[i] = in[i + m] * n;
       }},
      {"offsets beside constant bounds, with an OptOp", Kernel(R"(10 CONST [] weakint 16
11 RANGE [10] range=(0) type=GLOBAL
12 ADD [11, 2]
13 INDEX [6, 12]
14 INDEX [5, 11]
15 STORE [14, 13]
16 END [15, 11]
17 SINK [16] kernel name="copy" opts=(SPLIT 0 (4, 7, 0))
)"),
       [](Values& out, const Values& in, int, int m) {
         for (int i = 0; i < 16; ++i) out[i] = in[i + m];
       }},
      {"a reduction over as many", Kernel(R"(10 RANGE [9] range=(0) type=GLOBAL
11 RANGE [1] range=(1) type=REDUCE
12 MUL [10, 1]
13 ADD [12, 11]
14 INDEX [6, 13]
15 REDUCE [14, 11] ADD axes=()
16 INDEX [5, 10]
17 STORE [16, 15]
18 END [17, 10]
19 SINK [18] kernel name="sums"
)"),
       [](Values& out, const Values& in, int n, int) {
         for (int i = 0; i < 4; ++i) {
           out[i] = 0;
           for (int k = 0; k < n; ++k) out[i] += in[i * n + k];
         }
       }},
      {"work groups along two axes", Linear(R"(10 ADD [2, 7]
11 SPECIAL [1] special="gidx0"
12 SPECIAL [10] special="gidx1"
13 MUL [12, 1]
14 ADD [13, 11]
15 INDEX [6, 14]
16 LOAD [15]
17 INDEX [5, 14]
18 CAST [12] to=int32
19 ADD [16, 18]
20 STORE [17, 19]
)"),
       [](Values& out, const Values& in, int n, int m) {
         for (int j = 0; j < m + 1; ++j) {
           for (int i = 0; i < n; ++i) out[j * n + i] = in[j * n + i] + j;
         }
       }},
      {"items of a group that meet", Linear(R"(10 CONST [] weakint 6
11 STACK [10]
12 BUFFER [11] slot=0 dtype=int32 space=LOCAL
13 SPECIAL [8] special="gidx0"
14 SPECIAL [1] special="lidx0"
15 MUL [13, 1]
16 ADD [15, 14]
17 INDEX [6, 16]
18 LOAD [17]
19 INDEX [12, 14]
20 STORE [19, 18]
21 BARRIER [20]
22 CONST [] int64 -1
23 MUL [14, 22]
24 ADD [23, 1]
25 ADD [24, 22]
26 AFTER [12, 21]
27 INDEX [26, 25]
28 LOAD [27]
29 INDEX [5, 16]
30 STORE [29, 28]
)"),
       [](Values& out, const Values& in, int n, int) {
         for (int g = 0; g < 2; ++g) {
           for (int i = 0; i < n; ++i) out[g * n + i] = in[g * n + n - 1 - i];
         }
       }},
      {"a gate, an IF and neighbours from a place on", Linear(R"(10 CMPLT [2, 8]
11 IF [10]
12 CONST [] weakint 4
13 SHRINK [6, 2, 12]
14 LOAD [13]
15 MUL [1, 9]
16 SHRINK [5, 15, 12]
17 STORE [16, 14]
18 ENDIF [11]
19 INDEX [5, 7]
20 CONST [] int32 77
21 STORE [19, 20, 10]
)"),
       [](Values& out, const Values& in, int n, int m) {
         if (m >= 2) return;
         for (int i = 0; i < 4 && n * 4 + i < 24; ++i) out[n * 4 + i] = in[m + i];
         out[1] = 77;
       }},
      {"loops whose bounds are sums, and an index that leaves", Linear(R"(10 ADD [1, 2]
11 RANGE [10] range=(0) type=LOOP
12 RANGE [2] range=(1) type=LOOP
13 MUL [11, 9]
14 ADD [13, 12]
15 INDEX [5, 14]
16 CAST [14] to=int32
17 STORE [15, 16]
18 END [17, 12]
19 END [18, 11]
)"),
       [](Values& out, const Values&, int n, int m) {
         for (int i = 0; i < n + m; ++i) {
           for (int k = 0; k < m; ++k) {
             if (i * 4 + k < 24) out[i * 4 + k] = i * 4 + k;
           }
         }
       }},
  };
}

TEST(ProgramVariables, OneCompileServesAllValues) {
  CpuEngine cpu;
  Values in;
  for (size_t i = 0; i < kSize; ++i) in.push_back(static_cast<int32_t>(3 * i));
  const compiler::HostTensors arguments = {{0, Int32s(Values(kSize, -1))}, {1, Int32s(in)}};
  for (const VariableCase& test : Cases()) {
    SCOPED_TRACE(test.name);
    const auto program = cpu.Load(test.graph, ExactOptions());
    ASSERT_TRUE(program.ok()) << program.status();
    for (int n = 1; n <= 6; ++n) {
      for (int m = 0; m <= 3; ++m) {
        SCOPED_TRACE(::testing::Message() << "n=" << n << " m=" << m);
        Values want(kSize, -1);
        test.expected(want, in, n, m);
        const compiler::VariableValues both = {{8, n}, {9, m}};
        compiler::VariableValues values;
        for (const auto& variable : (*program)->signature().variables())
          values[variable.slot()] = both.at(variable.slot());
        const auto interpreted = RunInterpreted(test.graph, arguments, both);
        ASSERT_TRUE(interpreted.ok()) << interpreted.status();
        EXPECT_EQ(interpreted->written.at(0).bytes, Int32s(want).bytes);
        const auto compiled = cpu.RunLoaded(*program, arguments, values);
        ASSERT_TRUE(compiled.ok()) << compiled.status();
        EXPECT_EQ(compiled->written.at(0).bytes, Int32s(want).bytes);
      }
    }
  }
}

TEST(ProgramVariables, AValueOutsideTheRangeIsRefusedByName) {
  CpuEngine cpu;
  const VariableCase test = Cases()[0];
  const auto program = cpu.Load(test.graph, ExactOptions());
  ASSERT_TRUE(program.ok()) << program.status();
  const compiler::HostTensors arguments = {{0, Int32s(Values(kSize, 0))}, {1, Int32s(Values(kSize, 0))}};
  const auto run = cpu.RunLoaded(*program, arguments, {{8, 7}, {9, 0}});
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(DetailOf(run.status())->code(), v1::BAD_ARGUMENT);
  EXPECT_EQ(DetailOf(run.status())->slot(), 8u);
  EXPECT_NE(std::string(run.status().message()).find("variable n (slot 8"), std::string::npos) << run.status();
  const auto interpreted = RunInterpreted(test.graph, arguments, {{8, 7}, {9, 0}});
  EXPECT_FALSE(interpreted.ok());
}

TEST(ProgramVariables, StrictTakesTheDeclaredRange) {
  compiler::Options strict = ExactOptions();
  strict.strict = true;
  CpuEngine cpu;
  const std::vector<VariableCase> cases = Cases();
  EXPECT_TRUE(cpu.Load(cases[0].graph, strict).ok());
  EXPECT_TRUE(cpu.Load(cases[3].graph, strict).ok());
  // Nine iterations and more than 24 places: nothing proves it.
  const auto leaves = cpu.Load(cases[6].graph, strict);
  ASSERT_FALSE(leaves.ok());
  EXPECT_EQ(DetailOf(leaves.status())->code(), v1::OUT_OF_BOUNDS) << leaves.status();
}

TEST(ProgramVariables, OlderSpellings) {
  v1::Graph graph = FlatList(R"(0 DEFINE_VAR [] slot=0 dtype=int32 name="n" min=1 max=4
1 CONST [] weakint 4
2 STACK [1]
3 DEFINE_GLOBAL [2] slot=0 dtype=int32
4 CONST [] int32 3
5 BIND [0, 4]
6 CONST [] int32 0
7 LOOP : int32 [6, 5]
8 MUL [7, 0]
9 STORE [3, 7, 8]
10 ENDLOOP [7]
)");
  graph.set_dialect(v1::LEGACY_2025);
  CpuEngine cpu;
  const auto program = cpu.Load(graph, ExactOptions());
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_EQ((*program)->signature().variables_size(), 1);
  const uint32_t slot = (*program)->signature().variables(0).slot();
  const compiler::HostTensors arguments = {{0, Int32s({9, 9, 9, 9})}};
  const std::pair<compiler::VariableValues, Values> runs[] = {
      {{{slot, 4}}, {0, 4, 8, 12}}, {{{slot, 1}}, {0, 9, 9, 9}}, {{{slot, 2}}, {0, 2, 9, 9}}};
  for (const auto& [values, want] : runs) {
    const auto run = cpu.RunLoaded(*program, arguments, values);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->written.at(0).bytes, Int32s(want).bytes);
  }
  EXPECT_EQ((*program)->signature().variables(0).default_value(), 3);
  const auto bound = RunInterpreted(graph, arguments);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_EQ(bound->written.at(0).bytes, Int32s({0, 3, 6, 9}).bytes);
}

TEST(ProgramVariables, WhatNoProgramTakes) {
  const std::pair<v1::Graph, const char*> cases[] = {
      {Linear("10 SPECIAL [2] special=\"gidx0\"\n"), "the bound of gidx0 is not a number of at least 1"},
      {Linear("10 STACK [1]\n11 PARAM [10] slot=3 dtype=int32\n12 INDEX [11, 7]\n13 LOAD [12]\n"),
       "the greatest size that it may need"},
      {Linear("10 SPECIAL [1] special=\"gidx0\"\n11 ADD [1, 7]\n12 SPECIAL [11] special=\"gidx0\"\n"),
       "one axis has one name and one bound"},
      {Linear("10 PARAM [4] slot=8 dtype=int32\n11 INDEX [10, 1]\n12 LOAD [11]\n"), "slot 8 is storage of two kinds"},
      {Kernel("10 STACK [1]\n11 PARAM [10] slot=3 dtype=int32\n12 RANGE [1] range=(0) type=LOOP\n13 INDEX [11, 12]\n14 "
              "INDEX [5, 12]\n15 STORE [14, 13]\n16 END [15, 12]\n17 SINK [16] kernel name=\"k\"\n"),
       "the greatest size that it may need"},
  };
  CpuEngine cpu;
  for (const auto& [graph, text] : cases) {
    const auto program = cpu.Load(graph, ExactOptions());
    ASSERT_FALSE(program.ok()) << text;
    EXPECT_NE(std::string(program.status().message()).find(text), std::string::npos) << program.status();
  }
}

}  // namespace
}  // namespace kiln::testing
