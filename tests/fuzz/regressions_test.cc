// Graphs that once crashed a compile, hung it or gave a wrong result, one a
// file; the file's name says what was wrong. Compiled must equal interpreted. A
// file that begins with "# REFUSED" must get a Status instead.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "base/graph/graph_text.h"
#include "tests/support/arguments.h"
#include "tests/support/compare.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

TEST(Regressions, CompiledEqualsInterpreted) {
  CpuEngine cpu;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator("tests/fuzz/regressions")) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  ASSERT_FALSE(files.empty());
  for (const auto& file : files) {
    SCOPED_TRACE(file.string());
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    const auto graph = ParseGraph(text.str());
    ASSERT_TRUE(graph.ok()) << graph.status();
    if (absl::StartsWith(text.str(), "# REFUSED")) {
      EXPECT_FALSE(cpu.Run(*graph, {}, ExactOptions()).ok());
      continue;
    }
    const auto arguments = RandomArguments(*graph, 1);
    ASSERT_TRUE(arguments.ok()) << arguments.status();
    const auto want = RunInterpreted(*graph, *arguments);
    const auto got = cpu.Run(*graph, *arguments, ExactOptions());
    ASSERT_TRUE(want.ok()) << want.status();
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(CompareOutcomes(*got, *want, Tolerance{}), "");
  }
}

}  // namespace
}  // namespace kiln::testing
