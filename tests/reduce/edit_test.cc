#include "tests/reduce/edit.h"

#include <gtest/gtest.h>

#include "base/graph/graph_text.h"

namespace kiln::testing {
namespace {

v1::Graph Read(const std::string& text) {
  const auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *graph;
}

TEST(OnlyReached, DropsWhatTheRootDoesNotReach) {
  EXPECT_EQ(
      PrintGraph(OnlyReached(Read("0 CONST [] int32 1\n1 CONST [] int32 2\n2 NEG [0]\n3 NEG [1]\n4 TUPLE [3]\n"))),
      "0 CONST [] int32 2\n1 NEG [0]\n2 TUPLE [1]\n");
}

TEST(Merged, MakesEqualNodesOne) {
  EXPECT_EQ(PrintGraph(Merged(Read("0 CONST [] int32 1\n1 CONST [] int32 1\n2 NEG [0]\n3 NEG [1]\n4 TUPLE [2, 3]\n"))),
            "0 CONST [] int32 1\n1 NEG [0]\n2 TUPLE [1, 1]\n");
}

TEST(WithUses, PutsAnEarlierNodeInPlace) {
  const v1::Graph graph = Read("0 CONST [] int32 1\n1 NEG [0]\n2 ADD [1, 1]\n3 TUPLE [2]\n");
  EXPECT_EQ(PrintGraph(WithUses(graph, 1, 0)), "0 CONST [] int32 1\n1 ADD [0, 0]\n2 TUPLE [1]\n");
  EXPECT_EQ(PrintGraph(WithUses(graph, 3, 1)), "0 CONST [] int32 1\n1 NEG [0]\n");  // the root
}

TEST(WithNode, PutsSeveralNodesInPlaceOfOne) {
  const v1::Graph made = Read("0 CONST [] int32 7\n1 CONST [] int32 8\n");
  v1::UOp sum;
  sum.set_op(v1::ADD);
  sum.add_src(1);
  sum.add_src(2);
  const v1::Graph graph = Read("0 CONST [] int32 1\n1 NEG [0]\n2 NEG [1]\n3 TUPLE [2, 0]\n");
  EXPECT_EQ(PrintGraph(WithNode(graph, 1, {made.nodes(0), made.nodes(1), sum})),
            "0 CONST [] int32 1\n1 CONST [] int32 7\n2 CONST [] int32 8\n3 ADD [1, 2]\n4 NEG [3]\n5 TUPLE [4, 0]\n");
}

constexpr char kLoop[] =
    "0 CONST [] int32 4\n"
    "1 RANGE [0] range=(0) type=LOOP\n"
    "2 NEG [1]\n"
    "3 NOT [1]\n"
    "4 END [3, 1]\n"
    "5 LINEAR [0, 1, 2, 3, 4]\n";

TEST(WithoutEntries, TakesTheirUsersAlong) {
  EXPECT_EQ(PrintGraph(WithoutEntries(Read(kLoop), 5, 2, 3)),
            "0 CONST [] int32 4\n1 RANGE [0] range=(0) type=LOOP\n2 NOT [1]\n3 END [2, 1]\n4 LINEAR [0, 1, 2, 3]\n");
  EXPECT_EQ(PrintGraph(WithoutEntries(Read(kLoop), 5, 1, 2)), "0 CONST [] int32 4\n1 LINEAR [0]\n");
}

TEST(WithoutLoop, LeavesOneIteration) {
  EXPECT_EQ(PrintGraph(*WithoutLoop(Read(kLoop), 1, v1::INT32)),
            "0 CONST [] int32 4\n1 CONST [] int32 0\n2 NEG [1]\n3 NOT [1]\n4 LINEAR [0, 2, 3, 3]\n");
  const v1::Graph kernel = Read(
      "0 CONST [] int32 4\n1 RANGE [0] range=(0) type=LOOP\n2 RANGE [0] range=(1) type=LOOP\n3 ADD [1, 2]\n"
      "4 END [3, 1, 2]\n5 SINK [4]\n");
  EXPECT_EQ(PrintGraph(*WithoutLoop(kernel, 1, v1::WEAKINT)),
            "0 CONST [] int32 4\n1 CONST [] weakint 0\n2 RANGE [0] range=(1) type=LOOP\n3 ADD [1, 2]\n"
            "4 END [3, 2]\n5 SINK [4]\n");
  EXPECT_FALSE(WithoutLoop(kernel, 3, v1::WEAKINT).has_value());
}

TEST(Inlined, PutsTheBodyInPlaceOfAFunction) {
  const v1::Graph graph = Read(
      "0 STACK []\n"
      "1 PARAM [0] slot=0 dtype=int32\n"
      "2 NEG [1]\n"
      "3 TUPLE [2, 1]\n"
      "4 CONST [] int32 5\n"
      "5 FUNCTION [3, 4]\n"
      "6 GETTUPLE [5] index=0\n"
      "7 GETTUPLE [5] index=1\n"
      "8 TUPLE [6, 7]\n");
  const auto once = Inlined(graph, 6);
  ASSERT_TRUE(once.has_value());
  const auto twice = Inlined(*once, 7);
  ASSERT_TRUE(twice.has_value());
  EXPECT_EQ(PrintGraph(*twice), "0 CONST [] int32 5\n1 NEG [0]\n2 TUPLE [1, 0]\n");
  EXPECT_FALSE(Inlined(graph, 2).has_value());
}

TEST(WeightOf, CountsNodesFirstThenSourcesThenNumbers) {
  const v1::Graph graph = Read("0 CONST [] int32 9\n1 NEG [0]\n2 TUPLE [1, 1]\n");
  EXPECT_LT(WeightOf(Read("0 CONST [] int32 900\n1 TUPLE [0, 0, 0, 0, 0]\n")), WeightOf(graph));
  EXPECT_LT(WeightOf(Read("0 CONST [] int32 900\n1 NEG [0]\n2 TUPLE [1]\n")), WeightOf(graph));
  EXPECT_LT(WeightOf(Read("0 CONST [] int32 8\n1 NEG [0] @\"tag\"\n2 TUPLE [1, 1]\n")), WeightOf(graph));
  EXPECT_LT(WeightOf(graph), WeightOf(Read("0 CONST [] int32 9\n1 NEG [0] @\"tag\"\n2 TUPLE [1, 1]\n")));
}

}  // namespace
}  // namespace kiln::testing
