// The C dialect, compiled by a C compiler, against the interpreter: every
// elementwise op and cast on edges and random values, and every movement and
// reduce op, of each dtype in turn.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/graph/graph_text.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/programs/program_cases.h"
#include "tests/support/arguments.h"
#include "tests/support/compare.h"
#include "tests/support/engines/c_engine.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

void CheckAll(const std::vector<Case>& cases) {
  CEngine engine;
  std::vector<size_t> numbers;
  for (const Case& test : cases) {
    const auto number = engine.Add(test.graph, ExactOptions());
    ASSERT_TRUE(number.ok()) << test.name << ": " << number.status();
    numbers.push_back(*number);
  }
  const absl::Status built = engine.Build();
  ASSERT_TRUE(built.ok()) << built;
  for (size_t k = 0; k < cases.size(); ++k) {
    const Case& test = cases[k];
    const auto want = RunInterpreted(test.graph, test.arguments);
    ASSERT_TRUE(want.ok()) << test.name << ": " << want.status();
    const auto got = engine.Run(numbers[k], test.arguments);
    ASSERT_TRUE(got.ok()) << test.name << ": " << got.status();
    ASSERT_EQ(got->results.size(), want->results.size()) << test.name;
    for (size_t i = 0; i < want->results.size(); ++i) {
      EXPECT_EQ(CompareTensors(got->results[i], want->results[i], test.outputs[i].tolerance), "")
          << test.outputs[i].name << " in " << test.name;
    }
  }
}

TEST(CSourceVsInterp, ElementwiseOpsAndCasts) { CheckAll(ScalarCases()); }

// A template's dtypes follow each other: a stride that is prime to their number
// takes each template and each dtype.
TEST(CSourceVsInterp, MovementAndReduce) {
  std::vector<Case> some;
  const std::vector<Case> all = TensorCases();
  for (size_t i = 0; i < all.size(); i += 11) some.push_back(all[i]);
  CheckAll(some);
}

// Programs of work items: loops, shared memory and barriers included.
TEST(CSourceVsInterp, ProgramsWrittenByHand) {
  std::vector<ProgramCase> cases = ProgramCases();
  for (ProgramCase& test : KernelCases()) cases.push_back(std::move(test));
  CEngine engine;
  for (const ProgramCase& test : cases) {
    const auto number = engine.Add(test.graph, ExactOptions());
    ASSERT_TRUE(number.ok()) << test.name << ": " << number.status();
  }
  const absl::Status built = engine.Build();
  ASSERT_TRUE(built.ok()) << built;
  for (size_t k = 0; k < cases.size(); ++k) {
    const auto got = engine.Run(k, cases[k].arguments);
    ASSERT_TRUE(got.ok()) << cases[k].name << ": " << got.status();
    compiler::InterpResult want;
    want.written = cases[k].expected;
    EXPECT_EQ(CompareOutcomes(*got, want, cases[k].tolerance), "") << cases[k].name;
  }
}

// One text for all values: n in 1..10 is slot 8, m in 0..6 slot 9.
TEST(CSourceVsInterp, Variables) {
  const char* const head =
      "0 STACK []\n1 PARAM [0] slot=8 dtype=int32 space=ALU name=\"n\" min=1 max=10\n"
      "2 PARAM [0] slot=9 dtype=int32 space=ALU name=\"m\" min=0 max=6\n3 STACK [1]\n4 STACK [2, 1]\n"
      "5 PARAM [3] slot=0 dtype=int32\n6 PARAM [4] slot=1 dtype=int32\n7 CONST [] weakint 4\n8 STACK [7]\n"
      "9 PARAM [8] slot=2 dtype=int32\n";
  const char* const bodies[] = {
      "10 REDUCE [5] ADD axes=(0)\n11 REDUCE [6] MAX axes=(0, 1)\n12 TUPLE [10, 11]\n",
      "10 MUL [9, 1]\n11 ADD [10, 2]\n12 TUPLE [11]\n",
      "10 REDUCE [5] ADD axes=(0)\n11 FLOORDIV [10, 1]\n12 ADD [9, 11]\n13 STORE [9, 12]\n14 SINK [13]\n",
  };
  CEngine engine;
  std::vector<v1::Graph> graphs;
  for (const char* body : bodies) {
    const auto graph = ParseGraph(absl::StrCat(head, body));
    ASSERT_TRUE(graph.ok()) << graph.status();
    graphs.push_back(*graph);
    const auto number = engine.Add(*graph, ExactOptions());
    ASSERT_TRUE(number.ok()) << number.status();
  }
  const absl::Status built = engine.Build();
  ASSERT_TRUE(built.ok()) << built;
  for (size_t k = 0; k < graphs.size(); ++k) {
    for (const int64_t n : {1, 3, 10}) {
      for (const int64_t m : {0, 2, 6}) {
        const compiler::VariableValues values = {{8, n}, {9, m}};
        const auto arguments = RandomArguments(graphs[k], static_cast<uint64_t>(n * 10 + m), values);
        ASSERT_TRUE(arguments.ok()) << arguments.status();
        const auto want = RunInterpreted(graphs[k], *arguments, values);
        ASSERT_TRUE(want.ok()) << want.status();
        const auto got = engine.Run(k, *arguments, values);
        ASSERT_TRUE(got.ok()) << got.status();
        EXPECT_EQ(CompareOutcomes(*got, *want, {}), "") << "graph " << k << " n=" << n << " m=" << m;
      }
    }
  }
}

}  // namespace
}  // namespace kiln::testing
