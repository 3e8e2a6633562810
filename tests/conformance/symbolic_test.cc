// Symbolic sizes: one compile for all values of the variables, on the CPU, against
// the interpreter (which binds them first) and against values.
#include <gtest/gtest.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/compile.h"
#include "runtime/exec/loaded_executable.h"
#include "tests/support/arguments.h"
#include "tests/support/compare.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

using compiler::VariableValues;

v1::Graph Parsed(const std::string& text) {
  const auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *graph : v1::Graph();
}

// Nodes every graph below begins with: n in 1..10 is slot 8, m in 0..6 slot 9.
//   4 (n)   5 (n, m)   6 (m, n)   9 (n*3)   10 (3, n)   13 (n+m)   24 (4, n)
constexpr char kHead[] = R"(0 STACK []
1 PARAM [0] slot=8 dtype=int32 space=ALU name="n" min=1 max=10
2 PARAM [0] slot=9 dtype=int32 space=ALU name="m" min=0 max=6
3 CONST [] weakint 3
4 STACK [1]
5 STACK [1, 2]
6 STACK [2, 1]
7 CONST [] weakint 1
8 MUL [1, 3]
9 STACK [8]
10 STACK [3, 1]
11 CONST [] weakint 0
12 ADD [1, 2]
13 STACK [12]
14 STACK [11]
15 STACK [7]
16 STACK [11, 11]
17 PARAM [4] slot=0 dtype=int32
18 PARAM [5] slot=1 dtype=int32
19 PARAM [6] slot=2 dtype=float32
20 CONST [] weakint 4
21 MUL [1, 2]
22 STACK [21]
23 STACK [1, 7]
24 STACK [20, 1]
25 PARAM [24] slot=3 dtype=float32
26 STACK [1, 20]
27 STACK [7, 2]
28 STACK [2, 7]
29 STACK [7, 1]
)";

struct Case {
  const char* name;
  const char* rest;
};

// x (n, 19) by the transpose of w (37, 19), which is slot 5.
constexpr char kRowsOfAProduct[] =
    "30 CONST [] weakint 37\n31 CONST [] weakint 19\n32 STACK [1, 31]\n33 PARAM [32] slot=4 dtype=float32\n34 STACK "
    "[30, 31]\n35 PARAM [34] slot=5 dtype=float32\n36 STACK [1, 7, 31]\n37 RESHAPE [33, 36]\n38 STACK [1, 30, 31]\n39 "
    "EXPAND [37, 38]\n40 MUL [39, 35]\n41 REDUCE [40] ADD axes=(2)\n42 STACK [1, 30]\n43 RESHAPE [41, 42]\n44 TUPLE "
    "[43]\n";

class Symbolic : public ::testing::TestWithParam<Case> {};

