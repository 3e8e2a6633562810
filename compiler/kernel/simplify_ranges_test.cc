#include "compiler/kernel/simplify_ranges.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "compiler/ir/build.h"
#include "compiler/ir/polynomial.h"

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

  // A size of 1 to 64.
  UOp* Variable(uint32_t slot) {
    BufferArg arg;
    arg.slot = slot;
    arg.dtype = DType::kInt32;
    arg.addrspace = AddrSpace::kAlu;
    arg.name = absl::StrCat("n", slot);
    arg.min = 1;
    arg.max = 64;
    return Cast(graph_, graph_.Make(Op::PARAM, {ShapeSource(graph_, {})}, arg), kIndexType);
  }
  UOp* Loop(UOp* size, AxisType type) { return graph_.Make(Op::RANGE, {size}, RangeArg{graph_.NextId(), type}); }

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

// x[(i * m + j) * 5], i < n, j < m.
TEST_F(SimplifyRangesTest, TwoLoopsWhoseSizesVaryAreOne) {
  UOp *n = Variable(8), *m = Variable(9);
  UOp *i = Loop(n, AxisType::kReduce), *j = Loop(m, AxisType::kReduce);
  const auto at = [&](UOp* width) {
    return Add(graph_, Mul(graph_, Mul(graph_, i, width), Idx(graph_, 5)), Mul(graph_, j, Idx(graph_, 5)));
  };
  UOp* merged = SimplifyRanges(graph_, Kernel(Sum(Load(1, 64 * 64 * 5, at(m)), i, j)));
  EXPECT_EQ(LoopsOfReductions(merged), std::vector<size_t>{1});
  for (UOp* uop : Toposort(merged)) {
    if (uop->op() == Op::RANGE) {
      EXPECT_TRUE(PolynomialOf(graph_, uop->src(0)).Equals(PolynomialOf(graph_, n) * PolynomialOf(graph_, m)));
    }
  }
  // Rows that are as far apart as there are of them are no neighbours.
  UOp* apart = Kernel(Sum(Load(1, 64 * 64 * 5, at(n)), i, j));
  EXPECT_EQ(SimplifyRanges(graph_, apart), apart);
}

TEST_F(SimplifyRangesTest, LoopsWhoseNumbersAreUsedStay) {
  UOp *n = Variable(8), *m = Variable(9);
  UOp *i = Loop(n, AxisType::kReduce), *j = Loop(m, AxisType::kReduce);
  UOp* value = Load(1, 64 * 64, Add(graph_, Mul(graph_, i, m), j));
  UOp* kernel = Kernel(Sum(Add(graph_, value, Cast(graph_, j, DType::kFloat32)), i, j));
  EXPECT_EQ(SimplifyRanges(graph_, kernel), kernel);
}

// Lanes lie along the one.
TEST_F(SimplifyRangesTest, ALoopOfANumberStaysBesideOneThatVaries) {
  UOp* n = Variable(8);
  UOp *i = Loop(n, AxisType::kReduce), *j = Loop(4, AxisType::kReduce);
  UOp* kernel = Kernel(Sum(Load(1, 64 * 4, Add(graph_, Mul(graph_, i, Idx(graph_, 4)), j)), i, j));
  EXPECT_EQ(SimplifyRanges(graph_, kernel), kernel);
}

}  // namespace
}  // namespace kiln::compiler
