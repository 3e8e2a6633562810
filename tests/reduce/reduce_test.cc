#include "tests/reduce/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "base/graph/graph_text.h"
#include "compiler/import/wire.h"
#include "tests/fuzz/random_graph.h"

namespace kiln::testing {
namespace {

v1::Graph Read(const std::string& text) {
  const auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *graph;
}

// Every candidate is a graph in order, whose text reads back as itself.
void ExpectWellFormed(const v1::Graph& graph) {
  EXPECT_TRUE(IsOrdered(graph));
  const std::string text = PrintGraph(graph);
  const auto again = ParseGraph(text);
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
  EXPECT_EQ(again->DebugString(), graph.DebugString()) << text;
  EXPECT_EQ(OnlyReached(graph).nodes_size(), graph.nodes_size()) << text;
}

bool IsLegal(const v1::Graph& graph) {
  compiler::Graph nodes;
  return compiler::FromWire(graph, compiler::Limits(), nodes).ok();
}

// The smallest legal graph that has `property`, as text.
std::string Smallest(const v1::Graph& graph, const Property& property) {
  const auto asked = [&](const v1::Graph& candidate) {
    if (&candidate != &graph) ExpectWellFormed(candidate);
    return IsLegal(candidate) && property(candidate);
  };
  const Reduction reduction = Reduce(graph, asked, DeriveTypes, nullptr);
  EXPECT_TRUE(reduction.held);
  EXPECT_TRUE(asked(reduction.graph));
  return PrintGraph(reduction.graph);
}

bool Has(const v1::Graph& graph, v1::Op op) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const v1::UOp& node) { return node.op() == op; });
}

constexpr char kModel[] =
    "0 CONST [] weakint 32\n"
    "1 CONST [] weakint 8\n"
    "2 STACK [0, 1]\n"
    "3 PARAM [2] slot=4 dtype=float32 name=\"x\"\n"
    "4 PARAM [2] slot=9 dtype=float32 name=\"w\"\n"
    "5 MUL [3, 4] @\"product\"\n"
    "6 EXP2 [5]\n"
    "7 REDUCE [6] MAX axes=(0, 1)\n"
    "8 CONST [] float32 2.5\n"
    "9 ADD [7, 8]\n"
    "10 SIN [5]\n"
    "11 CONST [] weakint 256\n"
    "12 STACK [11]\n"
    "13 RESHAPE [10, 12]\n"
    "14 TUPLE [9, 13, 6]\n";

TEST(Reduce, KeepsTheOneOpThatMatters) {
  EXPECT_EQ(Smallest(Read(kModel), [](const v1::Graph& graph) { return Has(graph, v1::SIN); }),
            "0 CONST [] float32 0.0\n"
            "1 SIN [0]\n");
}

TEST(Reduce, LowersSizesThatHangTogether) {
  // 32 * 8 = 256 shrinks as a whole, or the RESHAPE would be none.
  const auto property = [](const v1::Graph& graph) {
    if (!Has(graph, v1::PARAM) || !Has(graph, v1::RESHAPE)) return false;
    const auto types = DeriveTypes(graph);
    for (int i = 0; i < graph.nodes_size(); ++i) {
      int64_t count = 1;
      for (int64_t size : types[i].shape) count *= size;
      if (graph.nodes(i).op() == v1::RESHAPE && count > 20) return true;
    }
    return false;
  };
  EXPECT_EQ(Smallest(Read(kModel), property),
            "0 CONST [] weakint 21\n"
            "1 PARAM [0] slot=0 dtype=float32\n"
            "2 RESHAPE [1, 0]\n");
}

TEST(Reduce, TakesFunctionsApart) {
  const v1::Graph graph = Read(
      "0 STACK []\n"
      "1 PARAM [0] slot=0 dtype=float32\n"
      "2 PARAM [0] slot=1 dtype=float32\n"
      "3 ADD [1, 2]\n"
      "4 SQRT [3]\n"
      "5 TUPLE [3, 4]\n"
      "6 FUNCTION [5, 2, 1]\n"
      "7 GETTUPLE [6] index=1\n"
      "8 NEG [7]\n"
      "9 TUPLE [8, 1]\n");
  EXPECT_EQ(Smallest(graph, [](const v1::Graph& graph) { return Has(graph, v1::SQRT) && Has(graph, v1::NEG); }),
            "0 CONST [] float32 0.0\n"
            "1 SQRT [0]\n"
            "2 NEG [1]\n");
}

TEST(Reduce, TakesEntriesOutOfAProgram) {
  const v1::Graph graph = Read(
      "0 CONST [] int32 64\n"
      "1 STACK [0]\n"
      "2 PARAM [1] slot=3 dtype=int32\n"
      "3 PARAM [1] slot=5 dtype=int32\n"
      "4 RANGE [0] range=(0) type=LOOP\n"
      "5 INDEX [2, 4]\n"
      "6 LOAD [5]\n"
      "7 CONST [] int32 3\n"
      "8 MUL [6, 7]\n"
      "9 CDIV [8, 6]\n"
      "10 INDEX [3, 4]\n"
      "11 STORE [10, 9]\n"
      "12 STORE [5, 8]\n"
      "13 END [12, 4]\n"
      "14 LINEAR [0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13] kernel name=\"p\"\n");
  const std::string small = Smallest(graph, [](const v1::Graph& graph) {
    return Has(graph, v1::LINEAR) && Has(graph, v1::CDIV) && Has(graph, v1::STORE);
  });
  const v1::Graph left = Read(small);
  EXPECT_LE(left.nodes_size(), 8) << small;
  EXPECT_FALSE(Has(left, v1::RANGE)) << small;
  EXPECT_FALSE(Has(left, v1::MUL)) << small;
}

TEST(Reduce, GivesTheSameEveryTime) {
  const v1::Graph graph = OnlyReached(MakeRandomGraph(7).graph);
  const auto property = [](const v1::Graph& graph) { return Has(graph, v1::TUPLE) && graph.nodes_size() > 4; };
  EXPECT_EQ(Smallest(graph, property), Smallest(graph, property));
}

TEST(Reduce, DoesNothingWhereThePropertyDoesNotHold) {
  const v1::Graph graph = Read(kModel);
  const Reduction reduction = Reduce(graph, [](const v1::Graph&) { return false; }, DeriveTypes, nullptr);
  EXPECT_FALSE(reduction.held);
  EXPECT_EQ(reduction.asked, 1);
  EXPECT_EQ(PrintGraph(reduction.graph), PrintGraph(graph));
}

// Of random graphs, whatever op is asked for: nothing is left but it, and what it needs.
TEST(Reduce, ShrinksRandomGraphsToAHandful) {
  int reduced = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const v1::Graph graph = OnlyReached(MakeRandomGraph(seed).graph);
    for (v1::Op op : {v1::REDUCE, v1::PAD, v1::WHERE, v1::STORE}) {
      if (!Has(graph, op)) continue;
      ++reduced;
      const std::string small = Smallest(graph, [&](const v1::Graph& candidate) { return Has(candidate, op); });
      EXPECT_LE(Read(small).nodes_size(), 6) << "seed " << seed << ", " << v1::Op_Name(op) << "\n" << small;
    }
  }
  EXPECT_GT(reduced, 10);
}

}  // namespace
}  // namespace kiln::testing
