#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/graph/graph_text.h"
#include "tests/bench/stop/places.h"

namespace kiln::bench {

v1::Graph LargeGraph(uint32_t nodes) {
  std::string text = "0 CONST [] weakint 16\n1 PARAM : float32 [0] slot=0\n";
  std::vector<uint32_t> sums;
  uint32_t next = 2;
  for (uint32_t i = 0; i < nodes / 3; ++i, next += 2) {
    absl::StrAppend(&text, next, " CONST [] float32 ", i, ".5\n", next + 1, " ADD [1, ", next, "]\n");
    sums.push_back(next + 1);
  }
  // As a tree: a chain would be deeper than a server takes.
  for (size_t i = 0; i + 1 < sums.size(); i += 2) {
    absl::StrAppend(&text, next, " ADD [", sums[i], ", ", sums[i + 1], "]\n");
    sums.push_back(next++);
  }
  absl::StrAppend(&text, next, " TUPLE [", next - 1, "]\n");
  const auto graph = ParseGraph(text);
  KILN_CHECK(graph.ok());
  return *graph;
}

}  // namespace kiln::bench
