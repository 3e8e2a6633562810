#include "compiler/batch/kernel_rows.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "compiler/ir/build.h"
#include "compiler/testing/read_text.h"

namespace kiln::compiler {
namespace {

// Nodes every kernel below begins with: y and x of n rows of 4, w of 4, and loops over rows and columns.
constexpr char kHead[] = R"(
  0 STACK []
  1 PARAM [0] slot=9 dtype=int64 space=ALU name="n" min=1 max=64
  2 CONST [] weakint 4
  3 MUL [1, 2]
  4 PARAM [3] slot=0 dtype=float32
  5 PARAM [3] slot=1 dtype=float32
  6 PARAM [2] slot=2 dtype=float32
  7 RANGE [1] range=(0) type=LOOP
  8 RANGE [2] range=(1) type=LOOP
  9 CONST [] int64 4
  10 MUL [7, 9]
  11 ADD [10, 8]
  12 INDEX [4, 11]
  13 INDEX [5, 11]
  14 LOAD [13]
)";

class KernelRowsTest : public testing::Test {
 protected:
  std::optional<Forbids> Fault(absl::string_view text) {
    UOp* kernel = ReadText(graph_, absl::StrCat(kHead, text));
    UOp* variable = nullptr;
    for (UOp* uop : Toposort(kernel)) {
      if (uop->IsVariable()) variable = uop;
    }
    const std::optional<RowFault> fault = FaultOfKernel(graph_, kernel, variable, &used_);
    if (!fault.has_value()) return std::nullopt;
    EXPECT_NE(fault->node, nullptr);
    EXPECT_NE(Words(fault->why), "");
    return fault->why;
  }

  Graph graph_;
  std::vector<RowEquation> used_;
};

TEST_F(KernelRowsTest, DependentsAreFoundThroughSharedNodes) {
  UOp* leaf = ReadText(graph_, "0 STACK []\n1 PARAM [0] slot=9 dtype=int64 space=ALU name=\"n\" min=1 max=64");
  UOp* other = graph_.Make(Op::RANGE, {ConstInt(graph_, DType::kInt64, 4)}, RangeArg{graph_.NextId(), AxisType::kLoop});
  UOp* doubled = leaf;
  UOp* apart = other;
  for (int i = 0; i < 1000; ++i) {
    doubled = graph_.Make(Op::XOR, {doubled, doubled});
    apart = graph_.Make(Op::XOR, {apart, apart});
  }
  Dependents dependents(leaf);
  EXPECT_TRUE(dependents.Contain(doubled));
  EXPECT_TRUE(dependents.Contain(leaf));
  EXPECT_FALSE(dependents.Contain(apart));
  EXPECT_FALSE(dependents.Contain(Dim(5)));
  EXPECT_TRUE(dependents.Contain(Dim(leaf, 1, 64)));
}

TEST_F(KernelRowsTest, ACopyReadsItsOwnRow) {
  EXPECT_EQ(Fault("15 STORE [12, 14]\n16 END [15, 7, 8]\n17 SINK [16]"), std::nullopt);
  ASSERT_EQ(used_.size(), 1u);
  EXPECT_TRUE(used_[0].stride->IsConstInt(4));
  EXPECT_EQ(used_[0].row->op(), Op::RANGE);
  EXPECT_EQ(used_[0].gate, nullptr);
}

TEST_F(KernelRowsTest, WhatIsStoredMustBeWhole) {
  // With a gate; columns before rows; with a loop that says nothing of the place; one element of each row alone.
  EXPECT_EQ(Fault("15 CONST [] int64 2\n16 CMPLT [8, 15]\n17 STORE [12, 14, 16]\n18 END [17, 7, 8]\n19 SINK [18]"),
            Forbids::kUnknown);
  EXPECT_EQ(
      Fault("15 MUL [8, 1]\n16 ADD [15, 7]\n17 INDEX [4, 16]\n18 STORE [17, 14]\n19 END [18, 8, 7]\n20 SINK [19]"),
      Forbids::kOrder);
  EXPECT_EQ(Fault("15 INDEX [4, 10]\n16 STORE [15, 14]\n17 END [16, 7, 8]\n18 SINK [17]"), Forbids::kOrder);
  EXPECT_EQ(Fault("15 INDEX [5, 10]\n16 LOAD [15]\n17 INDEX [4, 10]\n18 STORE [17, 16]\n19 END [18, 7]\n20 SINK [19]"),
            Forbids::kOrder);
}

TEST_F(KernelRowsTest, WhatIsStoredMustNotBeRead) {
  EXPECT_EQ(Fault("15 LOAD [12]\n16 STORE [12, 15]\n17 END [16, 7, 8]\n18 SINK [17]"), Forbids::kUpdates);
}

TEST_F(KernelRowsTest, TheNextRowIsNotItsOwn) {
  // x[4 i + j + 4] and x[4 i + j + 1]: one is never in row i, the other not always.
  for (const char* away : {"4", "1"}) {
    EXPECT_EQ(Fault(absl::StrCat("15 CONST [] int64 ", away,
                                 "\n16 ADD [11, 15]\n17 INDEX [5, 16]\n18 LOAD [17]\n19 STORE [12, 18]\n"
                                 "20 END [19, 7, 8]\n21 SINK [20]")),
              Forbids::kLeavesRow);
  }
}

TEST_F(KernelRowsTest, AnotherStrideIsNotItsOwn) {
  EXPECT_EQ(Fault("15 ADD [7, 8]\n16 INDEX [5, 15]\n17 LOAD [16]\n18 STORE [12, 17]\n19 END [18, 7, 8]\n20 SINK [19]"),
            Forbids::kOtherRow);
}

TEST_F(KernelRowsTest, WhatIsSharedIsReadByColumns) {
  EXPECT_EQ(Fault("15 INDEX [6, 8]\n16 LOAD [15]\n17 ADD [14, 16]\n18 STORE [12, 17]\n19 END [18, 7, 8]\n20 SINK [19]"),
            std::nullopt);
  EXPECT_EQ(Fault("15 CONST [] int64 4\n16 FLOORMOD [7, 15]\n17 INDEX [6, 16]\n18 LOAD [17]\n19 ADD [14, 18]\n"
                  "20 STORE [12, 19]\n21 END [20, 7, 8]\n22 SINK [21]"),
            Forbids::kRowNumberInShared);
}

TEST_F(KernelRowsTest, ARowNumberThatCancelsIsNone) {
  EXPECT_EQ(Fault("15 CONST [] int64 -1\n16 MUL [10, 15]\n17 ADD [11, 16]\n18 INDEX [6, 17]\n19 LOAD [18]\n"
                  "20 STORE [12, 19]\n21 END [20, 7, 8]\n22 SINK [21]"),
            std::nullopt);
}

TEST_F(KernelRowsTest, AGateMayNotLookAtTheRow) {
  EXPECT_EQ(Fault("15 CONST [] int64 3\n16 CMPLT [7, 15]\n17 CONST [] float32 0.0\n18 LOAD [13, 17, 16]\n"
                  "19 STORE [12, 18]\n20 END [19, 7, 8]\n21 SINK [20]"),
            Forbids::kRowNumberInGate);
}

}  // namespace
}  // namespace kiln::compiler
