// Random graphs, compiled and interpreted: the same results.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/graph/graph_text.h"
#include "tests/fuzz/random_graph.h"
#include "tests/support/arguments.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

// KILN_FUZZ_FIRST and KILN_FUZZ_GRAPHS choose other seeds.
uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::string Difference(const compiler::InterpResult& got, const compiler::InterpResult& want, const RandomGraph& made) {
  if (got.results.size() != want.results.size() || got.results.size() != made.results.size() ||
      got.written.size() != want.written.size()) {
    return absl::StrCat("got ", got.results.size(), " results and ", got.written.size(), " written slots, want ",
                        want.results.size(), " and ", want.written.size(), "\n");
  }
  std::string report;
  for (size_t i = 0; i < want.results.size(); ++i) {
    const std::string difference = CompareTensors(got.results[i], want.results[i], made.results[i]);
    if (!difference.empty()) absl::StrAppend(&report, " result ", i, "\n", difference);
  }
  for (const auto& [slot, tensor] : want.written) {
    const auto found = got.written.find(slot);
    const std::string difference = found == got.written.end()
                                       ? "  not written\n"
                                       : CompareTensors(found->second, tensor, {0, /*zero_signs=*/false});
    if (!difference.empty()) absl::StrAppend(&report, " slot ", slot, "\n", difference);
  }
  return report;
}

TEST(RandomGraphs, CompiledEqualsInterpreted) {
  CpuEngine cpu;
  const uint64_t first = FromEnvironment("KILN_FUZZ_FIRST", 0), count = FromEnvironment("KILN_FUZZ_GRAPHS", 600);
  int failures = 0;
  for (uint64_t seed = first; seed < first + count && failures < 5; ++seed) {
    const RandomGraph made = MakeRandomGraph(seed);
    const auto fail = [&](const std::string& what) {
      ++failures;
      ADD_FAILURE() << "seed " << seed << ": " << what << "\n"
                    << PrintGraph(made.graph)
                    << "to shrink it: bazel run //tests/reduce:kiln_reduce -- --differs --random-graph=" << seed;
    };
    const auto arguments = RandomArguments(made.graph, seed);
    if (!arguments.ok()) {
      fail(arguments.status().ToString());
      continue;
    }
    const auto want = RunInterpreted(made.graph, *arguments);
    const auto got = cpu.Run(made.graph, *arguments, ExactOptions());
    if (!want.ok() || !got.ok()) {
      fail(absl::StrCat("interpreted: ", want.status().ToString(), "; compiled: ", got.status().ToString()));
    } else if (const std::string difference = Difference(*got, *want, made); !difference.empty()) {
      fail(difference);
    }
  }
}

}  // namespace
}  // namespace kiln::testing