TEST_P(Symbolic, CompiledEqualsInterpretedForAllValues) {
  const v1::Graph graph = Parsed(absl::StrCat(kHead, GetParam().rest));
  const compiler::Options options = ExactOptions();
  CpuEngine cpu;
  const auto program = cpu.Load(graph, options);
  ASSERT_TRUE(program.ok()) << program.status();
  for (const int64_t n : {1, 2, 3, 7, 10}) {
    for (const int64_t m : {0, 1, 2, 5, 6}) {
      const VariableValues values = {{8, n}, {9, m}};
      const auto arguments = RandomArguments(graph, static_cast<uint64_t>(n * 100 + m), values);
      ASSERT_TRUE(arguments.ok()) << arguments.status();
      const auto want = RunInterpreted(graph, *arguments, values);
      ASSERT_TRUE(want.ok()) << want.status();
      const auto got = cpu.RunLoaded(*program, *arguments, values);
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(CompareOutcomes(*got, *want, {.ulp = 2, .zero_signs = false}), "")
          << GetParam().name << " n=" << n << " m=" << m;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Graphs, Symbolic,
    ::testing::Values(
        Case{"elementwise", "30 ADD [17, 17]\n31 MUL [30, 3]\n32 TUPLE [31]\n"},
        Case{"value of a variable", "30 MUL [17, 1]\n31 ADD [30, 2]\n32 TUPLE [31]\n"},
        Case{"permute", "30 PERMUTE [18] axes=(1, 0)\n31 PERMUTE [19] axes=(1, 0)\n32 TUPLE [30, 31]\n"},
        Case{"flip", "30 FLIP [17] flip=(1)\n31 FLIP [18] flip=(1, 1)\n32 TUPLE [30, 31]\n"},
        Case{"merge axes", "30 RESHAPE [18, 22]\n31 ADD [30, 30]\n32 FLIP [31] flip=(1)\n33 TUPLE [31, 32]\n"},
        Case{"split axes",
             "30 RESHAPE [18, 22]\n31 FLIP [30] flip=(1)\n32 RESHAPE [31, 5]\n33 RESHAPE [31, 6]\n34 TUPLE [32, 33]\n"},
        Case{"merge with a constant",
             "30 RESHAPE [25, 26]\n31 PERMUTE [30] axes=(1, 0)\n32 RESHAPE [31, 24]\n33 TUPLE [30, 32]\n"},
        Case{"expand", "30 RESHAPE [17, 23]\n31 EXPAND [30, 5]\n32 ADD [31, 18]\n33 TUPLE [31, 32]\n"},
        Case{"broadcast", "30 PERMUTE [18] axes=(1, 0)\n31 MUL [30, 17]\n32 TUPLE [31]\n"},
        Case{"pad", "30 STACK [2]\n31 PAD [17, 30, 13]\n32 PAD [17, 14, 13] fill=int32 5\n33 TUPLE [31, 32]\n"},
        Case{"pad and reduce", "30 STACK [2]\n31 PAD [17, 30, 13]\n32 REDUCE [31] MAX axes=(0)\n33 TUPLE [32]\n"},
        Case{"shrink by one",
             "30 CONST [] int32 -1\n31 ADD [1, 30]\n32 STACK [31]\n33 SHRINK [17, 15, 32]\n34 SHRINK [17, 14, 32]\n35 "
             "MAX [33, 34]\n36 TUPLE [35]\n"},
        Case{"sum",
             "30 REDUCE [17] ADD axes=(0)\n31 REDUCE [18] ADD axes=(0)\n32 REDUCE [18] ADD axes=(1)\n33 REDUCE "
             "[18] MAX axes=(0, 1)\n34 TUPLE [30, 31, 32, 33]\n"},
        Case{"mean", "30 REDUCE [25] ADD axes=(1)\n31 CAST [1] to=float32\n32 FDIV [30, 31]\n33 TUPLE [32]\n"},
        Case{"matmul",
             "30 STACK [20, 1, 7]\n31 RESHAPE [25, 30]\n32 STACK [20, 1, 2]\n33 EXPAND [31, 32]\n34 PERMUTE [19] "
             "axes=(1, 0)\n35 MUL [33, 34]\n36 REDUCE [35] ADD axes=(1)\n37 STACK [20, 2]\n38 RESHAPE [36, 37]\n39 "
             "TUPLE [38]\n"},
        Case{"rows of a product", kRowsOfAProduct},
        Case{"rows of many products",
             "30 CONST [] weakint 37\n31 CONST [] weakint 19\n32 CONST [] weakint 5\n33 STACK [1, 32, 31]\n34 PARAM "
             "[33] slot=4 dtype=float32\n35 STACK [31, 30]\n36 PARAM [35] slot=5 dtype=float32\n37 STACK [1, 32, 31, "
             "7]\n38 RESHAPE [34, 37]\n39 STACK [1, 32, 31, 30]\n40 EXPAND [38, 39]\n41 MUL [40, 36]\n42 REDUCE [41] "
             "ADD axes=(2)\n43 STACK [1, 32, 30]\n44 RESHAPE [42, 43]\n45 TUPLE [44]\n"},
        Case{"products of each",
             "30 CONST [] weakint 17\n31 CONST [] weakint 9\n32 CONST [] weakint 6\n33 STACK [1, 32, 31]\n34 PARAM "
             "[33] slot=4 dtype=float32\n35 STACK [1, 31, 30]\n36 PARAM [35] slot=5 dtype=float32\n37 STACK [1, 32, "
             "31, 7]\n38 RESHAPE [34, 37]\n39 STACK [1, 32, 31, 30]\n40 EXPAND [38, 39]\n41 STACK [1, 7, 31, 30]\n42 "
             "RESHAPE [36, 41]\n43 EXPAND [42, 39]\n44 MUL [40, 43]\n45 REDUCE [44] ADD axes=(2)\n46 STACK [1, 32, "
             "30]\n47 RESHAPE [45, 46]\n48 TUPLE [47]\n"},
        Case{"softmax",
             "30 REDUCE [25] MAX axes=(1)\n31 CONST [] weakint -1\n32 MUL [30, 31]\n33 ADD [25, 32]\n34 EXP2 [33]\n35 "
             "REDUCE [34] ADD axes=(1)\n36 FDIV [34, 35]\n37 TUPLE [36]\n"},
        Case{"cat",
             "30 PAD [17, 14, 13] fill=int32 0\n31 STACK [1]\n32 REDUCE [18] ADD axes=(0)\n33 STACK [2]\n34 "
             "RESHAPE [32, 33]\n35 PAD [34, 31, 13] fill=int32 0\n36 ADD [30, 35]\n37 TUPLE [36]\n"},
        Case{"halves",
             "30 CONST [] weakint 2\n31 FLOORDIV [1, 30]\n32 STACK [31]\n33 SHRINK [17, 14, 32]\n34 SHRINK [17, 32, "
             "32]\n35 ADD [33, 34]\n36 TUPLE [35]\n"},
        Case{"whole pairs",
             "30 CONST [] weakint 2\n31 FLOORDIV [1, 30]\n32 MUL [31, 30]\n33 STACK [32]\n34 SHRINK [17, 14, 33]\n35 "
             "STACK [31, 30]\n36 RESHAPE [34, 35]\n37 REDUCE [36] ADD axes=(1)\n38 TUPLE [37]\n"},
        Case{"greater of two", "30 MAX [1, 2]\n31 STACK [30]\n32 PAD [17, 14, 31] fill=int32 7\n33 TUPLE [32]\n"},
        Case{"index",
             "30 CONST [] weakint 2\n31 MUL [17, 30]\n32 INDEX [17, 31]\n33 INDEX [18, 17]\n34 INDEX [18, 17, "
             "2]\n35 TUPLE [32, 33, 34]\n"},
        Case{"stack", "30 ADD [17, 3]\n31 STACK [17, 30, 17]\n32 REDUCE [31] ADD axes=(0)\n33 TUPLE [31, 32]\n"},
        Case{"bitcast",
             "30 BITCAST [17] to=uint8\n31 BITCAST [30] to=int16\n32 BITCAST [31] to=uint32\n33 TUPLE [30, "
             "31, 32]\n"},
        Case{"bitcast of padding",
             "30 STACK [2]\n31 PAD [17, 30, 13]\n32 BITCAST [31] to=int8\n33 BITCAST [32] to=int16\n34 REDUCE [33] MAX "
             "axes=(0)\n35 TUPLE [33, 34]\n"},
        Case{"update", "30 ADD [17, 17]\n31 STORE [17, 30]\n32 AFTER [17, 31]\n33 TUPLE [32, 30]\n"},
        Case{"update of a part",
             "30 CONST [] int32 -1\n31 ADD [1, 30]\n32 STACK [31]\n33 SHRINK [17, 15, 32]\n34 SHRINK [17, 14, 32]\n35 "
             "STORE [33, 34]\n36 AFTER [17, 35]\n37 TUPLE [36]\n"},
        Case{"realised",
             "30 ADD [17, 3]\n31 LOAD [30]\n32 FLIP [31] flip=(1)\n33 REDUCE [18] ADD axes=(1)\n34 EXPAND "
             "[33, 5]\n35 MUL [34, 18]\n36 TUPLE [32, 35]\n"},
        Case{"prefix sums",
             "30 STACK [7, 1]\n31 RESHAPE [17, 30]\n32 STACK [1, 1]\n33 EXPAND [31, 32]\n34 MUL [1, 1]\n35 STACK "
             "[34]\n36 RESHAPE [33, 35]\n37 FLIP [36] flip=(1)\n38 RESHAPE [37, 32]\n39 REDUCE [38] ADD axes=(1)\n40 "
             "TUPLE [38, 39]\n"},
        Case{"function",
             "30 MUL [17, 3]\n31 ADD [30, 1]\n32 TUPLE [31]\n33 FUNCTION [32, 31, 0, 0, 0, 0, 0, 0, 0, "
             "1]\n34 GETTUPLE [33] index=0\n35 TUPLE [34]\n"}),
    [](const auto& info) {
      std::string name = info.param.name;
      for (char& c : name) c = c == ' ' ? '_' : c;
      return name;
    });

// The weights are packed beforehand, for any number of rows.
TEST(SymbolicConstants, RowsOfAProduct) {
  const v1::Graph graph = Parsed(absl::StrCat(kHead, kRowsOfAProduct));
  CpuEngine cpu;
  compiler::Options options = ExactOptions();
  options.constants = {5};
  const auto executable = compiler::Compile(graph, cpu.device().target(), options);
  ASSERT_TRUE(executable.ok()) << executable.status();
  EXPECT_EQ(executable->preparations_size(), 1);
  const auto program = cpu.Load(*executable);
  ASSERT_TRUE(program.ok()) << program.status();
  for (const int64_t n : {1, 3, 4, 5, 10}) {
    const VariableValues values = {{8, n}};
    const auto arguments = RandomArguments(graph, static_cast<uint64_t>(n), values);
    ASSERT_TRUE(arguments.ok()) << arguments.status();
    const auto want = RunInterpreted(graph, *arguments, values);
    ASSERT_TRUE(want.ok()) << want.status();
    const auto got = cpu.RunLoaded(*program, *arguments, values);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(CompareOutcomes(*got, *want, {.ulp = 2, .zero_signs = false}), "") << "n=" << n;
  }
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

// x[i : i + n] of ten elements.
constexpr char kWindow[] = R"(0 STACK []
1 PARAM [0] slot=8 dtype=int32 space=ALU name="i" min=0 max=9
2 PARAM [0] slot=9 dtype=int32 space=ALU name="n" min=0 max=10
3 CONST [] weakint 10
4 STACK [3]
5 PARAM [4] slot=0 dtype=int32
6 STACK [1]
7 STACK [2]
8 SHRINK [5, 6, 7]
)";

TEST(SymbolicShrink, OffsetAndSizeAreVariables) {
  const v1::Graph graph = Parsed(absl::StrCat(kWindow, "9 TUPLE [8]\n"));
  CpuEngine cpu;
  const auto program = cpu.Load(graph, ExactOptions());
  ASSERT_TRUE(program.ok()) << program.status();
  const compiler::HostTensors arguments = {{0, Int32({0, 1, 2, 3, 4, 5, 6, 7, 8, 9})}};
  const auto run = cpu.RunLoaded(*program, arguments, {{8, 3}, {9, 4}});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(Ints(run->results[0]), (std::vector<int32_t>{3, 4, 5, 6}));
  // Nothing says that i + n is at most 10, so each call is asked.
  const auto outside = cpu.RunLoaded(*program, arguments, {{8, 7}, {9, 4}});
  ASSERT_FALSE(outside.ok());
  EXPECT_EQ(DetailOf(outside.status())->code(), v1::OUT_OF_BOUNDS) << outside.status();
  EXPECT_NE(std::string(outside.status().message()).find("i = 7, n = 4"), std::string::npos) << outside.status();
}

TEST(SymbolicShrink, ShrinksOfShrinksComposeAndDoNotClamp) {
  // x[i : i + n][1 : 4], of which n may be less than 4.
  const v1::Graph graph = Parsed(absl::StrCat(kWindow, R"(9 CONST [] weakint 1
10 CONST [] weakint 3
11 STACK [9]
12 STACK [10]
13 SHRINK [8, 11, 12]
14 TUPLE [13]
)"));
  CpuEngine cpu;
  const auto program = cpu.Load(graph, ExactOptions());
  ASSERT_TRUE(program.ok()) << program.status();
  const compiler::HostTensors arguments = {{0, Int32({0, 1, 2, 3, 4, 5, 6, 7, 8, 9})}};
  for (const int64_t n : {0, 2, 5}) {
    const VariableValues values = {{8, 4}, {9, n}};
    const auto run = cpu.RunLoaded(*program, arguments, values);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(Ints(run->results[0]), (std::vector<int32_t>{5, 6, 7})) << n;
    const auto interpreted = RunInterpreted(graph, arguments, values);
    ASSERT_TRUE(interpreted.ok()) << interpreted.status();
    EXPECT_EQ(Ints(interpreted->results[0]), (std::vector<int32_t>{5, 6, 7})) << n;
  }
}

TEST(SymbolicSpellings, DefineVarAndBind) {
  // Two DEFINE_VARs by name, without slots of their own; b is bound to 3.
  const v1::Graph graph = Parsed(R"(0 DEFINE_VAR [] slot=0 dtype=int32 name="b" min=1 max=8
1 DEFINE_VAR [] slot=0 dtype=weakint name="a" min=0 max=5
2 CONST [] int32 3
3 BIND [0, 2]
4 STACK [3]
5 PARAM [4] slot=0 dtype=int32
6 MUL [5, 1]
7 TUPLE [6]
)");
  CpuEngine cpu;
  const auto program = cpu.Load(graph, ExactOptions());
  ASSERT_TRUE(program.ok()) << program.status();
  const auto& signature = (*program)->signature();
  ASSERT_EQ(signature.variables_size(), 2);
  EXPECT_EQ(signature.variables(0).name(), "a");
  EXPECT_EQ(signature.variables(0).slot(), 1u);
  EXPECT_FALSE(signature.variables(0).has_default_value());
  EXPECT_EQ(signature.variables(1).name(), "b");
  EXPECT_EQ(signature.variables(1).slot(), 2u);
  EXPECT_EQ(signature.variables(1).default_value(), 3);
  const auto bound = cpu.RunLoaded(*program, {{0, Int32({1, 2, 3})}}, {{1, 5}});
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_EQ(Ints(bound->results[0]), (std::vector<int32_t>{5, 10, 15}));
  // An argument wins over what BIND says.
  const auto given = cpu.RunLoaded(*program, {{0, Int32({1, 2})}}, {{1, 2}, {2, 2}});
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ(Ints(given->results[0]), (std::vector<int32_t>{2, 4}));
}

TEST(SymbolicSpellings, BindByAStoreToTheVariable) {
  const v1::Graph graph = Parsed(R"(0 STACK []
1 BUFFER [0] slot=7 dtype=int32 space=ALU name="n" min=1 max=8
2 CONST [] weakint 2
3 STORE [1, 2]
4 AFTER [1, 3]
5 STACK [4]
6 PARAM [5] slot=0 dtype=int32
7 REDUCE [6] ADD axes=(0)
8 TUPLE [7]
)");
  CpuEngine cpu;
  const auto run = cpu.Run(graph, {{0, Int32({5, 6})}}, ExactOptions());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(Ints(run->results[0]), std::vector<int32_t>{11});
}

struct Bad {
  const char* rest;
  v1::ErrorCode code;
};

class BadSize : public ::testing::TestWithParam<Bad> {};

TEST_P(BadSize, IsRefused) {
  const auto program = CpuEngine().Load(Parsed(absl::StrCat(kHead, GetParam().rest)), ExactOptions());
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(DetailOf(program.status())->code(), GetParam().code) << program.status();
}

INSTANTIATE_TEST_SUITE_P(
    Symbolic, BadSize,
    ::testing::Values(
        Bad{"30 RESHAPE [17, 6]\n31 TUPLE [30]\n", v1::SHAPE_MISMATCH},
        Bad{"30 RESHAPE [18, 13]\n31 TUPLE [30]\n", v1::SHAPE_MISMATCH},
        Bad{"30 PARAM [13] slot=5 dtype=int32\n31 ADD [30, 17]\n32 TUPLE [31]\n", v1::SHAPE_MISMATCH},
        Bad{"30 EXPAND [17, 13]\n31 TUPLE [30]\n", v1::SHAPE_MISMATCH},
        Bad{"30 CONST [] int32 -11\n31 ADD [1, 30]\n32 STACK [31]\n33 SHRINK [17, 14, 32]\n34 TUPLE [33]\n",
            v1::BAD_ARGUMENT},
        Bad{"30 CONST [] weakint 11\n31 STACK [30]\n32 SHRINK [17, 14, 31]\n33 TUPLE [32]\n", v1::SHAPE_MISMATCH},
        Bad{"30 REDUCE [17] ADD axes=(0)\n31 RESHAPE [30, 0]\n32 STACK [31]\n33 SHRINK [17, 14, 32]\n34 "
            "TUPLE [33]\n",
            v1::BAD_ARGUMENT},
        Bad{"30 PARAM [0] slot=8 dtype=int32 space=ALU name=\"n\" min=2 max=10\n31 ADD [30, 1]\n32 "
            "TUPLE [31]\n",
            v1::BAD_ARGUMENT},
        Bad{"30 PARAM [0] slot=7 dtype=int32 space=ALU name=\"k\" min=3 max=2\n31 TUPLE [30]\n", v1::BAD_ARGUMENT},
        Bad{"30 PARAM [0] slot=7 dtype=int32 space=ALU name=\"k\"\n31 TUPLE [30]\n", v1::BAD_ARGUMENT},
        Bad{"30 PARAM [0] slot=7 dtype=float32 space=ALU name=\"k\" min=0 max=2\n31 TUPLE [30]\n", v1::BAD_ARGUMENT},
        Bad{"30 PARAM [0] slot=7 dtype=int64 space=ALU name=\"k\" min=0 max=2000000000\n31 MUL [30, "
            "30]\n32 STACK [31]\n33 PARAM [32] slot=4 dtype=int8\n34 TUPLE [33]\n",
            v1::SIZE_OVERFLOW},
        Bad{"30 STORE [1, 3]\n31 TUPLE [17, 30]\n", v1::BAD_ARGUMENT},
        Bad{"30 BIND [1, 20]\n31 BIND [1, 3]\n32 STACK [30, 31]\n33 TUPLE [32]\n", v1::BAD_ARGUMENT},
        Bad{"30 CONST [] weakint 40\n31 BIND [1, 30]\n32 TUPLE [31]\n", v1::BAD_ARGUMENT}));

TEST(SymbolicValues, OutOfRangeNamesVariableAndRange) {
  const v1::Graph graph = Parsed(absl::StrCat(kHead, "30 ADD [17, 17]\n31 TUPLE [30]\n"));
  CpuEngine cpu;
  const auto program = cpu.Load(graph, ExactOptions());
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_EQ((*program)->signature().variables_size(), 1);  // m is not used
  for (const int64_t n : {0, 11, -1}) {
    const auto run = cpu.RunLoaded(*program, {{0, Int32({})}}, {{8, n}});
    ASSERT_FALSE(run.ok());
    EXPECT_EQ(DetailOf(run.status())->code(), v1::BAD_ARGUMENT);
    EXPECT_EQ(DetailOf(run.status())->slot(), 8u);
    EXPECT_NE(std::string(run.status().message()).find("n (slot 8, from 1 to 10)"), std::string::npos) << run.status();
  }
}

TEST(SymbolicBounds, WhatCanBeProvedIsNotGated) {
  // Under `strict`, any access that needs a gate is refused.
  compiler::Options strict = ExactOptions();
  strict.strict = true;
  CpuEngine cpu;
  for (const char* rest :
       {"30 ADD [17, 17]\n31 TUPLE [30]\n", "30 PERMUTE [18] axes=(1, 0)\n31 MUL [30, 17]\n32 TUPLE [31]\n",
        "30 RESHAPE [18, 22]\n31 FLIP [30] flip=(1)\n32 RESHAPE [31, 6]\n33 TUPLE [32]\n",
        "30 REDUCE [18] ADD axes=(1)\n31 TUPLE [30]\n",
        "30 STACK [1, 7, 20]\n31 PERMUTE [25] axes=(1, 0)\n32 RESHAPE [31, 30]\n33 CONST [] weakint 37\n34 STACK [33, "
        "20]\n35 PARAM [34] slot=4 dtype=float32\n36 STACK [1, 33, 20]\n37 EXPAND [32, 36]\n38 MUL [37, 35]\n39 REDUCE "
        "[38] ADD axes=(2)\n40 TUPLE [39]\n",
        "30 STACK [2]\n31 PAD [17, 30, 13]\n32 TUPLE [31]\n",
        "30 CONST [] weakint 2\n31 FLOORDIV [1, 30]\n32 STACK [31]\n33 SHRINK [17, 32, 32]\n34 TUPLE [33]\n"}) {
    const auto program = cpu.Load(Parsed(absl::StrCat(kHead, rest)), strict);
    EXPECT_TRUE(program.ok()) << program.status() << "\n" << rest;
  }
}

}  // namespace
}  // namespace kiln::testing
