#include "compiler/program/program_bounds.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/program/program_tree.h"

namespace kiln::compiler {
namespace {

class ProgramBoundsTest : public testing::Test {
 protected:
  UOp* Param(uint32_t slot, Shape shape) {
    return graph_.Make(Op::PARAM, {ShapeSource(graph_, shape)}, BufferArg{slot, DType::kInt32});
  }
  UOp* Read(UOp* pointer) {
    return graph_.Make(Op::AFTER, {graph_.Make(Op::LOAD, {pointer}), Idx(graph_, graph_.NextId())});
  }
  UOp* At(UOp* storage, std::vector<UOp*> indices) {
    indices.insert(indices.begin(), storage);
    return graph_.Make(Op::INDEX, indices);
  }
  UOp* Wide(UOp* x) { return Cast(graph_, x, kIndexType); }
  UOp* Proved(std::vector<UOp*> list, bool strict = false) {
    const auto proved = ProveProgramBounds(graph_, graph_.Make(Op::LINEAR, list), strict);
    EXPECT_TRUE(proved.ok()) << proved.status();
    return *proved;
  }
  // The gate of the last instruction but `behind`, a read or a STORE; null for none.
  static UOp* GateOf(UOp* linear, size_t behind = 0) {
    UOp* uop = linear->src(linear->src().size() - 1 - behind);
    if (uop->op() == Op::AFTER) uop = uop->src(0);
    return uop->src().size() > 2 ? uop->src(2) : nullptr;
  }

  Graph graph_;
  UOp* lidx_ = graph_.Make(Op::SPECIAL, {Idx(graph_, 8)}, TextArg{"lidx0"});
};

TEST_F(ProgramBoundsTest, ACoordinateIsKnown) {
  EXPECT_EQ(GateOf(Proved({Read(At(Param(0, {8}), {lidx_}))}, true)), nullptr);
  EXPECT_NE(GateOf(Proved({Read(At(Param(0, {7}), {lidx_}))})), nullptr);
}

TEST_F(ProgramBoundsTest, WhatIsReadIsNotKnown) {
  UOp* loaded = Read(At(Param(0, {8}), {lidx_}));
  UOp* linear = Proved({loaded, Read(At(Param(1, {4}), {Wide(loaded)}))});
  EXPECT_NE(GateOf(linear), nullptr);
}

TEST_F(ProgramBoundsTest, AnIfAroundTheAccessCounts) {
  UOp* loaded = Read(At(Param(0, {8}), {lidx_}));
  UOp* index = Wide(loaded);
  UOp* gate = And(graph_, Not(graph_, Lt(graph_, index, Idx(graph_, 0))), Lt(graph_, index, Idx(graph_, 4)));
  UOp* open = graph_.Make(Op::IF, {gate});
  UOp* inside = Read(At(Param(1, {4}), {index}));
  EXPECT_EQ(GateOf(Proved({loaded, open, inside, Closing(graph_, open)}, true), 1), nullptr);
  // Behind the ENDIF it says nothing any more.
  EXPECT_NE(GateOf(Proved({loaded, open, Closing(graph_, open), inside})), nullptr);
}

// A newer read of the same place is another value.
TEST_F(ProgramBoundsTest, AnIfSaysNothingOfALaterRead) {
  UOp* pointer = At(Param(0, {8}), {lidx_});
  UOp* first = Read(pointer);
  UOp* second = Read(pointer);
  ASSERT_NE(first, second);
  UOp* index = Wide(first);
  UOp* gate = And(graph_, Not(graph_, Lt(graph_, index, Idx(graph_, 0))), Lt(graph_, index, Idx(graph_, 4)));
  UOp* open = graph_.Make(Op::IF, {gate});
  UOp* linear = Proved({first, open, second, Read(At(Param(1, {4}), {Wide(second)})), Closing(graph_, open)});
  EXPECT_NE(GateOf(linear, 1), nullptr);
}

TEST_F(ProgramBoundsTest, EachAxisIsGuardedByItself) {
  UOp* next = Add(graph_, lidx_, Idx(graph_, 1));
  UOp* linear = Proved({Read(At(Param(0, {8, 8}), {lidx_, next}))});
  EXPECT_EQ(GateOf(linear), Lt(graph_, next, Idx(graph_, 8)));
  EXPECT_EQ(linear->src(0)->src(0)->src(0)->src(0)->shape(), Shape{64});
}

TEST_F(ProgramBoundsTest, AnAtomicAddIsPutIntoAnIf) {
  UOp* add = graph_.Make(Op::ATOMICADD, {At(Param(0, {4}), {lidx_}), ConstInt(graph_, DType::kInt32, 1)});
  UOp* linear = Proved({add});
  ASSERT_EQ(linear->src().size(), 3u);
  EXPECT_EQ(linear->src(0)->op(), Op::IF);
  EXPECT_EQ(linear->src(2)->op(), Op::ENDIF);
}

TEST_F(ProgramBoundsTest, StrictRefusesAndNamesTheAccess) {
  UOp* read = Read(At(Param(0, {7}), {lidx_}));
  graph_.SetOrigin(read, 5);
  const auto refused = ProveProgramBounds(graph_, graph_.Make(Op::LINEAR, {read}), true);
  const auto detail = DetailOf(refused.status());
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->code(), v1::OUT_OF_BOUNDS);
  EXPECT_EQ(detail->node(), 5u);
}

}  // namespace
}  // namespace kiln::compiler
