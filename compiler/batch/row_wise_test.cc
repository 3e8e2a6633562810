#include "compiler/batch/row_wise.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/graph/graph_text.h"
#include "compiler/pass/pipeline.h"

namespace kiln::compiler {
namespace {

// Nodes every graph below begins with: x (n, 4), w (4, 8), ids (n,).
constexpr char kHead[] = R"(
  0 STACK []
  1 PARAM [0] slot=9 dtype=int32 space=ALU name="n" min=1 max=64
  2 CONST [] weakint 4
  3 CONST [] weakint 8
  4 CONST [] weakint 1
  5 STACK [1, 2]
  6 PARAM [5] slot=0 dtype=float32 name="x"
  7 STACK [2, 3]
  8 PARAM [7] slot=1 dtype=float32 name="w"
  9 PARAM [1] slot=2 dtype=int32 name="ids"
  10 CONST [] weakint 0
  11 CONST [] float32 2.0
)";

class RowWiseTest : public testing::Test {
 protected:
  // Of `text` behind kHead.
  const RowWise& Prove(absl::string_view text, absl::string_view variable = "n") {
    const auto parsed = ParseGraph(absl::StrCat(kHead, text));
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    wire_ = *parsed;
    lowering_.wire = &wire_;
    UOp* root = nullptr;
    for (const Stage stage : {Stage::kImport, Stage::kCallify, Stage::kRangeify}) {
      const auto next = RunStage(lowering_, stage, root);
      EXPECT_TRUE(next.ok()) << next.status();
      root = *next;
    }
    for (UOp* found : lowering_.function.variables) {
      if (found->arg_as<BufferArg>().name == variable)
        proof_ = ProveRowWise(graph_, lowering_.function, root, found, left_, &used_);
    }
    return proof_;
  }

  void Accepts(absl::string_view text) {
    const RowWise& proof = Prove(text);
    EXPECT_FALSE(proof.obstacle.has_value()) << proof.obstacle->text;
  }
  void Denies(Forbids why, absl::string_view text) {
    const RowWise& proof = Prove(text);
    ASSERT_TRUE(proof.obstacle.has_value());
    EXPECT_EQ(proof.obstacle->why, why) << proof.obstacle->text;
    EXPECT_TRUE(proof.parameters.empty() && proof.results.empty());
  }

