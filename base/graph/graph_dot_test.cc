#include "base/graph/graph_dot.h"

#include <string>

#include "base/graph/graph_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(GraphDot, NodesEdgesAndColours) {
  const auto graph = ParseGraph(
      "0 PARAM : float32 [] slot=0 name=\"x\"\n1 REDUCE : float32 [0] ADD axes=(0)\n2 MUL [1, 0]\n3 PERMUTE [2] "
      "axes=(0)");
  const std::string dot = GraphToDot(*graph, [](int node) { return node == 1 ? "(1,)" : ""; });
  EXPECT_THAT(dot, HasSubstr(R"(n0 [label="0 PARAM : float32\nslot=0 name=\"x\"", fillcolor="#eceff1")"));
  EXPECT_THAT(dot, HasSubstr(R"--(n1 [label="1 REDUCE : float32\nADD axes=(0)\n(1,)", fillcolor="#ffcdd2")--"));
  EXPECT_THAT(dot, HasSubstr(R"(n2 [label="2 MUL", fillcolor="#fff3c4")"));
  EXPECT_THAT(dot, HasSubstr(R"(fillcolor="#dcedc8")"));
  EXPECT_THAT(dot, HasSubstr("  n0 -> n1;\n"));
  EXPECT_THAT(dot, HasSubstr("  n0 -> n2 [label=\"1\"];\n"));
}

TEST(GraphDot, LoopsHaveTheColourOfTheirAxis) {
  const auto graph = ParseGraph(
      "0 CONST [] weakint 4\n1 RANGE [0] range=(0) type=UPCAST\n2 RANGE [0] range=(1) type=REDUCE\n"
      "3 SPECIAL [0] special=\"lidx0\"\n4 SPECIAL [0] special=\"gidx1\"");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const std::string dot = GraphToDot(*graph);
  EXPECT_THAT(dot, HasSubstr(R"(type=UPCAST", fillcolor="#f9a825", color="#f9a825", fontcolor="white"])"));
  EXPECT_THAT(dot, HasSubstr(R"(type=REDUCE", fillcolor="#c62828")"));
  EXPECT_THAT(dot, HasSubstr(R"(special=\"lidx0\"", fillcolor="#00838f")"));
  EXPECT_THAT(dot, HasSubstr(R"(special=\"gidx1\"", fillcolor="#1565c0")"));
}

TEST(GraphDot, BadSourcesAndLongTextDoNoHarm) {
  v1::Graph graph = *ParseGraph("0 SOURCE [7]");
  std::string text(79 - 6, 'x');
  for (int i = 0; i < 40; ++i) text += "ö";
  graph.mutable_nodes(0)->set_text(text + "\"]; evil");
  const std::string dot = GraphToDot(graph);
  EXPECT_THAT(dot, Not(HasSubstr("->")));
  EXPECT_THAT(dot, HasSubstr("x..."));
  EXPECT_THAT(dot, Not(HasSubstr("evil")));
}

}  // namespace
}  // namespace kiln
