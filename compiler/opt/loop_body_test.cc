#include "compiler/opt/loop_body.h"

#include <gtest/gtest.h>

#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

class LoopBodyTest : public testing::Test {
 protected:
  UOp* Loop(int64_t size, AxisType type = AxisType::kLoop) {
    return graph_.Make(Op::RANGE, {Idx(graph_, size)}, RangeArg{graph_.NextId(), type});
  }
  UOp* At(uint32_t slot, UOp* index) {
    UOp* param = graph_.Make(Op::PARAM, {ShapeSource(graph_, {4096})}, BufferArg{slot, DType::kFloat32});
    return graph_.Make(Op::INDEX, {param, index});
  }
  UOp* Load(uint32_t slot, UOp* index) { return graph_.Make(Op::LOAD, {At(slot, index)}); }
  UOp* Row(UOp* i, int64_t n, UOp* j) { return Add(graph_, Mul(graph_, i, Idx(graph_, n)), j); }

  Graph graph_;
};

TEST_F(LoopBodyTest, ABodyLeavesOutWhatIsReducedInIt) {
  UOp *i = Loop(8), *k = Loop(16, AxisType::kReduce);
  UOp *matrix = Load(1, Row(i, 16, k)), *vector = Load(2, k), *bias = Load(3, i);
  UOp* sum = graph_.Make(Op::REDUCE, {Mul(graph_, matrix, vector), k}, ReduceArg{Op::ADD, {}});
  UOp* store = graph_.Make(Op::STORE, {At(0, i), Add(graph_, sum, bias)});
  const LoopBody outer = LoopBodyOf(graph_.Make(Op::END, {store, i}), {});
  EXPECT_EQ(outer.ranges, std::vector<UOp*>{i});
  EXPECT_EQ(outer.accesses, (std::vector<UOp*>{bias, store}));
  EXPECT_EQ(MainLoad(outer), bias);
  const LoopBody inner = LoopBodyOf(sum, {i});
  EXPECT_EQ(inner.ranges, std::vector<UOp*>{k});
  EXPECT_EQ(inner.accesses, (std::vector<UOp*>{matrix, vector}));
  EXPECT_EQ(MainLoad(inner), matrix);
}

TEST_F(LoopBodyTest, Iterations) {
  UOp* once = Loop(1);
  EXPECT_EQ(Iterations(Loop(48)), 48);
  EXPECT_EQ(IterationsOfAll({Loop(48), Loop(10), once}), 480);
  EXPECT_EQ(PowerOf2In(Loop(48)), 16);
  EXPECT_EQ(PowerOf2In(Loop(7)), 1);
}

TEST_F(LoopBodyTest, VectorsBeginAtMultiplesIfAllElseMovesBySuch) {
  UOp *i = Loop(8), *j = Loop(16);
  EXPECT_TRUE(BeginsAtMultiples(Load(1, Row(i, 16, j)), j, 4));
  EXPECT_FALSE(BeginsAtMultiples(Load(1, Row(i, 18, j)), j, 4));
  EXPECT_TRUE(BeginsAtMultiples(Load(1, Row(i, 18, j)), j, 2));
  EXPECT_FALSE(BeginsAtMultiples(Load(1, Add(graph_, Row(i, 16, j), Idx(graph_, 1))), j, 4));
  EXPECT_TRUE(BeginsAtMultiples(Load(1, i), j, 4));
}

}  // namespace
}  // namespace kiln::compiler
