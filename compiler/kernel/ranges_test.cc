#include "compiler/kernel/ranges.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

class CountsApartTest : public testing::Test {
 protected:
  UOp* Variable(uint32_t slot, int64_t min) {
    BufferArg arg;
    arg.slot = slot;
    arg.dtype = DType::kInt32;
    arg.addrspace = AddrSpace::kAlu;
    arg.name = absl::StrCat("n", slot);
    arg.min = min;
    arg.max = 64;
    return Cast(graph_, graph_.Make(Op::PARAM, {ShapeSource(graph_, {})}, arg), kIndexType);
  }
  UOp* Loop(UOp* size) { return graph_.Make(Op::RANGE, {size}, RangeArg{graph_.NextId(), AxisType::kLoop}); }
  UOp* Number(int64_t number) { return Idx(graph_, number); }
  UOp* Times(UOp* a, UOp* b) { return Mul(graph_, a, b); }
  UOp* Sum(UOp* a, UOp* b) { return Add(graph_, a, b); }

  Graph graph_;
  UOp *n_ = Variable(8, 1), *m_ = Variable(9, 1);
  UOp *i_ = Loop(n_), *j_ = Loop(m_), *four_ = Loop(Number(4));
};

TEST_F(CountsApartTest, RowsBesideEachOther) {
  EXPECT_TRUE(CountsApart(Sum(Times(i_, m_), j_), {i_, j_}));
  EXPECT_TRUE(CountsApart(Sum(Times(i_, m_), j_), {j_, i_}));
  EXPECT_TRUE(CountsApart(Sum(Times(i_, Number(4)), four_), {i_, four_}));
  EXPECT_TRUE(CountsApart(Sum(Times(four_, n_), i_), {four_, i_}));
}

TEST_F(CountsApartTest, WithGapsBetween) {
  EXPECT_TRUE(CountsApart(Sum(Times(i_, Number(7)), four_), {i_, four_}));
  EXPECT_TRUE(CountsApart(Sum(Times(Times(i_, m_), Number(3)), j_), {i_, j_}));
}

TEST_F(CountsApartTest, RowsThatOverlap) {
  EXPECT_FALSE(CountsApart(Sum(Times(i_, Number(3)), four_), {i_, four_}));
  EXPECT_FALSE(CountsApart(Sum(Times(i_, n_), j_), {i_, j_}));  // as far apart as there are rows, not as they are long
  EXPECT_FALSE(CountsApart(Sum(i_, j_), {i_, j_}));
}

// As where a window is added to each place of a signal.
TEST_F(CountsApartTest, TwoLoopsByOneStep) {
  UOp* k = Loop(n_);
  EXPECT_FALSE(CountsApart(Sum(Sum(Times(i_, m_), Times(k, m_)), j_), {i_, k, j_}));
}

TEST_F(CountsApartTest, ALoopThatDoesNotMove) { EXPECT_FALSE(CountsApart(Times(i_, m_), {i_, j_})); }

TEST_F(CountsApartTest, ALoopOfOneIterationNeedNot) { EXPECT_TRUE(CountsApart(i_, {i_, Loop(Number(1))})); }

// 2^60 factors, were all of them looked at.
TEST_F(CountsApartTest, APowerOfASizeIsNotProved) {
  UOp* power = m_;
  for (int times = 0; times < 60; ++times) power = Times(power, power);
  EXPECT_FALSE(CountsApart(Times(i_, power), {i_}));
}

// Where there are no columns nothing is stored; a step of 0 is another matter.
TEST_F(CountsApartTest, SizesThatMayBe0) {
  UOp* maybe = Variable(10, 0);
  UOp* k = Loop(maybe);
  EXPECT_TRUE(CountsApart(Sum(Times(i_, maybe), k), {i_, k}));
  EXPECT_FALSE(CountsApart(Times(i_, maybe), {i_}));
}

}  // namespace
}  // namespace kiln::compiler
