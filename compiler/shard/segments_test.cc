// What becomes of graphs on two devices: which segments there are, and what moves
// between them.
#include "compiler/shard/segments.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/import/wire.h"
#include "compiler/shard/levels.h"
#include "compiler/shard/shard_text.h"
#include "compiler/shard/shares.h"

namespace kiln::compiler {
namespace {

// x: slot 0, float32 (4, 6), split over A and B; w: slot 1, float32 (2, 6), a row for each.
constexpr char kInputs[] =
    "0 CONST [] weakint 4\n1 CONST [] weakint 6\n2 CONST [] weakint 2\n3 STACK [0, 1]\n4 STACK [2, 1]\n"
    "5 PARAM [3] slot=0 dtype=float32 device=(\"A\", \"B\")\n"
    "6 PARAM [4] slot=1 dtype=float32 device=(\"A\", \"B\")\n";

absl::StatusOr<std::string> CutText(absl::string_view nodes) {
  auto wire = ParseGraph(absl::StrCat(kInputs, nodes));
  EXPECT_TRUE(wire.ok()) << wire.status();
  Graph graph;
  KILN_ASSIGN_OR_RETURN(UOp * root, FromWire(*wire, Limits(), graph));
  KILN_ASSIGN_OR_RETURN(const Shares shares, TakeShares(graph, root));
  Levels levels(shares);
  KILN_RETURN_IF_ERROR(levels.Settle(graph));
  return ShardText(shares, CutSegments(graph, shares, levels));
}

void ExpectText(absl::string_view nodes, absl::string_view wanted) {
  const auto text = CutText(nodes);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, wanted) << *text;
}

TEST(Segments, WhatStaysWhereItIsIsOneSegment) {
  ExpectText("7 ADD [5, 5]\n8 TUPLE [7]\n", R"(segment on A,B
0 CONST : weakint [] 2
1 CONST : weakint [] 6
2 STACK : weakint [0, 1]  # (2,)
3 PARAM : float32 [2] slot=0 space=GLOBAL  # (2, 6)
4 ADD : float32 [3, 3]  # (2, 6)
5 TUPLE : void [4]
)");
}

// Each STORE of a chain sees what the one before it left, and none moves anything.
TEST(Segments, AChainOfStoresIsOneSegment) {
  constexpr int kLinks = 1000;
  std::string nodes;
  int shown = 5;
  for (int i = 0; i < kLinks; ++i) {
    const int store = 7 + 2 * i;
    absl::StrAppend(&nodes, store, " STORE [", shown, ", 5]\n", store + 1, " AFTER [", shown, ", ", store, "]\n");
    shown = store + 1;
  }
  absl::StrAppend(&nodes, shown + 1, " TUPLE [", shown, "]\n");
  const auto text = CutText(nodes);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->rfind("segment on A,B\n", 0), 0u);
  EXPECT_EQ(text->find("segment", 1), std::string::npos);
  EXPECT_EQ(text->find("transfer"), std::string::npos);
}

// The sum of x by columns on every device, and what comes of it with x: two levels.
TEST(Segments, AReduceAlongTheSplitAxisIsATransferOfParts) {
  ExpectText("7 REDUCE [5] ADD axes=(0)\n8 MUL [5, 7]\n9 TUPLE [8]\n", R"(segment on A,B
0 CONST : weakint [] 2
1 CONST : weakint [] 6
2 STACK : weakint [0, 1]  # (2,)
3 PARAM : float32 [2] slot=0 space=GLOBAL  # (2, 6)
4 REDUCE : float32 [3] ADD axes=(0)  # (1, 6)
5 TUPLE : void [4]
transfer to slot 65536: (1, 6) ADD of parts on A,B -> whole on A,B
segment on A,B
0 CONST : weakint [] 2
1 CONST : weakint [] 6
2 STACK : weakint [0, 1]  # (2,)
3 PARAM : float32 [2] slot=0 space=GLOBAL  # (2, 6)
4 CONST : weakint [] 1
5 STACK : weakint [4, 1]  # (2,)
6 PARAM : float32 [5] slot=65536 space=GLOBAL  # (1, 6)
7 MUL : float32 [3, 6]  # (2, 6)
8 TUPLE : void [7]
)");
}

// w, a row for each device, minus what the devices' parts of x come to.
TEST(Segments, AStepOfTrainingReducesOnce) {
  ExpectText(
      "7 REPLICATED [6] index=0\n8 MUL [5, 7]\n9 REDUCE [8] ADD axes=(0)\n10 RESHAPE [9] axes=(1, 6)\n"
      "11 EXPAND [10] axes=(2, 6)\n12 ADD [6, 11]\n13 STORE [6, 12]\n14 AFTER [6, 13]\n15 TUPLE [14]\n",
      R"(segment on A,B
 0 CONST : weakint [] 2
 1 CONST : weakint [] 6
 2 STACK : weakint [0, 1]  # (2,)
 3 PARAM : float32 [2] slot=0 space=GLOBAL  # (2, 6)
 4 CONST : weakint [] 1
 5 STACK : weakint [4, 1]  # (2,)
 6 PARAM : float32 [5] slot=1 space=GLOBAL  # (1, 6)
 7 STACK : weakint [1]  # (1,)
 8 RESHAPE : float32 [6, 7]  # (6,)
 9 MUL : float32 [3, 8]  # (2, 6)
10 REDUCE : float32 [9] ADD axes=(0)  # (1, 6)
11 TUPLE : void [10]
transfer to slot 65536: (1, 6) ADD of parts on A,B -> whole on A,B
segment on A,B
0 CONST : weakint [] 1
1 CONST : weakint [] 6
2 STACK : weakint [0, 1]  # (2,)
3 PARAM : float32 [2] slot=1 space=GLOBAL  # (1, 6)
4 PARAM : float32 [2] slot=65536 space=GLOBAL  # (1, 6)
5 RESHAPE : float32 [4, 2]  # (1, 6)
6 ADD : float32 [3, 5]  # (1, 6)
7 STORE : void [3, 6]
8 TUPLE : void [7]
)");
}

}  // namespace
}  // namespace kiln::compiler
