// Every conformance graph and program as code for GPUs, on a machine without one: LLVM has
// instructions for all of it, for each architecture, and NVIDIA's assembler takes what came
// out, if there is one: KILN_PTXAS names it.
//
// A back end takes its time: of one vendor's architectures each takes its share of the graphs,
// and all of them together all. KILN_EVERY=1: each takes all.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/compile.h"
#include "compiler/target/gpu/architectures.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/program_cases.h"
#include "tests/support/cpu_engine.h"

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

// What NVIDIA's assembler has to say; nothing if it takes it.
std::string Assembled(const std::string& ptxas, const std::string& arch, const std::string& ptx) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", getpid(), ".ptx");
  std::ofstream(path) << ptx;
  FILE* pipe = popen(absl::StrCat(ptxas, " -arch=", arch, " -o /dev/null ", path, " 2>&1").c_str(), "r");
  std::string said;
  char line[512];
  while (fgets(line, sizeof(line), pipe) != nullptr) said += line;
  const bool ended_well = pclose(pipe) == 0;
  std::remove(path.c_str());
  return ended_well ? "" : said + ptx;
}

size_t NumberOf(const compiler::GpuArchitecture& architecture) {
  const auto all = compiler::GpuArchitectures();
  return static_cast<size_t>(
      std::find_if(all.begin(), all.end(),
                   [&](const auto& each) { return std::string(each.name) == architecture.name; }) -
      all.begin());
}

class GpuCode : public ::testing::TestWithParam<compiler::GpuArchitecture> {};

TEST_P(GpuCode, OfEveryGraph) {
  const v1::Target target = *compiler::GpuTarget(GetParam().name);
  const char* ptxas = std::getenv("KILN_PTXAS");
  const std::vector<Named> graphs = AllGraphs();
  ASSERT_GT(graphs.size(), 100);
  int assembled = 0;
  const size_t share = std::getenv("KILN_EVERY") != nullptr ? 1 : 4;
  for (size_t i = NumberOf(GetParam()) % share; i < graphs.size(); i += share) {
    SCOPED_TRACE(graphs[i].name);
    const auto made = compiler::Compile(graphs[i].graph, target, ExactOptions());
    EXPECT_TRUE(made.ok()) << made.status();
    if (!made.ok() || made->kernels().empty()) continue;
    if (GetParam().kind == v1::Target::NVPTX) {
      EXPECT_TRUE(absl::StrContains(made->object(), absl::StrCat(".visible .entry ", made->kernels(0).symbol())));
      if (ptxas != nullptr && i % 7 == 0) {
        EXPECT_EQ(Assembled(ptxas, GetParam().name, made->object()), "");
        ++assembled;
      }
    } else {
      EXPECT_TRUE(absl::StartsWith(made->object(),
                                   "\x7f"
                                   "ELF"));
      EXPECT_TRUE(absl::StrContains(made->object(), absl::StrCat(made->kernels(0).symbol(), ".kd")));
    }
  }
  RecordProperty("assembled", assembled);
}

INSTANTIATE_TEST_SUITE_P(Architectures, GpuCode, ::testing::ValuesIn(compiler::GpuArchitectures()),
                         [](const auto& info) { return std::string(info.param.name); });

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
