#include "compiler/target/gpu/assemble_ptx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/graph/graph_text.h"
#include "compiler/compile.h"
#include "compiler/target/gpu/architectures.h"

namespace kiln::compiler {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

v1::Executable AddOneFor(const char* architecture) {
  const auto graph = ParseGraph(R"(0 CONST [] weakint 8
1 STACK [0]
2 PARAM [1] slot=0 dtype=float32
3 CONST [] float32 1.0
4 ADD [2, 3]
5 TUPLE [4]
)");
  EXPECT_TRUE(graph.ok()) << graph.status();
  auto made = Compile(*graph, *GpuTarget(architecture), {});
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

// In the place of the assembler: a script of the shell.
class AssemblePtxTest : public ::testing::Test {
 protected:
  std::string Script(const std::string& text) {
    const std::string path = ::testing::TempDir() + "/ptxas_of_this_test";
    std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
};

TEST_F(AssemblePtxTest, WhatTheAssemblerWritesIsTheCode) {
  v1::Executable made = AddOneFor("sm_90a");
  const std::string ptx = made.object();
  // ptxas -arch=sm_90a FROM -o TO
  const absl::Status done = AssemblePtx(Script("{ echo \"$1\"; cat \"$2\"; } > \"$4\""), made);
  ASSERT_TRUE(done.ok()) << done;
  EXPECT_EQ(made.object(), "-arch=sm_90a\n" + ptx);
}

TEST_F(AssemblePtxTest, CodeThatIsForMoreStaysAsItIs) {
  const std::string fails = Script("exit 1");
  for (const char* architecture : {"sm_80", "gfx942"}) {
    v1::Executable made = AddOneFor(architecture);
    const std::string before = made.object();
    EXPECT_TRUE(AssemblePtx(fails, made).ok());
    EXPECT_EQ(made.object(), before) << architecture;
  }
  v1::Executable made = AddOneFor("sm_90a");
  EXPECT_TRUE(AssemblePtx("", made).ok());
  EXPECT_THAT(made.object(), HasSubstr(".target sm_90a"));
}

TEST_F(AssemblePtxTest, AFailureHasItsWords) {
  v1::Executable made = AddOneFor("sm_90a");
  EXPECT_THAT(AssemblePtx(Script("echo 'ptxas fatal: too old' >&2; exit 255"), made).ToString(),
              HasSubstr("ptxas fatal: too old"));
  EXPECT_THAT(AssemblePtx(Script("exit 0"), made).ToString(), HasSubstr("it wrote nothing"));
  EXPECT_THAT(AssemblePtx("/no/such/ptxas", made).ToString(), HasSubstr("/no/such/ptxas did not assemble"));
  EXPECT_THAT(made.object(), HasSubstr(".target sm_90a"));  // as it was
}

TEST(AssemblePtx, ByNvidiasAssembler) {
  const char* ptxas = std::getenv("KILN_PTXAS");
  if (ptxas == nullptr || *ptxas == 0)
    GTEST_SKIP() << "there is no ptxas: ./dev setup --cuda installs one, KILN_PTXAS names one";
  for (const char* architecture : {"sm_90a", "sm_100a", "sm_120a"}) {
    v1::Executable made = AddOneFor(architecture);
    const absl::Status done = AssemblePtx(ptxas, made);
    ASSERT_TRUE(done.ok()) << done;
    EXPECT_THAT(made.object(), StartsWith("\177ELF"));
    EXPECT_THAT(made.object(), HasSubstr(".text." + made.kernels(0).symbol()));
  }
}

}  // namespace
}  // namespace kiln::compiler
