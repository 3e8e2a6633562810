#include "compiler/program/place.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/ir/build.h"
#include "compiler/program/program_tree.h"

namespace kiln::compiler {
namespace {

class PlaceTest : public testing::Test {
 protected:
  UOp* Loop(int64_t id) { return graph_.Make(Op::RANGE, {Idx(graph_, 8)}, RangeArg{id, AxisType::kLoop}); }
  UOp* Store(UOp* index) {
    return graph_.Make(Op::STORE, {graph_.Make(Op::INDEX, {param_, index}), ConstInt(graph_, DType::kInt32, 1)});
  }
  std::vector<UOp*> Place(std::vector<UOp*> list) {
    const auto placed = PlaceValues(graph_, graph_.Make(Op::LINEAR, list));
    EXPECT_TRUE(placed.ok()) << placed.status();
    return {(*placed)->src().begin(), (*placed)->src().end()};
  }
  static ptrdiff_t At(const std::vector<UOp*>& list, const UOp* uop) {
    return std::find(list.begin(), list.end(), uop) - list.begin();
  }

  Graph graph_;
  UOp* param_ =
      graph_.Make(Op::PARAM, {ShapeSource(graph_, {64})}, BufferArg{0, DType::kInt32, AddrSpace::kGlobal, "", ""});
};

TEST_F(PlaceTest, WhatALoopDoesNotChangeStandsBeforeIt) {
  UOp* outer = Loop(0);
  UOp* inner = Loop(1);
  UOp* fixed = Mul(graph_, outer, Idx(graph_, 8));
  UOp* moving = Add(graph_, fixed, inner);
  const auto list = Place({outer, inner, Store(moving), Closing(graph_, inner), Closing(graph_, outer)});
  EXPECT_LT(At(list, outer), At(list, fixed));
  EXPECT_LT(At(list, fixed), At(list, inner));
  EXPECT_LT(At(list, inner), At(list, moving));
}

// Needed in an IF first and before it later: it stands before it, and only there.
TEST_F(PlaceTest, WhatIsNeededInAnIfAndFartherOutStandsThereOnce) {
  UOp* loop = Loop(0);
  UOp* twice = Mul(graph_, loop, Idx(graph_, 2));
  UOp* gate = graph_.Make(Op::IF, {Lt(graph_, loop, Idx(graph_, 3))});
  UOp* inner = Loop(1);
  // A loop inside the same iteration: what it needs is hoisted before it, and so behind the IF.
  UOp* bound = graph_.Make(Op::RANGE, {twice}, RangeArg{2, AxisType::kLoop});
  const auto list = Place({loop, inner, gate, Store(twice), Closing(graph_, gate), Closing(graph_, inner), bound,
                           Store(bound), Closing(graph_, bound), Closing(graph_, loop)});
  EXPECT_EQ(std::count(list.begin(), list.end(), twice), 2);  // the IF has closed when it is needed again
  UOp* late = graph_.Make(Op::RANGE, {Mul(graph_, loop, Idx(graph_, 3))}, RangeArg{3, AxisType::kLoop});
  const auto hoisted = Place({loop, inner, gate, Store(late->src(0)), Closing(graph_, gate), late, Store(late),
                              Closing(graph_, late), Closing(graph_, inner), Closing(graph_, loop)});
  EXPECT_EQ(std::count(hoisted.begin(), hoisted.end(), late->src(0)), 1);
  EXPECT_LT(At(hoisted, late->src(0)), At(hoisted, inner));
}

}  // namespace
}  // namespace kiln::compiler
