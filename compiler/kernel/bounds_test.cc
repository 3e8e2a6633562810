#include "compiler/kernel/bounds.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/rules/linear.h"

namespace kiln::compiler {
namespace {

// SINK(STORE(out[i], load)) over one loop, where the load is of a buffer of
// `size` at some index of the loop.
class BoundsTest : public testing::Test {
 protected:
  UOp* Param(uint32_t slot, int64_t size) {
    return graph_.Make(Op::PARAM, {ShapeSource(graph_, {size})}, BufferArg{slot, DType::kFloat32});
  }
  UOp* Kernel(UOp* load) {
    UOp* store = graph_.Make(Op::STORE, {graph_.Make(Op::INDEX, {Param(0, 16), i_}), load});
    return graph_.Make(Op::SINK, {graph_.Make(Op::END, {store, i_})});
  }
  UOp* Load(int64_t size, UOp* index, UOp* gate = nullptr) {
    UOp* place = graph_.Make(Op::INDEX, {Param(1, size), index});
    if (gate == nullptr) return graph_.Make(Op::LOAD, {place});
    return graph_.Make(Op::LOAD, {place, ConstNumber(graph_, DType::kFloat32, 0), gate});
  }
  UOp* AtLeast(UOp* index, int64_t least) { return Not(graph_, Lt(graph_, index, Idx(graph_, least))); }

  Graph graph_;
  UOp* i_ = graph_.Make(Op::RANGE, {Idx(graph_, 16)}, RangeArg{0, AxisType::kLoop});
};

TEST_F(BoundsTest, WhatIntervalsProveStaysAsItIs) {
  UOp* kernel = Kernel(Load(17, Add(graph_, i_, Idx(graph_, 1))));
  EXPECT_EQ(*ProveBounds(graph_, kernel, true), kernel);
}

TEST_F(BoundsTest, TheGateCountsAsKnowledge) {
  UOp* shifted = Add(graph_, i_, Idx(graph_, -1));
  UOp* gate = And(graph_, AtLeast(i_, 1), Lt(graph_, i_, Idx(graph_, 9)));
  UOp* kernel = Kernel(Load(8, shifted, gate));
  EXPECT_EQ(*ProveBounds(graph_, kernel, true), kernel);
}

TEST_F(BoundsTest, AGateOnASumCoversItsMultiple) {
  UOp* j = graph_.Make(Op::RANGE, {Idx(graph_, 3)}, RangeArg{1, AxisType::kReduce});
  UOp* row = Add(graph_, i_, j);
  UOp* gate = And(graph_, AtLeast(row, 1), Lt(graph_, row, Idx(graph_, 17)));
  UOp* index = Mul(graph_, Add(graph_, row, Idx(graph_, -1)), Idx(graph_, 4));
  UOp* sum = graph_.Make(Op::REDUCE, {Load(64, index, gate), j}, ReduceArg{Op::ADD, {}});
  UOp* kernel = Kernel(sum);
  EXPECT_EQ(*ProveBounds(graph_, kernel, true), kernel);
}

// Rows of 8 in tiles of 4, of `rows` rows: what is read of the last tile is the last row, and what is stored is gated.
TEST_F(BoundsTest, TheEdgeOfATileOfRowsThatARunCounts) {
  BufferArg arg;
  arg.slot = 7;
  arg.dtype = DType::kInt32;
  arg.addrspace = AddrSpace::kAlu;
  arg.name = "rows";
  arg.min = 1;
  arg.max = 100;
  UOp* variable = graph_.Make(Op::PARAM, {ShapeSource(graph_, {})}, arg);
  UOp* rows = Cast(graph_, variable, kIndexType);
  UOp* tiles = graph_.Make(Op::FLOORDIV, {Add(graph_, rows, Idx(graph_, 3)), Idx(graph_, 4)});
  const auto loop = [&](UOp* size, int64_t id) {
    return graph_.Make(Op::RANGE, {size}, RangeArg{id, AxisType::kLoop});
  };
  UOp *tile = loop(tiles, 1), *row_in_tile = loop(Idx(graph_, 4), 2), *column = loop(Idx(graph_, 12), 3);
  UOp* row = Add(graph_, Mul(graph_, tile, Idx(graph_, 4)), row_in_tile);
  const auto storage = [&](uint32_t slot) {
    UOp* size = Mul(graph_, rows, Idx(graph_, 8));
    return graph_.Make(Op::PARAM, {graph_.Make(Op::STACK, {size})}, BufferArg{slot, DType::kFloat32});
  };
  const auto at = [&](UOp* which) { return Add(graph_, Mul(graph_, which, Idx(graph_, 8)), column); };
  UOp* in_row = Lt(graph_, column, Idx(graph_, 8));
  const auto kernel = [&](UOp* read, UOp* gate) {
    UOp* load = graph_.Make(
        Op::LOAD, {graph_.Make(Op::INDEX, {storage(1), at(read)}), ConstNumber(graph_, DType::kFloat32, 0), in_row});
    UOp* store = graph_.Make(Op::STORE, {graph_.Make(Op::INDEX, {storage(0), at(row)}), load, gate});
    return graph_.Make(Op::SINK, {graph_.Make(Op::END, {store, tile, row_in_tile, column})});
  };
  UOp* last = AtMost(graph_, row, Add(graph_, rows, Idx(graph_, -1)));
  UOp* inside = Lt(graph_, row, rows);
  UOp* proved = kernel(last, And(graph_, inside, in_row));
  const auto kept = ProveBounds(graph_, proved, true);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(*kept, proved);
  // Neither half may be missing.
  EXPECT_FALSE(ProveBounds(graph_, kernel(row, And(graph_, inside, in_row)), true).ok());
  EXPECT_FALSE(ProveBounds(graph_, kernel(last, inside), true).ok());
  EXPECT_FALSE(ProveBounds(graph_, kernel(last, in_row), true).ok());
}

TEST_F(BoundsTest, WhatCannotBeProvedIsGated) {
  UOp* kernel = Kernel(Load(8, i_));
  UOp* gated = *ProveBounds(graph_, kernel, false);
  UOp* load = gated->src(0)->src(0)->src(1);
  ASSERT_EQ(load->op(), Op::LOAD);
  ASSERT_EQ(load->src().size(), 3u);
  EXPECT_EQ(load->src(2), And(graph_, AtLeast(i_, 0), Lt(graph_, i_, Idx(graph_, 8))));
}

TEST_F(BoundsTest, AGateThatSaysTooLittleIsCompleted) {
  UOp* enough = Lt(graph_, i_, Idx(graph_, 9));
  UOp* gated = *ProveBounds(graph_, Kernel(Load(8, i_, enough)), false);
  UOp* load = gated->src(0)->src(0)->src(1);
  EXPECT_NE(load->src(2), enough);
}

TEST_F(BoundsTest, StrictRefusesInstead) {
  const auto refused = ProveBounds(graph_, Kernel(Load(8, i_)), true);
  const auto detail = DetailOf(refused.status());
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->code(), v1::OUT_OF_BOUNDS);
}

}  // namespace
}  // namespace kiln::compiler
