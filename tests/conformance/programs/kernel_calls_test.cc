// CALLs of kernels in graphs of tensors, on the CPU and in the interpreter, against
// values computed here.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/import/wire.h"
#include "compiler/interp/interp.h"
#include "runtime/exec/loaded_executable.h"
#include "tests/conformance/programs/program_cases.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/cpu_programs.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"
#include "tests/support/random.h"

namespace kiln::testing {
namespace {

using Values = std::vector<int32_t>;

// Every graph below begins with these: PARAMs 0, 1, 2 of eight int32, and the kernels
//   14 (SINK)    slot 0 = slot 1 + slot 2
//   22 (LINEAR)  slot 0 += 10, by eight groups of one item
constexpr char kHead[] = R"(0 CONST [] weakint 8
1 STACK [0]
2 PARAM [1] slot=0 dtype=int32
3 PARAM [1] slot=1 dtype=int32
4 PARAM [1] slot=2 dtype=int32
5 RANGE [0] range=(0) type=GLOBAL
6 INDEX [2, 5]
7 INDEX [3, 5]
8 INDEX [4, 5]
9 LOAD [7]
10 LOAD [8]
11 ADD [9, 10]
12 STORE [6, 11]
13 END [12, 5]
14 SINK [13] kernel name="add"
15 SPECIAL [0] special="gidx0"
16 INDEX [2, 15]
17 LOAD [16]
18 CONST [] int32 10
19 ADD [17, 18]
20 STORE [16, 19]
21 GROUP [20]
22 LINEAR [15, 16, 17, 19, 20]
)";

v1::Graph Parsed(const std::string& text) {
  const auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *graph : v1::Graph();
}

Values Filled(int32_t first, int32_t step) {
  Values values;
  for (int32_t i = 0; i < 8; ++i) values.push_back(first + step * i);
  return values;
}

const Values kX = Filled(1, 1), kY = Filled(100, 10), kZ = Filled(1000, 100);

Values Each(int32_t (*f)(int32_t x, int32_t y, int32_t z)) {
  Values values;
  for (size_t i = 0; i < 8; ++i) values.push_back(f(kX[i], kY[i], kZ[i]));
  return values;
}

struct CallCase {
  const char* name;
  const char* rest;
  std::vector<Values> results;
  std::map<uint32_t, Values> written;
  int kernels;  // compiled
};

std::vector<CallCase> Cases() {
  return {
      {"one call",
       "23 CALL [14, 2, 3, 4]\n24 AFTER [2, 23]\n25 TUPLE [24]\n",
       {Each([](int32_t, int32_t y, int32_t z) { return y + z; })},
       {{0, Each([](int32_t, int32_t y, int32_t z) { return y + z; })}},
       1},
      {"a call as an effect",
       "23 CALL [22, 3]\n24 SINK [23]\n",
       {},
       {{1, Each([](int32_t, int32_t y, int32_t) { return y + 10; })}},
       1},
      {"twice the same kernel, once compiled",
       "23 CALL [22, 2]\n24 AFTER [2, 23]\n25 CALL [22, 24]\n26 AFTER [2, 25]\n27 TUPLE [26]\n",
       {Each([](int32_t x, int32_t, int32_t) { return x + 20; })},
       {{0, Each([](int32_t x, int32_t, int32_t) { return x + 20; })}},
       1},
      {"a chain over an intermediate buffer",
       // y = x + z; z += 10; x = y + z
       "23 CALL [14, 3, 2, 4]\n24 AFTER [3, 23]\n25 AFTER [4, 23]\n26 CALL [22, 25]\n27 AFTER [4, 26]\n28 CALL [14, 2, "
       "24, 27]\n29 SINK [28]\n",
       {},
       {{0, Each([](int32_t x, int32_t, int32_t z) { return x + z + z + 10; })},
        {1, Each([](int32_t x, int32_t, int32_t z) { return x + z; })},
        {2, Each([](int32_t, int32_t, int32_t z) { return z + 10; })}},
       2},
      {"reads see the state before",
       "23 CALL [22, 3]\n24 AFTER [3, 23]\n25 MUL [3, 24]\n26 TUPLE [25, 24]\n",
       {Each([](int32_t, int32_t y, int32_t) { return y * (y + 10); }),
        Each([](int32_t, int32_t y, int32_t) { return y + 10; })},
       {{1, Each([](int32_t, int32_t y, int32_t) { return y + 10; })}},
       -1},
      {"an argument that is computed",
       "23 MUL [3, 4]\n24 FLIP [4] flip=(1)\n25 CALL [14, 2, 23, 24]\n26 AFTER [2, "
       "25]\n27 ADD [26, 18]\n28 TUPLE [27]\n",
       {[] {
         Values values;
         for (size_t i = 0; i < 8; ++i) values.push_back(kY[i] * kZ[i] + kZ[7 - i] + 10);
         return values;
       }()},
       {{0,
         [] {
           Values values;
           for (size_t i = 0; i < 8; ++i) values.push_back(kY[i] * kZ[i] + kZ[7 - i]);
           return values;
         }()}},
       -1},
      {"an argument that the call writes, too",
       "23 CALL [14, 2, 2, 2]\n24 AFTER [2, 23]\n25 TUPLE [24]\n",
       {Each([](int32_t x, int32_t, int32_t) { return 2 * x; })},
       {{0, Each([](int32_t x, int32_t, int32_t) { return 2 * x; })}},
       -1},
      {"a LOAD that is a result and an argument",
       "23 MUL [3, 4]\n24 LOAD [23]\n25 CALL [14, 2, 24, 24]\n26 AFTER [2, 25]\n27 TUPLE [26, 24]\n",
       {Each([](int32_t, int32_t y, int32_t z) { return 2 * y * z; }),
        Each([](int32_t, int32_t y, int32_t z) { return y * z; })},
       {{0, Each([](int32_t, int32_t y, int32_t z) { return 2 * y * z; })}},
       -1},
      {"another shape, as many elements",
       "23 CONST [] weakint 2\n24 CONST [] weakint 4\n25 STACK [23, 24]\n26 RESHAPE [3, 25]\n27 RESHAPE [2, 25]\n"
       "28 CALL [14, 27, 26, 4]\n29 AFTER [27, 28]\n30 RESHAPE [29, 1]\n31 TUPLE [30]\n",
       {Each([](int32_t, int32_t y, int32_t z) { return y + z; })},
       {{0, Each([](int32_t, int32_t y, int32_t z) { return y + z; })}},
       -1},
      {"beside a STORE of the graph's own",
       "23 ADD [2, 3]\n24 STORE [2, 23]\n25 AFTER [2, 24]\n26 CALL [22, 25]\n27 AFTER [2, 26]\n28 TUPLE [27]\n",
       {Each([](int32_t x, int32_t y, int32_t) { return x + y + 10; })},
       {{0, Each([](int32_t x, int32_t y, int32_t) { return x + y + 10; })}},
       2},
  };
}

TEST(KernelCalls, CompiledAndInterpretedGiveTheExpectedValues) {
  CpuEngine cpu;
  const compiler::HostTensors arguments = {{0, Int32s(kX)}, {1, Int32s(kY)}, {2, Int32s(kZ)}};
  for (const CallCase& test : Cases()) {
    SCOPED_TRACE(test.name);
    const v1::Graph graph = Parsed(absl::StrCat(kHead, test.rest));
    const auto interpreted = RunInterpreted(graph, arguments);
    ASSERT_TRUE(interpreted.ok()) << interpreted.status();
    const auto program = cpu.Load(graph, ExactOptions());
    ASSERT_TRUE(program.ok()) << program.status();
    const auto compiled = cpu.RunLoaded(*program, arguments);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    for (const auto* run : {&*interpreted, &*compiled}) {
      ASSERT_EQ(run->results.size(), test.results.size());
      for (size_t i = 0; i < test.results.size(); ++i)
        EXPECT_EQ(run->results[i].bytes, Int32s(test.results[i]).bytes) << i;
      ASSERT_EQ(run->written.size(), test.written.size());
      for (const auto& [slot, values] : test.written) EXPECT_EQ(run->written.at(slot).bytes, Int32s(values).bytes);
    }
    if (test.kernels < 0) continue;
    for (const auto& [name, made] : CompiledForEachCpu(graph, ExactOptions()))
      EXPECT_EQ(made.kernels_size(), test.kernels) << name;
  }
}

TEST(KernelCalls, VariablesAreArgumentsOrTheProgramsOwn) {
  // slot 0 of the body: 4 elements; n, its slot 1, is how many get the value k.
  const v1::Graph graph = Parsed(R"(0 STACK []
1 PARAM [0] slot=1 dtype=int64 space=ALU name="n" min=1 max=4
2 PARAM [0] slot=9 dtype=int32 space=ALU name="k" min=0 max=100
3 CONST [] weakint 4
4 STACK [3]
5 PARAM [4] slot=0 dtype=int32
6 RANGE [1] range=(0) type=LOOP
7 INDEX [5, 6]
8 STORE [7, 2]
9 END [8, 6]
10 SINK [9] kernel name="fill"
11 PARAM [0] slot=5 dtype=int64 space=ALU name="m" min=1 max=3
12 PARAM [4] slot=3 dtype=int32
13 CALL [10, 5, 11]
14 CONST [] int64 1
15 ADD [11, 14]
16 CALL [10, 12, 15]
17 SINK [13, 16]
)");
  CpuEngine cpu;
  const auto program = cpu.Load(graph, ExactOptions());
  ASSERT_TRUE(program.ok()) << program.status();
  const compiler::HostTensors arguments = {{0, Int32s({7, 7, 7, 7})}, {3, Int32s({7, 7, 7, 7})}};
  for (int m = 1; m <= 3; ++m) {
    const compiler::VariableValues values = {{5, m}, {9, 40 + m}};
    const auto compiled = cpu.RunLoaded(*program, arguments, values);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    const auto interpreted = RunInterpreted(graph, arguments, values);
    ASSERT_TRUE(interpreted.ok()) << interpreted.status();
    Values first(4, 7), second(4, 7);
    for (int i = 0; i < m; ++i) first[i] = 40 + m;
    for (int i = 0; i < m + 1; ++i) second[i] = 40 + m;
    for (const auto* run : {&*interpreted, &*compiled}) {
      EXPECT_EQ(run->written.at(0).bytes, Int32s(first).bytes);
      EXPECT_EQ(run->written.at(3).bytes, Int32s(second).bytes);
    }
  }
}

TEST(KernelCalls, WhatIsRefusedNamesTheCall) {
  struct Fault {
    const char* rest;
    v1::ErrorCode code;
    const char* text;
  };
  const Fault cases[] = {
      {"23 CALL [14, 2, 3]\n24 SINK [23]\n", v1::WRONG_SOURCE_COUNT, "has slot 2, and it is given 2 arguments"},
      {"23 CAST [3] to=float32\n24 CALL [14, 2, 23, 4]\n25 SINK [24]\n", v1::DTYPE_MISMATCH,
       "argument 1 of CALL is float32"},
      {"23 CONST [] weakint 7\n24 STACK [23]\n25 PARAM [24] slot=6 dtype=int32\n26 CALL [14, 2, 25, 4]\n27 SINK [26]\n",
       v1::SHAPE_MISMATCH, "argument 1 of CALL has the shape (7,)"},
      {"23 ADD [2, 3]\n24 CALL [14, 23, 3, 4]\n25 SINK [24]\n", v1::BAD_ARGUMENT, "and its body stores to it"},
      {"23 END [12]\n24 GROUP [23, 13]\n25 SINK [24] kernel name=\"open\"\n26 CALL [25, 2, 3, 4]\n27 SINK [26]\n",
       v1::WRONG_SOURCE_COUNT, "an END that closes no RANGE"},
      {"23 STORE [7, 18]\n24 GROUP [12, 23]\n25 END [24, 5]\n26 SINK [25] kernel name=\"two\"\n27 CALL [26, 2, 2, "
       "4]\n28 SINK [27]\n",
       v1::BAD_ARGUMENT, "are one storage, and its body stores to both"},
  };
  CpuEngine cpu;
  for (const Fault& test : cases) {
    const v1::Graph graph = Parsed(absl::StrCat(kHead, test.rest));
    const auto program = cpu.Load(graph, ExactOptions());
    ASSERT_FALSE(program.ok()) << test.text;
    EXPECT_EQ(DetailOf(program.status())->code(), test.code) << program.status();
    EXPECT_NE(DetailOf(program.status())->op(), "") << program.status();
    EXPECT_NE(std::string(program.status().message()).find(test.text), std::string::npos) << program.status();
    EXPECT_FALSE(RunInterpreted(graph, {{0, Int32s(kX)}, {1, Int32s(kY)}, {2, Int32s(kZ)}}).ok());
  }
}

// A barrier's uniformity may rest on what a slot holds that the kernel does not write:
// then no written slot may be the same memory.
TEST(KernelCalls, OneBufferForAReadAndAWrittenSlotIsCopiedFirst) {
  const v1::Graph graph = Parsed(absl::StrCat(kHead, "23 CALL [14, 2, 3, 2]\n24 AFTER [2, 23]\n25 TUPLE [24]\n"));
  for (const auto& [cpu, made] : CompiledForEachCpu(graph, ExactOptions())) EXPECT_EQ(made.steps_size(), 2) << cpu;
}

// Equal bodies are compiled once; each slot finds its own operand, also where a
// variable stands between two storages; CONSTs become part of the body.
TEST(KernelCalls, VariablesStandAnywhereAmongTheSlotsAndMayBeNumbers) {
  const v1::Graph graph = Parsed(R"(0 STACK []
1 PARAM [0] slot=1 dtype=int64 space=ALU name="n" min=1 max=4
2 CONST [] weakint 4
3 STACK [2]
4 PARAM [3] slot=0 dtype=int32
5 PARAM [3] slot=2 dtype=int32
6 RANGE [1] range=(0) type=LOOP
7 INDEX [4, 6]
8 INDEX [5, 6]
9 LOAD [8]
10 STORE [7, 9]
11 END [10, 6]
12 SINK [11] kernel name="copy"
13 PARAM [0] slot=5 dtype=int32 space=ALU name="m" min=1 max=3
14 PARAM [3] slot=3 dtype=int32
15 CALL [12, 4, 13, 5]
16 CONST [] int64 2
17 CALL [12, 14, 16, 5]
18 SINK [15, 17]
)");
  CpuEngine cpu;
  const auto program = cpu.Load(graph, ExactOptions());
  ASSERT_TRUE(program.ok()) << program.status();
  const compiler::HostTensors arguments = {
      {0, Int32s({7, 7, 7, 7})}, {2, Int32s({1, 2, 3, 4})}, {3, Int32s({8, 8, 8, 8})}};
  for (int m = 1; m <= 3; ++m) {
    const auto compiled = cpu.RunLoaded(*program, arguments, {{5, m}});
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    const auto interpreted = RunInterpreted(graph, arguments, {{5, m}});
    ASSERT_TRUE(interpreted.ok()) << interpreted.status();
    Values first(4, 7);
    for (int i = 0; i < m; ++i) first[i] = i + 1;
    for (const auto* run : {&*interpreted, &*compiled}) {
      EXPECT_EQ(run->written.at(0).bytes, Int32s(first).bytes);
      EXPECT_EQ(run->written.at(3).bytes, Int32s({1, 2, 8, 8}).bytes);
    }
  }
}

TEST(KernelCalls, MutantsAreRefusedWithAReasonOrMeanTheSameToBothEngines) {
  const compiler::HostTensors arguments = {{0, Int32s(kX)}, {1, Int32s(kY)}, {2, Int32s(kZ)}};
  const std::vector<CallCase> cases = Cases();
  CpuEngine cpu;
  const char* wanted = std::getenv("KILN_FUZZ_MUTANTS");
  const uint64_t mutants = wanted == nullptr ? 200 : std::strtoull(wanted, nullptr, 10);
  int ran = 0, refused = 0;
  for (uint64_t seed = 0; seed < mutants; ++seed) {
    Random random(seed + 7'000'000);
    v1::Graph graph = Parsed(absl::StrCat(kHead, random.Pick(cases).rest));
    for (int64_t edits = random.In(1, 2); edits > 0; --edits) MutateGraph(graph, random);
    SCOPED_TRACE(absl::StrCat(seed, "\n", PrintGraph(graph)));
    const auto program = cpu.Load(graph, ExactOptions());
    if (!program.ok()) {
      ++refused;
      ASSERT_TRUE(DetailOf(program.status()).has_value()) << program.status();
      ASSERT_NE(DetailOf(program.status())->code(), v1::INTERNAL_FAULT) << program.status();
    }
    compiler::Graph nodes;
    const auto root = compiler::FromWire(graph, compiler::Limits(), nodes);
    if (!root.ok()) continue;
    const auto interpreted = compiler::Interpret(*root, arguments, {1 << 24, 200'000});
    if (!program.ok() || !interpreted.ok()) continue;
    const auto compiled = cpu.RunLoaded(*program, arguments);
    if (!compiled.ok()) continue;
    ++ran;
    ASSERT_EQ(interpreted->results.size(), compiled->results.size());
    for (size_t i = 0; i < compiled->results.size(); ++i)
      ASSERT_EQ(interpreted->results[i].bytes, compiled->results[i].bytes);
    for (const auto& [slot, tensor] : compiled->written) {
      const auto other = interpreted->written.find(slot);
      if (other == interpreted->written.end()) continue;
      ASSERT_EQ(other->second.bytes, tensor.bytes) << slot;
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(ran, 0);
}

}  // namespace
}  // namespace kiln::testing
