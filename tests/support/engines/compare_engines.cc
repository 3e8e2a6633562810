// compare_engines FILE.uop [SEED]: runs one graph compiled and interpreted, on
// random small numbers, and prints where they differ. For reproducing what a
// fuzzer found; KILN_DUMP=dir shows every stage of the compilation.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/graph/graph_text.h"
#include "tests/support/arguments.h"
#include "tests/support/compare.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

int main(int argc, char** argv) {
  using namespace kiln::testing;  // NOLINT
  if (argc < 2) {
    std::fprintf(stderr, "usage: compare_engines FILE.uop [SEED]\n");
    return 2;
  }
  std::ifstream file(argv[1]);
  std::ostringstream text;
  text << file.rdbuf();
  const auto graph = kiln::ParseGraph(text.str());
  if (!graph.ok()) {
    std::fprintf(stderr, "%s\n", graph.status().ToString().c_str());
    return 2;
  }
  const auto arguments = RandomArguments(*graph, argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0);
  if (!arguments.ok()) {
    std::fprintf(stderr, "%s\n", arguments.status().ToString().c_str());
    return 2;
  }
  const auto want = RunInterpreted(*graph, *arguments);
  const auto got = CpuEngine().Run(*graph, *arguments, ExactOptions());
  std::printf("interpreted: %s\ncompiled: %s\n", want.status().ToString().c_str(), got.status().ToString().c_str());
  if (!want.ok() || !got.ok()) return 1;
  const std::string difference = CompareOutcomes(*got, *want, Tolerance());
  std::printf("%s", difference.empty() ? "same\n" : difference.c_str());
  return difference.empty() ? 0 : 1;
}
