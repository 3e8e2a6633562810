// Every conformance graph and program as code for GPUs, on a machine without one: LLVM has
// instructions for all of it, for each architecture; code objects are read back; and NVIDIA's
// assembler takes what came out, if there is one: KILN_PTXAS names it.
//
// A back end takes its time: of one vendor's architectures each takes its share of the graphs,
// and all of them together all. (NVIDIA's a quarter: gpu_values_test.cc compiles all for them, too, and runs the PTX.)
// KILN_EVERY=1: each takes all.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/compile.h"
#include "compiler/target/gpu/architectures.h"
#include "runtime/drivers/null/device.h"
#include "runtime/hal/device.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/programs/program_cases.h"
#include "tests/support/code_object.h"
#include "tests/support/engines/device_engine.h"
#include "tests/support/ptxas.h"

namespace kiln::testing {
namespace {

struct Named {
  std::string name;
  v1::Graph graph;
};

std::vector<Named> AllGraphs() {
  std::vector<Named> graphs;
  for (const auto& cases : {ScalarCases(), TensorCases(), BroadcastCases()}) {
    for (const Case& test : cases) graphs.push_back({test.name, test.graph});
  }
  for (const auto& cases : {ProgramCases(), KernelCases()}) {
    for (const ProgramCase& test : cases) graphs.push_back({test.name, test.graph});
  }
  return graphs;
}

size_t NumberOf(const compiler::GpuArchitecture& architecture) {
  const auto all = compiler::GpuArchitectures();
  return static_cast<size_t>(
      std::find_if(all.begin(), all.end(),
                   [&](const auto& each) { return std::string(each.name) == architecture.name; }) -
      all.begin());
}

// Each kernel takes eight bytes for each operand, and the shared memory that its launch says.
void CheckCodeObject(const v1::Executable& made) {
  for (const v1::Step& step : made.steps()) {
    const v1::Kernel& kernel = made.kernels(static_cast<int>(step.kernel()));
    const auto descriptor = ReadKernelDescriptor(made.object(), kernel.symbol());
    ASSERT_TRUE(descriptor.ok()) << descriptor.status();
    EXPECT_EQ(descriptor->arguments, 8 * step.operands_size()) << kernel.symbol();
    EXPECT_LE(descriptor->group_segment, kernel.launch().static_shared_bytes()) << kernel.symbol();
    EXPECT_GT(descriptor->group_segment + 16, kernel.launch().static_shared_bytes()) << kernel.symbol();
  }
}

class GpuCode : public ::testing::TestWithParam<compiler::GpuArchitecture> {};

TEST_P(GpuCode, OfEveryGraph) {
  const v1::Target target = *compiler::GpuTarget(GetParam().name);
  const std::vector<Named> graphs = AllGraphs();
  ASSERT_GT(graphs.size(), 100);
  const size_t share = std::getenv("KILN_EVERY") != nullptr ? 1 : GetParam().kind == v1::Target::NVPTX ? 16 : 4;
  for (size_t i = NumberOf(GetParam()) % share; i < graphs.size(); i += share) {
    SCOPED_TRACE(graphs[i].name);
    const auto made = compiler::Compile(graphs[i].graph, target, ExactOptions());
    EXPECT_TRUE(made.ok()) << made.status();
    if (!made.ok() || made->kernels().empty()) continue;
    for (const v1::Kernel& kernel : made->kernels()) {
      EXPECT_EQ(kernel.launch().groups_size(), 3);
      EXPECT_EQ(kernel.launch().items_size(), 3);
    }
    if (GetParam().kind == v1::Target::NVPTX) {
      for (const v1::Kernel& kernel : made->kernels())
        EXPECT_TRUE(absl::StrContains(made->object(), absl::StrCat(".visible .entry ", kernel.symbol(), "(")));
    } else {
      CheckCodeObject(*made);
    }
  }
}

TEST_P(GpuCode, IsWhatPtxasTakes) {
  const char* ptxas = std::getenv("KILN_PTXAS");
  if (GetParam().kind != v1::Target::NVPTX) return;
  if (ptxas == nullptr) GTEST_SKIP() << "there is no ptxas: ./dev setup --cuda installs one, KILN_PTXAS names one";
  const v1::Target target = *compiler::GpuTarget(GetParam().name);
  const std::vector<Named> graphs = AllGraphs();
  const size_t share = std::getenv("KILN_EVERY") != nullptr ? 1 : 24;
  int taken = 0;
  for (size_t i = NumberOf(GetParam()) % share; i < graphs.size(); i += share) {
    SCOPED_TRACE(graphs[i].name);
    const auto made = compiler::Compile(graphs[i].graph, target, ExactOptions());
    ASSERT_TRUE(made.ok()) << made.status();
    if (made->kernels().empty()) continue;
    const Assembled assembled = Assemble(ptxas, GetParam().name, made->object());
    EXPECT_TRUE(assembled.taken) << assembled.said << made->object();
    ++taken;
  }
  EXPECT_GT(taken, 10);
}

INSTANTIATE_TEST_SUITE_P(Architectures, GpuCode, ::testing::ValuesIn(compiler::GpuArchitectures()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(GpuLaunch, AsksForLargeSharedMemoryWhereCodeMayNotDeclareIt) {
  const auto graphs = AllGraphs();
  const auto found =
      std::find_if(graphs.begin(), graphs.end(), [](const Named& g) { return g.name == "56 KiB of shared memory"; });
  ASSERT_NE(found, graphs.end());
  const auto nvidia = compiler::Compile(found->graph, *compiler::GpuTarget("sm_80"), {});
  ASSERT_TRUE(nvidia.ok()) << nvidia.status();
  EXPECT_EQ(nvidia->kernels(0).launch().static_shared_bytes(), 0u);
  EXPECT_EQ(nvidia->kernels(0).launch().dynamic_shared_bytes(), 56u << 10);
  EXPECT_EQ(nvidia->kernels(0).launch().items(0), 256u);
  EXPECT_TRUE(absl::StrContains(nvidia->object(), ".extern .shared"));
  const auto amd = compiler::Compile(found->graph, *compiler::GpuTarget("gfx942"), {});
  ASSERT_TRUE(amd.ok()) << amd.status();
  EXPECT_EQ(amd->kernels(0).launch().static_shared_bytes(), 56u << 10);
  EXPECT_EQ(amd->kernels(0).launch().dynamic_shared_bytes(), 0u);
}

TEST(TensorCores, AreWhatAWmmaByAWarpIsOnNvidia) {
  for (const Named& graph : AllGraphs()) {
    if (!absl::StartsWith(graph.name, "WMMA by 32 items")) continue;
    const auto made = compiler::Compile(graph.graph, *compiler::GpuTarget("sm_80"), {});
    ASSERT_TRUE(made.ok()) << made.status();
    const bool deep = absl::EndsWith(graph.name, "16");
    EXPECT_TRUE(absl::StrContains(made->object(), deep ? "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
                                                       : "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"))
        << made->object();
    EXPECT_EQ(made->kernels(0).launch().static_shared_bytes(), 0u);
  }
}

// At a place that is known when the kernel runs.
TEST(GpuPrograms, AccessNeighboursAtOnceWhereTheyAreAligned) {
  const auto graph = ParseGraph(R"(0 CONST [] weakint 128
1 STACK [0]
2 PARAM [1] slot=0 dtype=float32
3 PARAM [1] slot=1 dtype=float32
4 CONST [] int64 32
5 SPECIAL [4] special="lidx0"
6 CONST [] int64 4
7 MUL [5, 6]
8 CONST [] weakint 4
9 SHRINK [3, 7, 8]
10 LOAD [9]
11 SHRINK [2, 7, 8]
12 STORE [11, 10]
13 LINEAR [5, 7, 9, 10, 11, 12] kernel name="copy"
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto made = compiler::Compile(*graph, *compiler::GpuTarget("sm_80"), {});
  ASSERT_TRUE(made.ok()) << made.status();
  for (const char* access : {"ld.global.v4.b32", "st.global.v4.b32", "ld.global.b32", "st.global.b32"}) {
    EXPECT_TRUE(absl::StrContains(made->object(), access)) << access << "\n" << made->object();
  }
}

// A card runs whole groups, as many as the launch says; the launch is made before variables have values.
TEST(GpuLaunch, OfASizeThatIsAVariableIsRefused) {
  const auto graph = ParseGraph(R"(0 STACK []
1 PARAM [0] slot=8 dtype=int64 space=ALU name="n" min=1 max=6
2 CONST [] weakint 24
3 STACK [2]
4 PARAM [3] slot=0 dtype=int32
5 SPECIAL [1] special="gidx0"
6 INDEX [4, 5]
7 CONST [] int32 7
8 STORE [6, 7]
9 LINEAR [1, 4, 5, 6, 7, 8]
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (const char* arch : {"sm_80", "gfx942"}) {
    const auto made = compiler::Compile(*graph, *compiler::GpuTarget(arch), {});
    EXPECT_EQ(made.status().code(), absl::StatusCode::kUnimplemented) << arch << ": " << made.status();
    EXPECT_TRUE(absl::StrContains(made.status().message(), "gidx0")) << made.status();
  }
}

// What GpuDims makes is no client's to send.
TEST(GpuReduces, AreNothingThatAClientSends) {
  for (const bool gpu : {false, true}) {
    const auto graph = ParseGraph(R"(0 CONST [] weakint 8
1 STACK [0]
2 PARAM [1] slot=0 dtype=float32
3 PARAM [1] slot=1 dtype=float32
4 SPECIAL [0] special="lidx0"
5 INDEX [3, 4]
6 REDUCE [5, 4] ADD axes=()
7 CONST [] weakint 0
8 INDEX [2, 7]
9 STORE [8, 6]
10 SINK [9] kernel name="fold"
)");
    ASSERT_TRUE(graph.ok()) << graph.status();
    DeviceEngine engine(*runtime::null::CreateDevice({}));
    const auto made = compiler::Compile(*graph, gpu ? *compiler::GpuTarget("sm_80") : engine.device().target(), {});
    EXPECT_FALSE(made.ok());
    EXPECT_TRUE(DetailOf(made.status()).has_value()) << made.status();
    EXPECT_NE(made.status().code(), absl::StatusCode::kInternal) << made.status();
  }
}

TEST(GpuTargets, AreThoseOfTheTable) {
  v1::Target target = *compiler::GpuTarget("sm_80");
  target.set_arch("sm_70");
  const auto made = compiler::Compile(AllGraphs()[0].graph, target, {});
  EXPECT_EQ(made.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(
      absl::StrContains(made.status().message(), "no code generator for sm_70; there are those for sm_80, sm_90a"))
      << made.status();
}

}  // namespace
}  // namespace kiln::testing
