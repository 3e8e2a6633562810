#include "compiler/program/list_rewrite.h"

#include <gtest/gtest.h>

#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

using List = std::vector<UOp*>;

class RewriteListTest : public ::testing::Test {
 protected:
  UOp* Storage(uint32_t slot) {
    BufferArg arg;
    arg.slot = slot;
    arg.dtype = DType::kInt32;
    return graph_.Make(Op::PARAM, {ShapeSource(graph_, {4})}, arg);
  }
  UOp* Place(UOp* storage, UOp* index) { return graph_.Make(Op::INDEX, {storage, index}); }
  UOp* Rewritten(const List& list, const NodeRule& rule) {
    const auto result = RewriteList(graph_, graph_.Make(Op::LINEAR, list), rule);
    EXPECT_TRUE(result.ok()) << result.status();
    return *result;
  }
  // Doubles every sum.
  NodeRule DoubleSums() {
    return [this](UOp* uop) -> absl::StatusOr<UOp*> {
      return uop->op() == Op::ADD ? Mul(graph_, uop, ConstInt(graph_, uop->dtype(), 2)) : uop;
    };
  }

  Graph graph_;
  UOp* from_ = Storage(0);
  UOp* to_ = Storage(1);
};

TEST_F(RewriteListTest, NothingChangesWhereNoRuleApplies) {
  UOp* place = Place(from_, Idx(graph_, 0));
  UOp* load = graph_.Make(Op::LOAD, {place});
  UOp* list = graph_.Make(Op::LINEAR, {place, load, graph_.Make(Op::STORE, {Place(to_, Idx(graph_, 0)), load})});
  const auto same = RewriteList(graph_, list, [](UOp* uop) -> absl::StatusOr<UOp*> { return uop; });
  ASSERT_TRUE(same.ok());
  EXPECT_EQ((*same)->src().back(), list->src().back());
}

TEST_F(RewriteListTest, WhatAReplacementNeedsStandsRightBeforeIt) {
  UOp* place = Place(from_, Idx(graph_, 0));
  UOp* load = graph_.Make(Op::LOAD, {place});
  UOp* sum = Add(graph_, load, load);
  UOp* out = Place(to_, Idx(graph_, 0));
  UOp* store = graph_.Make(Op::STORE, {out, sum});
  const UOp* made = Rewritten({place, load, sum, out, store}, DoubleSums());
  UOp* twice = Mul(graph_, sum, ConstInt(graph_, DType::kInt32, 2));
  EXPECT_EQ(List(made->src().begin(), made->src().end()),
            List({place, load, sum, twice, out, graph_.Make(Op::STORE, {out, twice})}));
}

TEST_F(RewriteListTest, ANodeListedTwiceRunsTwiceWithAllItNeeds) {
  UOp* place = Place(from_, Idx(graph_, 0));
  UOp* load = graph_.Make(Op::LOAD, {place});
  UOp* sum = Add(graph_, load, load);
  const UOp* made = Rewritten({place, load, sum, load, sum}, DoubleSums());
  UOp* twice = Mul(graph_, sum, ConstInt(graph_, DType::kInt32, 2));
  EXPECT_EQ(List(made->src().begin(), made->src().end()), List({place, load, sum, twice, load, sum, twice}));
}

TEST_F(RewriteListTest, AScopeThatClosedTakesItsNodesAlong) {
  UOp* zero = ConstInt(graph_, DType::kInt32, 0);
  UOp* loop = graph_.Make(Op::RANGE, {Idx(graph_, 2)}, RangeArg{0});
  UOp* in = Place(to_, loop);
  UOp* store = graph_.Make(Op::STORE, {in, zero});
  UOp* end = graph_.Make(Op::END, {store, loop});
  UOp* out = Place(to_, Idx(graph_, 0));
  // Each store gets a value made anew from constants: in the loop, and after it.
  const NodeRule rule = [&](UOp* uop) -> absl::StatusOr<UOp*> {
    if (uop->op() != Op::STORE) return uop;
    return graph_.Make(Op::STORE, {uop->src(0), Add(graph_, zero, zero)});
  };
  const UOp* made = Rewritten({loop, in, store, end, out, graph_.Make(Op::STORE, {out, zero})}, rule);
  UOp* sum = Add(graph_, zero, zero);
  EXPECT_EQ(std::count(made->src().begin(), made->src().end(), sum), 2);
}

TEST_F(RewriteListTest, PointersKnowTheirStorage) {
  UOp* place = Place(from_, Idx(graph_, 0));
  EXPECT_EQ(PointedStorage(graph_.Make(Op::AFTER, {place, place})), from_);
  EXPECT_EQ(PointedStorage(graph_.Make(Op::LOAD, {place})), nullptr);
}

}  // namespace
}  // namespace kiln::compiler
