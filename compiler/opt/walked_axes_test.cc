#include "compiler/opt/walked_axes.h"

#include <gtest/gtest.h>

#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

class WalkedAxesTest : public testing::Test {
 protected:
  UOp* Range(int64_t size) {
    return graph_.Make(Op::RANGE, {Idx(graph_, size)}, RangeArg{graph_.NextId(), AxisType::kLoop});
  }
  UOp* Times(UOp* x, int64_t n) { return Mul(graph_, x, Idx(graph_, n)); }
  UOp* Plus(UOp* a, UOp* b) { return Add(graph_, a, b); }
  UOp* Load(UOp* index, UOp* gate = nullptr) {
    UOp* param = graph_.Make(Op::PARAM, {ShapeSource(graph_, {int64_t{1} << 20})}, BufferArg{1, DType::kFloat32});
    std::vector<UOp*> src = {graph_.Make(Op::INDEX, {param, index})};
    if (gate != nullptr) src.insert(src.end(), {ConstNumber(graph_, DType::kFloat32, 0), gate});
    return graph_.Make(Op::LOAD, src);
  }

  Graph graph_;
};

TEST_F(WalkedAxesTest, LoopsOfAMatrixAreTwoAxes) {
  UOp *i = Range(5), *k = Range(8);
  const std::vector<WalkedAxis> axes = WalkedAxes(Load(Plus(Times(i, 100), k)), {i, k});
  ASSERT_EQ(axes.size(), 2u);
  EXPECT_EQ(axes[0].unit(), i);
  EXPECT_EQ(axes[0].extent, 5);
  EXPECT_EQ(axes[0].stride, 100);
  EXPECT_EQ(axes[1].unit(), k);
  EXPECT_EQ(axes[1].extent, 8);
  EXPECT_EQ(axes[1].stride, 1);
}

TEST_F(WalkedAxesTest, NeighboursAreOneAxis) {
  UOp *channel = Range(4), *y = Range(3), *x = Range(3);
  const std::vector<WalkedAxis> axes = WalkedAxes(Load(Plus(Times(channel, 9), Plus(Times(y, 3), x))), {channel, y, x});
  ASSERT_EQ(axes.size(), 1u);
  EXPECT_EQ(axes[0].unit(), x);
  EXPECT_EQ(axes[0].extent, 36);
}

TEST_F(WalkedAxesTest, AKernelOverlapsItself) {
  UOp *column = Range(14), *x = Range(3), *y = Range(3);
  // Every other column, of rows of 40.
  const std::vector<WalkedAxis> axes = WalkedAxes(Load(Plus(Times(y, 40), Plus(Times(column, 2), x))), {column, y, x});
  ASSERT_EQ(axes.size(), 2u);
  EXPECT_EQ(axes[0].unit(), y);
  EXPECT_EQ(axes[1].unit(), x);
  EXPECT_EQ(axes[1].extent, 2 * 13 + 2 + 1);
  ASSERT_EQ(axes[1].parts.size(), 2u);
  EXPECT_EQ(axes[1].parts[1].range, column);
  EXPECT_EQ(axes[1].parts[1].step, 2);
}

TEST_F(WalkedAxesTest, WhatAloneIsStridedIsDenseInACopy) {
  UOp *outer = Range(7), *inner = Range(4);
  const std::vector<WalkedAxis> axes = WalkedAxes(Load(Plus(Times(outer, 8), Times(inner, 2))), {outer, inner});
  ASSERT_EQ(axes.size(), 1u);
  EXPECT_EQ(axes[0].unit(), inner);
  EXPECT_EQ(axes[0].extent, 28);
  EXPECT_EQ(axes[0].stride, 2);
}

TEST_F(WalkedAxesTest, AGateKeepsRowsApart) {
  // Rows of 3 follow each other, but of each only two places count.
  UOp *y = Range(4), *x = Range(3);
  const std::vector<WalkedAxis> axes = WalkedAxes(Load(Plus(Times(y, 3), x), Lt(graph_, x, Idx(graph_, 2))), {y, x});
  EXPECT_EQ(axes.size(), 2u);
}

TEST_F(WalkedAxesTest, PlacesBetweenStepsAreNotCopied) {
  UOp *i = Range(4), *j = Range(2);
  EXPECT_EQ(WalkedAxes(Load(Plus(Times(i, 3), j)), {i, j}).size(), 2u);
}

}  // namespace
}  // namespace kiln::compiler
