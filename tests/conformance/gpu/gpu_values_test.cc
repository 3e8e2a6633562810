// Every conformance graph and program as code for GPUs, run on this computer, against the interpreter or the values
// computed beside each program: NVIDIA's as PTX, by a machine of our own; AMD's as the LLVM IR that instructions are
// selected from, compiled for the host.
//
// Of each vendor's architectures each takes its share of the graphs. KILN_EVERY=1: each has all of them.
#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "base/graph/graph_text.h"
#include "compiler/target/gpu/architectures.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/programs/program_cases.h"
#include "tests/support/engines/amd_engine.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"
#include "tests/support/engines/ptx_engine.h"

namespace kiln::testing {
namespace {

using compiler::GpuArchitecture;
using compiler::InterpResult;

// Of NVIDIA's, tensor graphs have no races; programs may.
enum class Level { kTensors, kProgram };

class GpuValues : public ::testing::TestWithParam<v1::Target::Kind> {
 protected:
  static std::vector<GpuArchitecture> Architectures() {
    std::vector<GpuArchitecture> all;
    for (const GpuArchitecture& each : compiler::GpuArchitectures()) {
      if (each.kind == GetParam()) all.push_back(each);
    }
    return all;
  }

  // Those that case number `i` runs on.
  static std::vector<GpuArchitecture> ArchitecturesOf(size_t i) {
    const std::vector<GpuArchitecture> all = Architectures();
    if (std::getenv("KILN_EVERY") != nullptr) return all;
    return {all[i % all.size()]};
  }

  static absl::StatusOr<InterpResult> RunOn(const GpuArchitecture& architecture, size_t i, Level level,
                                            const v1::Graph& graph, const compiler::HostTensors& arguments) {
    if (architecture.kind == v1::Target::NVPTX) {
      PtxEngine gpu(architecture.name);
      if (level == Level::kTensors) gpu.DetectGlobalRaces();
      return gpu.Run(graph, arguments, ExactOptions());
    }
    // Either side of its memory is guarded, in turns; of architectures, too.
    const auto side = i / 4 % 2 == 0 ? GuardedBuffer::Side::kEnd : GuardedBuffer::Side::kBegin;
    return AmdEngine(architecture.name, side).Run(graph, arguments, ExactOptions());
  }

  // Every `parts`-th of them, from number `part` on.
  static void CheckCases(const std::vector<Case>& cases, size_t part = 0, size_t parts = 1) {
    for (size_t i = part; i < cases.size(); i += parts) {
      const auto want = RunInterpreted(cases[i].graph, cases[i].arguments);
      ASSERT_TRUE(want.ok()) << cases[i].name << ": " << want.status();
      for (const GpuArchitecture& architecture : ArchitecturesOf(i)) CheckOn(architecture, i, cases[i], *want);
    }
  }

  static void CheckPrograms(const std::vector<ProgramCase>& cases) {
    for (size_t i = 0; i < cases.size(); ++i) {
      for (const GpuArchitecture& architecture : ArchitecturesOf(i)) CheckOn(architecture, i, cases[i]);
    }
  }

  static void CheckOnAll(const std::vector<ProgramCase>& cases) {
    for (size_t i = 0; i < cases.size(); ++i) {
      for (const GpuArchitecture& architecture : Architectures()) CheckOn(architecture, i, cases[i]);
    }
  }

 private:
  static void CheckOn(const GpuArchitecture& architecture, size_t i, const Case& test, const InterpResult& want) {
    SCOPED_TRACE(absl::StrCat(test.name, " on ", architecture.name));
    const auto got = RunOn(architecture, i, Level::kTensors, test.graph, test.arguments);
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(got->results.size(), want.results.size());
    for (size_t n = 0; n < want.results.size(); ++n) {
      EXPECT_EQ(CompareTensors(got->results[n], want.results[n], test.outputs[n].tolerance), "")
          << test.outputs[n].name;
    }
  }

  static void CheckOn(const GpuArchitecture& architecture, size_t i, const ProgramCase& test) {
    SCOPED_TRACE(absl::StrCat(test.name, " on ", architecture.name));
    auto got = RunOn(architecture, i, Level::kProgram, test.graph, test.arguments);
    ASSERT_TRUE(got.ok()) << got.status() << "\n" << PrintGraph(test.graph);
    InterpResult want;
    want.written = test.expected;
    // Storage of several axes is one row of elements to a compiled kernel.
    for (auto& [slot, tensor] : got->written) {
      const auto expected = want.written.find(slot);
      if (expected != want.written.end()) tensor.shape = expected->second.shape;
    }
    EXPECT_EQ(CompareOutcomes(*got, want, test.tolerance), "") << PrintGraph(test.graph);
  }
};

TEST_P(GpuValues, OfElementwiseOpsAndCasts) { CheckCases(ScalarCases()); }

TEST_P(GpuValues, OfShapesThatBroadcast) { CheckCases(BroadcastCases()); }

TEST_P(GpuValues, OfMovementAndReduce) { CheckCases(TensorCases(), 0, 4); }
TEST_P(GpuValues, OfMovementAndReduceTheNext) { CheckCases(TensorCases(), 1, 4); }
TEST_P(GpuValues, OfMovementAndReduceTheThird) { CheckCases(TensorCases(), 2, 4); }
TEST_P(GpuValues, OfMovementAndReduceTheRest) { CheckCases(TensorCases(), 3, 4); }

TEST_P(GpuValues, OfPrograms) { CheckPrograms(ProgramCases()); }

// On each GPU, as each has other instructions for them.
TEST_P(GpuValues, OfProductsByWaves) { CheckOnAll(WaveCases()); }

TEST_P(GpuValues, OfGraphsOfOneKernel) { CheckPrograms(KernelCases()); }

INSTANTIATE_TEST_SUITE_P(Vendors, GpuValues, ::testing::Values(v1::Target::NVPTX, v1::Target::AMDGPU),
                         [](const auto& info) { return info.param == v1::Target::NVPTX ? "Nvidia" : "Amd"; });

}  // namespace
}  // namespace kiln::testing
