#include "tests/support/endless.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/graph/graph_text.h"

namespace kiln::testing {
namespace {

v1::Graph GraphOf(const std::string& text) {
  const auto graph = ParseGraph(text);
  KILN_CHECK(graph.ok());
  return *graph;
}

// at[0] = next[at[0]], again and again.
constexpr char kChain[] = R"(
  0 CONST [] weakint 16777216
  1 PARAM : int32 [0] slot=0
  2 CONST [] weakint 1
  3 PARAM : int32 [2] slot=1
  4 CONST [] int32 0
  5 INDEX [3, 4]
  6 CONST [] weakint 10000000000
  7 RANGE [6] range=(0)
  8 LOAD [5]
  9 INDEX [1, 8]
  10 LOAD [9]
  11 STORE [5, 10]
  12 END [11, 7]
  13 LINEAR [1, 3, 5, 7, 8, 9, 10, 11, 12]
)";

// Groups of items, each with loops in a loop: divisions, which no vector has.
constexpr char kGroups[] = R"(
  0 CONST [] weakint 65536
  1 PARAM : int32 [0] slot=0
  2 CONST [] weakint 256
  3 SPECIAL [2] special="gidx0"
  4 SPECIAL [2] special="lidx0"
  5 CONST [] int64 256
  6 MUL [3, 5]
  7 ADD [6, 4]
  8 INDEX [1, 7]
  9 CONST [] weakint 1000
  10 RANGE [9] range=(0)
  11 RANGE [9] range=(1)
  12 LOAD [8]
  13 CONST [] int32 7
  14 CDIV [12, 13]
  15 CONST [] int32 100000
  16 ADD [14, 15]
  17 STORE [8, 16]
  18 END [17, 11]
  19 END [18, 10]
  20 LINEAR [1, 3, 4, 6, 7, 8, 10, 11, 12, 14, 16, 17, 18, 19]
)";

// 300 sines of each of 16 million numbers, as a new result.
std::string Sines() {
  std::string text = "0 CONST [] weakint 16777216\n1 PARAM : float32 [0] slot=0\n";
  int last = 1;
  for (int i = 0; i < 300; ++i, ++last) absl::StrAppend(&text, last + 1, " SIN [", last, "]\n");
  return absl::StrCat(text, last + 1, " TUPLE [", last, "]\n");
}

// One number: the sum over i and j of sin(x[i] y[j]).
constexpr char kSum[] = R"(
  0 CONST [] weakint 40000
  1 PARAM : float32 [0] slot=0
  2 PARAM : float32 [0] slot=1
  3 CONST [] weakint 1
  4 STACK [0, 3]
  5 RESHAPE [1, 4]
  6 STACK [3, 0]
  7 RESHAPE [2, 6]
  8 STACK [0, 0]
  9 EXPAND [5, 8]
  10 EXPAND [7, 8]
  11 MUL [9, 10]
  12 SIN [11]
  13 SIN [12]
  14 REDUCE [13] ADD axes=(0, 1)
  15 TUPLE [14]
)";

// A product of matrices, by a tile that fills the registers.
constexpr char kProduct[] = R"(
  0 CONST [] weakint 8192
  1 STACK [0, 0]
  2 PARAM : float32 [1] slot=0
  3 PARAM : float32 [1] slot=1
  4 CONST [] weakint 1
  5 STACK [0, 0, 4]
  6 RESHAPE [2, 5]
  7 STACK [4, 0, 0]
  8 RESHAPE [3, 7]
  9 STACK [0, 0, 0]
  10 EXPAND [6, 9]
  11 EXPAND [8, 9]
  12 MUL [10, 11]
  13 REDUCE [12] ADD axes=(1)
  14 TUPLE [13]
)";

// A permutation of one cycle, in an order that no cache foresees.
std::string Cycle(uint32_t count) {
  std::vector<uint32_t> next(count);
  // A full-period generator: its multiplier is 1 mod 4, and what it adds is odd.
  for (uint32_t i = 0; i < count; ++i) next[i] = (i * 1664525u + 1013904223u) % count;
  std::string bytes(count * sizeof(uint32_t), '\0');
  std::memcpy(bytes.data(), next.data(), bytes.size());
  return bytes;
}

std::string Zeros(size_t numbers) { return std::string(4 * numbers, '\0'); }

}  // namespace

std::vector<EndlessProgram> EndlessPrograms() {
  std::vector<EndlessProgram> programs;
  programs.push_back({"one loop that nothing shares out", CountsFor(30'000'000'000), {Zeros(1)}});
  programs.push_back({"loads that depend on loads", GraphOf(kChain), {Cycle(1 << 24), Zeros(1)}});
  programs.push_back({"work groups of loops", GraphOf(kGroups), {Zeros(1 << 16)}});
  programs.push_back({"a long parallel kernel", GraphOf(Sines()), {Zeros(1 << 24)}});
  programs.push_back({"a sum to one number", GraphOf(kSum), {Zeros(40000), Zeros(40000)}});
  programs.push_back({"a product of matrices", GraphOf(kProduct), {Zeros(1 << 26), Zeros(1 << 26)}});
  return programs;
}

v1::Graph CountsFor(int64_t times) {
  return GraphOf(absl::StrCat(R"(
    0 CONST [] weakint 1
    1 PARAM : int32 [0] slot=0
    2 CONST [] int32 0
    3 INDEX [1, 2]
    4 CONST [] weakint )",
                              times, R"(
    5 RANGE [4] range=(0)
    6 LOAD [3]
    7 CONST [] int32 1
    8 ADD [6, 7]
    9 STORE [3, 8]
    10 END [9, 5]
    11 LINEAR [1, 3, 5, 6, 8, 9, 10]
  )"));
}

v1::Graph CountsTo() {
  return GraphOf(R"(
    0 CONST [] weakint 1
    1 PARAM : int32 [0] slot=0
    2 PARAM : int32 [0] slot=1
    3 CONST [] int32 0
    4 INDEX [1, 3]
    5 INDEX [2, 3]
    6 LOAD [5]
    7 RANGE [6] range=(0)
    8 LOAD [4]
    9 CONST [] int32 1
    10 ADD [8, 9]
    11 STORE [4, 10]
    12 END [11, 7]
    13 LINEAR [1, 2, 4, 5, 6, 7, 8, 10, 11, 12]
  )");
}

}  // namespace kiln::testing
