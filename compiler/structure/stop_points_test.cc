#include "compiler/structure/stop_points.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/testing/read_text.h"

namespace kiln::compiler {
namespace {

// Adds up in x[0], `outer` times `inner` times.
std::string Loops(int64_t outer, int64_t inner) {
  return absl::StrCat(R"(
  0 CONST : weakint [] 4
  1 STACK : weakint [0]
  2 PARAM : int64 [1] slot=0 space=GLOBAL
  3 CONST : int64 [] )",
                      outer, R"(
  4 RANGE : int64 [3] range=(0) type=THREAD
  5 CONST : int64 [] )",
                      inner, R"(
  6 RANGE : int64 [5] range=(1) type=LOOP
  7 CONST : int64 [] 0
  8 INDEX : int64 [2, 7]
  9 LOAD : int64 [8]
  10 ADD : int64 [9, 6]
  11 STORE : void [8, 10]
  12 END : void [11, 6]
  13 END : void [12, 4]
  14 LINEAR : void [2, 4, 6, 8, 9, 10, 11, 12, 13] kernel name="loops"
)");
}

// Of the loop over 4, and of that over 6; 0: it does not look.
std::pair<int64_t, int64_t> PointsOf(const std::string& text) {
  Graph graph;
  const UOp* linear = ReadText(graph, text);
  const StopPoints points = FindStopPoints(linear);
  const auto every = [&](size_t place) {
    const auto found = points.find(linear->src(place));
    return found == points.end() ? 0 : found->second;
  };
  return {every(1), every(2)};
}

TEST(StopPoints, AShortKernelHasNone) { EXPECT_EQ(PointsOf(Loops(100, 100)), std::pair(int64_t{0}, int64_t{0})); }

TEST(StopPoints, TheOutermostLoopThatIsOftenEnough) {
  const auto [outer, inner] = PointsOf(Loops(1'000'000, 100));
  EXPECT_GT(outer, 100);
  EXPECT_LT(outer, 10'000);
  EXPECT_EQ(inner, 0);
}

TEST(StopPoints, AnIterationOfAFewHundredMicroseconds) {
  EXPECT_EQ(PointsOf(Loops(1'000'000, 20'000)), std::pair(int64_t{1}, int64_t{0}));
}

TEST(StopPoints, InsideALongIteration) {
  const auto [outer, inner] = PointsOf(Loops(10, 1'000'000'000));
  EXPECT_EQ(outer, 1);
  EXPECT_GT(inner, 1'000);
  EXPECT_LT(inner, 1'000'000);
  EXPECT_GT(PointsOf(Loops(1, 1'000'000'000)).second, 1'000);
}

// Loads from where another load says take a hundred times as long.
TEST(StopPoints, AChainOfLoads) {
  Graph graph;
  const UOp* linear = ReadText(graph, R"(
  0 CONST : weakint [] 1000
  1 STACK : weakint [0]
  2 PARAM : int64 [1] slot=0 space=GLOBAL
  3 CONST : int64 [] 20000
  4 RANGE : int64 [3] range=(0) type=LOOP
  5 INDEX : int64 [2, 4]
  6 LOAD : int64 [5]
  7 INDEX : int64 [2, 6]
  8 LOAD : int64 [7]
  9 STORE : void [5, 8]
  10 END : void [9, 4]
  11 LINEAR : void [2, 4, 5, 6, 7, 8, 9, 10] kernel name="chain"
)");
  const StopPoints points = FindStopPoints(linear);
  ASSERT_EQ(points.size(), 1u);
  EXPECT_LT(points.begin()->second, 10'000);
}

// Many loops in a row, each too short to look, are not.
TEST(StopPoints, ManyShortLoopsInARow) {
  std::string text = R"(
  0 CONST : weakint [] 4
  1 STACK : weakint [0]
  2 PARAM : int64 [1] slot=0 space=GLOBAL
  3 CONST : int64 [] 50000
  4 CONST : int64 [] 0
  5 INDEX : int64 [2, 4]
)";
  std::string list = "2";
  int node = 6;
  for (int i = 0; i < 40; ++i, node += 3) {
    absl::StrAppend(&text, node, " RANGE : int64 [3] range=(", i, ") type=LOOP\n", node + 1, " STORE : void [5, ", node,
                    "]\n", node + 2, " END : void [", node + 1, ", ", node, "]\n");
    absl::StrAppend(&list, ", ", node, ", ", node + 1, ", ", node + 2);
  }
  absl::StrAppend(&text, node, " LINEAR : void [", list, "] kernel name=\"loops\"\n");
  Graph graph;
  EXPECT_GT(FindStopPoints(ReadText(graph, text)).size(), 2u);
}

}  // namespace
}  // namespace kiln::compiler
