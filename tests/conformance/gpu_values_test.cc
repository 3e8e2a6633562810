// Every conformance graph and program as PTX, run by a machine of our own on this computer: what NVIDIA's GPUs
// would compute, against the interpreter or the values computed beside each program. For the code of AMD's GPUs
// see gpu_code_test.
//
// Architectures take turns: each has its share of the graphs. KILN_EVERY=1: each has all of them.
#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "base/graph_text.h"
#include "compiler/target/gpu/architectures.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/program_cases.h"
#include "tests/support/cpu_engine.h"
#include "tests/support/interp_engine.h"
#include "tests/support/ptx_engine.h"

namespace kiln::testing {
namespace {

std::vector<std::string> Architectures() {
  std::vector<std::string> names;
  for (const compiler::GpuArchitecture& each : compiler::GpuArchitectures()) {
    if (each.kind == v1::Target::NVPTX) names.emplace_back(each.name);
  }
  return names;
}

// Those that case number `i` runs on.
std::vector<std::string> ArchitecturesOf(size_t i) {
  const std::vector<std::string> all = Architectures();
  if (std::getenv("KILN_EVERY") != nullptr) return all;
  return {all[i % all.size()]};
}

void CheckOn(const std::string& architecture, const Case& test, const compiler::InterpResult& want) {
  SCOPED_TRACE(absl::StrCat(test.name, " on ", architecture));
  PtxEngine gpu(architecture);
  gpu.DetectGlobalRaces();
  const auto got = gpu.Run(test.graph, test.arguments, ExactOptions());
  ASSERT_TRUE(got.ok()) << got.status();
  ASSERT_EQ(got->results.size(), want.results.size());
  for (size_t n = 0; n < want.results.size(); ++n) {
    EXPECT_EQ(CompareTensors(got->results[n], want.results[n], test.outputs[n].tolerance), "") << test.outputs[n].name;
  }
}

void CheckCases(const std::vector<Case>& cases) {
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto want = RunInterpreted(cases[i].graph, cases[i].arguments);
    ASSERT_TRUE(want.ok()) << cases[i].name << ": " << want.status();
    for (const std::string& architecture : ArchitecturesOf(i)) CheckOn(architecture, cases[i], *want);
  }
}

void CheckOn(const std::string& architecture, const ProgramCase& test) {
  SCOPED_TRACE(absl::StrCat(test.name, " on ", architecture));
  auto got = PtxEngine(architecture).Run(test.graph, test.arguments, ExactOptions());
  ASSERT_TRUE(got.ok()) << got.status() << "\n" << PrintGraph(test.graph);
  compiler::InterpResult want;
  want.written = test.expected;
  // Storage of several axes is one row of elements to a compiled kernel.
  for (auto& [slot, tensor] : got->written) {
    const auto expected = want.written.find(slot);
    if (expected != want.written.end()) tensor.shape = expected->second.shape;
  }
  EXPECT_EQ(CompareOutcomes(*got, want, test.tolerance), "") << PrintGraph(test.graph);
}

void CheckPrograms(const std::vector<ProgramCase>& cases) {
  for (size_t i = 0; i < cases.size(); ++i) {
    for (const std::string& architecture : ArchitecturesOf(i)) CheckOn(architecture, cases[i]);
  }
}

TEST(GpuValues, OfElementwiseOpsAndCasts) { CheckCases(ScalarCases()); }

TEST(GpuValues, OfShapesThatBroadcast) { CheckCases(BroadcastCases()); }

TEST(GpuValues, OfMovementAndReduce) { CheckCases(TensorCases()); }

TEST(GpuValues, OfPrograms) { CheckPrograms(ProgramCases()); }

TEST(GpuValues, OfGraphsOfOneKernel) { CheckPrograms(KernelCases()); }

}  // namespace
}  // namespace kiln::testing
