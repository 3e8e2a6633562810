#include "compiler/kernel/simplify_ranges.h"

#include <gtest/gtest.h>

#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

class SimplifyRangesTest : public testing::Test {
 protected:
  UOp* Param(uint32_t slot, int64_t size) {
    return graph_.Make(Op::PARAM, {ShapeSource(graph_, {size})}, BufferArg{slot, DType::kFloat32});
  }
  UOp* Loop(int64_t size, AxisType type) {
    return graph_.Make(Op::RANGE, {Idx(graph_, size)}, RangeArg{graph_.NextId(), type});
  }
  UOp* Load(uint32_t slot, int64_t size, UOp* index) {
    return graph_.Make(Op::LOAD, {graph_.Make(Op::INDEX, {Param(slot, size), index})});
  }
  UOp* Sum(UOp* value, UOp* outer, UOp* inner) {
    return graph_.Make(Op::REDUCE, {value, outer, inner}, ReduceArg{Op::ADD, {}});
  }
  // SINK(STORE(out[0], value)).
  UOp* Kernel(UOp* value) {
    return graph_.Make(Op::SINK,
                       {graph_.Make(Op::STORE, {graph_.Make(Op::INDEX, {Param(0, 1), Idx(graph_, 0)}), value})});
  }
  // The loops of `root`'s first reduction, or of all of them.
  std::vector<size_t> LoopsOfReductions(UOp* root) {
    std::vector<size_t> loops;
    for (UOp* uop : Toposort(root)) {
      if (uop->op() == Op::REDUCE) loops.push_back(uop->src().size() - 1);
    }
    return loops;
  }

  Graph graph_;
};

TEST_F(SimplifyRangesTest, TwoLoopsOverNeighboursAreOne) {
  UOp* i = Loop(8, AxisType::kReduce);
  UOp* j = Loop(4, AxisType::kReduce);
  UOp* flat = Add(graph_, Mul(graph_, i, Idx(graph_, 4)), j);
  EXPECT_EQ(LoopsOfReductions(SimplifyRanges(graph_, Kernel(Sum(Load(1, 32, flat), i, j)))), std::vector<size_t>{1});
}

TEST_F(SimplifyRangesTest, ReductionsThatShareBothLoopsAreMergedTogether) {
  UOp* i = Loop(8, AxisType::kReduce);
  UOp* j = Loop(4, AxisType::kReduce);
  UOp* flat = Add(graph_, Mul(graph_, i, Idx(graph_, 4)), j);
  UOp* both = Add(graph_, Sum(Load(1, 32, flat), i, j), Sum(Load(2, 32, flat), i, j));
  EXPECT_EQ(LoopsOfReductions(SimplifyRanges(graph_, Kernel(both))), (std::vector<size_t>{1, 1}));
}

TEST_F(SimplifyRangesTest, ALoopThatAnotherReductionHasAloneStays) {
  UOp* i = Loop(8, AxisType::kReduce);
  UOp* j = Loop(4, AxisType::kReduce);
  UOp* k = Loop(2, AxisType::kReduce);
  UOp* flat = Add(graph_, Mul(graph_, i, Idx(graph_, 4)), j);
  UOp* other = Add(graph_, i, Mul(graph_, k, Idx(graph_, 8)));
  UOp* kernel = Kernel(Add(graph_, Sum(Load(1, 32, flat), i, j), Sum(Load(2, 16, other), i, k)));
  EXPECT_EQ(LoopsOfReductions(SimplifyRanges(graph_, kernel)), (std::vector<size_t>{2, 2}));
}

}  // namespace
}  // namespace kiln::compiler