  v1::Graph wire_;
  Options options_;
  Graph graph_;
  Lowering lowering_{graph_, options_};
  size_t left_ = kMaxNodesLookedAt;
  RowWise proof_;
  std::vector<RowEquation> used_;
};

TEST_F(RowWiseTest, ARowTimesASharedMatrix) {
  // y = x @ w, as (n, 4, 1) * (1, 4, 8), summed over the axis of 4.
  Accepts(R"(
    12 STACK [1, 2, 4]
    13 RESHAPE [6, 12]
    14 STACK [4, 2, 3]
    15 RESHAPE [8, 14]
    16 MUL [13, 15]
    17 REDUCE [16] ADD axes=(1)
    18 STACK [1, 3]
    19 RESHAPE [17, 18]
    20 TUPLE [19])");
  ASSERT_EQ(proof_.parameters.size(), 2u);
  EXPECT_TRUE(proof_.parameters[0].varying);
  EXPECT_EQ(proof_.parameters[0].each, 1);
  EXPECT_FALSE(proof_.parameters[1].varying);
  ASSERT_EQ(proof_.results.size(), 1u);
  EXPECT_TRUE(proof_.results[0].varying);
  ASSERT_EQ(used_.size(), 1u);
  EXPECT_TRUE(used_[0].stride->IsConstInt(4));
}

TEST_F(RowWiseTest, ALeadingSizeMayBeAMultiple) {
  Accepts(R"(
    12 CONST [] weakint 2
    13 MUL [1, 12]
    14 STACK [13, 12]
    15 RESHAPE [6, 14]
    16 MUL [15, 11]
    17 TUPLE [16])");
  EXPECT_EQ(proof_.parameters[0].each, 1);
  EXPECT_EQ(proof_.results[0].each, 2);
}

TEST_F(RowWiseTest, WhatDependsOnNoRowIsShared) {
  Accepts("12 MUL [8, 11]\n13 MUL [6, 11]\n14 TUPLE [12, 13]");
  EXPECT_FALSE(proof_.results[0].varying);
  EXPECT_TRUE(proof_.results[1].varying);
}

TEST_F(RowWiseTest, ARowMayLookIntoWhatIsShared) { Accepts("12 INDEX [8, 9]\n13 TUPLE [12]"); }

TEST_F(RowWiseTest, AGateMayKeepAnIndexInItsRow) {
  // One more on both sides of each row: x[i, j - 1] where 1 <= j < 5.
  Accepts(R"(
    12 CONST [] weakint 6
    13 STACK [10, 4]
    14 STACK [1, 12]
    15 PAD [6, 13, 14] fill=float32 0.0
    16 TUPLE [15])");
  ASSERT_EQ(used_.size(), 1u);
  EXPECT_NE(used_[0].gate, nullptr);
}

TEST_F(RowWiseTest, NoMoreNodesThanAreLookedAt) {
  left_ = 3;
  Denies(Forbids::kTooLarge, "12 MUL [6, 11]\n13 TUPLE [12]");
  EXPECT_EQ(proof_.obstacle->text, "kernel 0 (map_nx4): not looked at: the program is too large");
  EXPECT_EQ(left_, 3u);
}

TEST_F(RowWiseTest, NoSumOverRows) {
  Denies(Forbids::kReducesRows, "12 REDUCE [6] ADD axes=(0)\n13 TUPLE [12]");
  EXPECT_EQ(proof_.obstacle->text, "kernel 0 (sum_4_over_n), REDUCE: a reduction runs over rows");
  EXPECT_EQ(proof_.obstacle->node->op(), Op::REDUCE);
}

TEST_F(RowWiseTest, NoSumOverRowsThatComesBackToEach) {
  Denies(Forbids::kReducesRows, "12 REDUCE [6] MAX axes=(0)\n13 SUB [6, 12]\n14 TUPLE [13]");
}

TEST_F(RowWiseTest, NoTransposedResult) {
  Denies(Forbids::kShape, "12 PERMUTE [6] axes=(1, 0)\n13 TUPLE [12]");
  EXPECT_EQ(proof_.obstacle->text.substr(0, 18), "result 0 (4, n): a");
}

TEST_F(RowWiseTest, NoOtherRow) {
  Denies(Forbids::kOtherRow, "12 FLIP [6] flip=(1, 0)\n13 TUPLE [12]");
  EXPECT_EQ(proof_.obstacle->text, "kernel 0 (map_nx4), LOAD: a row reads elements of another");
}

TEST_F(RowWiseTest, NoRowThatAnotherRowNames) { Denies(Forbids::kOtherRow, "12 INDEX [6, 9]\n13 TUPLE [12]"); }

TEST_F(RowWiseTest, NoSizeOfOtherThanRows) {
  Denies(Forbids::kShape, R"(
    12 ADD [1, 4]
    13 STACK [10, 10]
    14 STACK [12, 2]
    15 PAD [6, 13, 14] fill=float32 0.0
    16 TUPLE [15])");
}

TEST_F(RowWiseTest, NoSingleRow) { Denies(Forbids::kMadeOfRows, "12 INDEX [6, 10]\n13 TUPLE [12]"); }

TEST_F(RowWiseTest, NoNumberOfRows) {
  Denies(Forbids::kVariable, "12 CAST [1] to=float32\n13 MUL [6, 12]\n14 TUPLE [13]");
  Denies(Forbids::kVariable, "12 CAST [1] to=float32\n13 MUL [11, 12]\n14 TUPLE [13]");
}

TEST_F(RowWiseTest, NoNeighbourOfTheRowsLastElement) {
  // All elements in one line, moved by one.
  Denies(Forbids::kLeavesRow, R"(
    12 MUL [1, 2]
    13 STACK [12]
    14 RESHAPE [6, 13]
    15 ADD [12, 4]
    16 STACK [15]
    17 PAD [14, 10, 16] fill=float32 0.0
    18 SHRINK [17, 4, 13]
    19 RESHAPE [18, 5]
    20 TUPLE [19])");
}

TEST_F(RowWiseTest, NoUpdateInPlace) {
  Denies(Forbids::kUpdates, "12 MUL [8, 11]\n13 STORE [8, 12]\n14 AFTER [8, 13]\n15 TUPLE [14, 6]");
  EXPECT_EQ(proof_.obstacle->text, "parameter 1 \"w\" (4, 8): an update in place");
}

TEST_F(RowWiseTest, TheOtherVariableIsNoBatchSize) {
  constexpr char kTwo[] = R"(
    12 PARAM [0] slot=10 dtype=int32 space=ALU name="t" min=1 max=16
    13 STACK [1, 12]
    14 PARAM [13] slot=3 dtype=float32
    15 MUL [14, 11]
    16 TUPLE [15])";
  EXPECT_FALSE(Prove(kTwo).obstacle.has_value());
  const RowWise& other = Prove(kTwo, "t");
  ASSERT_TRUE(other.obstacle.has_value());
  EXPECT_EQ(other.obstacle->why, Forbids::kShape);
}

TEST_F(RowWiseTest, SizesOfTwoVariablesDoNotMix) {
  Denies(Forbids::kShape, R"(
    12 PARAM [0] slot=10 dtype=int32 space=ALU name="t" min=1 max=16
    13 STACK [1, 12]
    14 PARAM [13] slot=3 dtype=float32
    15 STACK [12, 1]
    16 RESHAPE [14, 15]
    17 TUPLE [16])");
}

}  // namespace
}  // namespace kiln::compiler
