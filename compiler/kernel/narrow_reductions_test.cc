#include "compiler/kernel/narrow_reductions.h"

#include <gtest/gtest.h>

#include <limits>

#include "compiler/ir/build.h"
#include "compiler/kernel/expand.h"

namespace kiln::compiler {
namespace {

// out[y] = the fold over k < 3 of a value that reads image[y + k - 1] inside the image, of 7 rows.
class NarrowReductionsTest : public testing::Test {
 protected:
  UOp* Param(uint32_t slot, int64_t size) {
    return graph_.Make(Op::PARAM, {ShapeSource(graph_, {size})}, BufferArg{slot, DType::kFloat32});
  }
  UOp* Range(int64_t size, int64_t id, AxisType type) {
    return graph_.Make(Op::RANGE, {Idx(graph_, size)}, RangeArg{id, type});
  }
  UOp* Image(double outside) {
    UOp* row = Add(graph_, y_, k_);
    UOp* inside = And(graph_, Not(graph_, Lt(graph_, row, Idx(graph_, 1))), Lt(graph_, row, Idx(graph_, 8)));
    UOp* place = graph_.Make(Op::INDEX, {Param(1, 7), Add(graph_, row, Idx(graph_, -1))});
    return graph_.Make(Op::LOAD, {place, ConstNumber(graph_, DType::kFloat32, outside), inside});
  }
  UOp* Weight() { return graph_.Make(Op::LOAD, {graph_.Make(Op::INDEX, {Param(2, 3), k_})}); }
  UOp* Reduce(Op fold, UOp* value) { return graph_.Make(Op::REDUCE, {value, k_}, ReduceArg{fold, {}}); }
  UOp* Kernel(UOp* value) {
    UOp* store = graph_.Make(Op::STORE, {graph_.Make(Op::INDEX, {Param(0, 7), y_}), value});
    return graph_.Make(Op::SINK, {graph_.Make(Op::END, {store, y_})});
  }
  static UOp* ReduceIn(UOp* kernel) { return kernel->src(0)->src(0)->src(1); }

  Graph graph_;
  UOp* y_ = Range(7, 0, AxisType::kLoop);
  UOp* k_ = Range(3, 1, AxisType::kReduce);
};

TEST_F(NarrowReductionsTest, TheLoopGoesNotBeyondTheImage) {
  UOp* reduce = ReduceIn(NarrowReductions(graph_, Kernel(Reduce(Op::ADD, Mul(graph_, Image(0), Weight())))));
  ASSERT_EQ(reduce->op(), Op::REDUCE);
  EXPECT_EQ(reduce->src(1)->src(0)->bounds().min, 1);
  EXPECT_EQ(reduce->src(1)->src(0)->bounds().max, 3);
  for (UOp* uop : Toposort(reduce)) {
    if (uop->op() == Op::LOAD) {
      EXPECT_EQ(uop->src().size(), 1u) << "the gate is known to hold";
    }
  }
}

TEST_F(NarrowReductionsTest, WhatIsFoldedMustBeNeutralOutside) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  UOp* lowest = Kernel(Reduce(Op::MAX, Image(-kInfinity)));
  EXPECT_NE(NarrowReductions(graph_, lowest), lowest);
  UOp* zero = Kernel(Reduce(Op::MAX, Image(0)));
  EXPECT_EQ(NarrowReductions(graph_, zero), zero);
  UOp* one = Kernel(Reduce(Op::ADD, Mul(graph_, Image(1), Weight())));
  EXPECT_EQ(NarrowReductions(graph_, one), one);
}

TEST_F(NarrowReductionsTest, LanesDoNotEndEarlier) {
  y_ = Range(7, kLaneIds, AxisType::kUpcast);
  UOp* kernel = Kernel(Reduce(Op::ADD, Mul(graph_, Image(0), Weight())));
  EXPECT_EQ(NarrowReductions(graph_, kernel), kernel);
}

TEST_F(NarrowReductionsTest, ALoopOfTwoReductionsStays) {
  UOp* kernel = Kernel(Add(graph_, Reduce(Op::ADD, Mul(graph_, Image(0), Weight())), Reduce(Op::ADD, Weight())));
  EXPECT_EQ(NarrowReductions(graph_, kernel), kernel);
}

}  // namespace
}  // namespace kiln::compiler
