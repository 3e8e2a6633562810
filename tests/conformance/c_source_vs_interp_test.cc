// The C dialect, compiled by a C compiler, against the interpreter: every
// elementwise op and cast on edges and random values, and every movement and
// reduce op, of each dtype in turn.
#include <gtest/gtest.h>

#include "base/graph_text.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/program_cases.h"
#include "tests/support/c_engine.h"
#include "tests/support/cpu_engine.h"
#include "tests/support/interp_engine.h"

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

}  // namespace
}  // namespace kiln::testing
