// The CUDA dialect, compiled by NVIDIA's compiler, against the interpreter: the PTX that nvcc makes is run by the
// machine of tests/support/ptx. KILN_NVCC names nvcc (./dev setup --cuda installs one); skipped where there is none.
// A share of the tensor graphs; KILN_EVERY=1: all.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/conformance/cases.h"
#include "tests/conformance/programs/program_cases.h"
#include "tests/support/compare.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"
#include "tests/support/engines/nvcc_engine.h"

namespace kiln::testing {
namespace {

std::string Nvcc() {
  const char* named = std::getenv("KILN_NVCC");
  return named == nullptr ? "" : named;
}

#define SKIP_WITHOUT_NVCC() \
  if (Nvcc().empty()) GTEST_SKIP() << "there is no nvcc: ./dev setup --cuda installs one, KILN_NVCC names one"

void CheckCases(const std::vector<Case>& cases, size_t share) {
  NvccEngine engine(Nvcc(), "sm_80");
  if (std::getenv("KILN_EVERY") != nullptr) share = 1;
  std::vector<size_t> numbers;
  for (size_t i = 0; i < cases.size(); i += share) {
    const auto number = engine.Add(cases[i].graph, ExactOptions());
    ASSERT_TRUE(number.ok()) << cases[i].name << ": " << number.status();
    numbers.push_back(*number);
  }
  const absl::Status built = engine.Build();
  ASSERT_TRUE(built.ok()) << built;
  for (size_t number : numbers) {
    const Case& test = cases[number * share];
    const auto want = RunInterpreted(test.graph, test.arguments);
    ASSERT_TRUE(want.ok()) << test.name << ": " << want.status();
    const auto got = engine.Run(number, test.arguments);
    ASSERT_TRUE(got.ok()) << test.name << ": " << got.status();
    ASSERT_EQ(got->results.size(), want->results.size()) << test.name;
    for (size_t i = 0; i < want->results.size(); ++i) {
      EXPECT_EQ(CompareTensors(got->results[i], want->results[i], test.outputs[i].tolerance), "")
          << test.outputs[i].name << " in " << test.name;
    }
  }
}

TEST(CudaSource, OfElementwiseOpsAndCasts) {
  SKIP_WITHOUT_NVCC();
  CheckCases(ScalarCases(), 1);
}

// A template's dtypes follow each other: a stride that is prime to their number takes each template and each dtype.
TEST(CudaSource, OfMovementAndReduce) {
  SKIP_WITHOUT_NVCC();
  CheckCases(TensorCases(), 11);
}

// Work items, shared memory, barriers and atomics included.
TEST(CudaSource, OfProgramsWrittenByHand) {
  SKIP_WITHOUT_NVCC();
  std::vector<ProgramCase> cases = ProgramCases();
  for (ProgramCase& test : KernelCases()) cases.push_back(std::move(test));
  NvccEngine engine(Nvcc(), "sm_80");
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
