#include "compiler/target/llvm/row_order.h"

#include <gtest/gtest.h>

#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

constexpr int64_t kRows = 16;

class RowOrderTest : public testing::Test {
 protected:
  UOp* Numbers(int64_t count, const Shape& shape) {
    std::vector<UOp*> numbers;
    for (int64_t i = 0; i < count; ++i) numbers.push_back(Idx(graph_, i));
    return List(Reshape(graph_, List(graph_.Make(Op::STACK, numbers)), shape));
  }
  UOp* List(UOp* uop) {
    list_.push_back(uop);
    return uop;
  }
  // A place in a storage of `rows` rows of four lanes.
  UOp* Place(int64_t rows) {
    UOp* row = Numbers(rows, {rows, 1});
    return List(Add(graph_, List(Mul(graph_, row, Idx(graph_, 4))), Numbers(4, {1, 4})));
  }
  UOp* At(uint32_t slot, UOp* place) {
    UOp* param = graph_.Make(Op::PARAM, {ShapeSource(graph_, {4 * kRows})}, BufferArg{slot, DType::kFloat32});
    return graph_.Make(Op::INDEX, {param, place});
  }
  UOp* Load(uint32_t slot, UOp* place) { return List(graph_.Make(Op::LOAD, {At(slot, place)})); }
  UOp* Store(uint32_t slot, UOp* place, UOp* value) {
    return List(graph_.Make(Op::STORE, {At(slot, place), value}));
  }
  // The steps of so many instructions at the end.
  std::vector<EmitStep> Last(size_t count) const {
    std::vector<EmitStep> steps = InRowOrder(list_);
    return {steps.end() - static_cast<int64_t>(count), steps.end()};
  }
  std::vector<EmitStep> Whole() const {
    std::vector<EmitStep> steps;
    for (UOp* uop : list_) steps.push_back({uop, kAllRows});
    return steps;
  }

  Graph graph_;
  std::vector<UOp*> list_;
};

TEST_F(RowOrderTest, RowsAreFinishedOneAfterTheOther) {
  UOp* bias = Load(1, Place(1));
  UOp* place = Place(kRows);
  UOp* x = Load(2, place);
  UOp* sum = List(Add(graph_, x, bias));
  UOp* store = Store(0, place, sum);
  std::vector<EmitStep> wanted;
  for (int64_t row = 0; row < kRows; ++row) {
    for (UOp* uop : {place->src(0), place, x, sum, store}) wanted.push_back({uop, row});
  }
  EXPECT_EQ(Last(wanted.size()), wanted);
  EXPECT_EQ(InRowOrder(list_).size(), list_.size() - 5 + wanted.size());  // the bias is loaded once, before
}

TEST_F(RowOrderTest, FewRowsAreLeftAsTheyAre) {
  UOp* place = Place(kManyRows - 1);
  Store(0, place, Load(1, place));
  EXPECT_EQ(InRowOrder(list_), Whole());
}

TEST_F(RowOrderTest, InPlaceOnlyTheSamePlacesMayBeStoredEarly) {
  UOp* place = Place(kRows);
  Store(0, place, List(graph_.Make(Op::SQRT, {Load(0, place)})));
  EXPECT_NE(InRowOrder(list_), Whole());

  list_.clear();
  UOp* target = Place(kRows);
  UOp* others = List(Add(graph_, target, Idx(graph_, 4)));
  Store(0, target, Load(0, others));
  EXPECT_EQ(InRowOrder(list_), Whole());
}

TEST_F(RowOrderTest, WhatIsLoadedAfterAStoreIsLeftThere) {
  UOp* place = Place(kRows);
  UOp* x = Load(1, place);
  Store(0, place, x);
  Store(2, place, Load(3, place));
  EXPECT_EQ(InRowOrder(list_), Whole());
}

TEST_F(RowOrderTest, LoopsAreKeptApart) {
  UOp* place = Place(kRows);
  UOp* x = Load(1, place);
  UOp* loop = List(graph_.Make(Op::RANGE, {Idx(graph_, 4)}, RangeArg{graph_.NextId(), AxisType::kLoop}));
  UOp* root = List(graph_.Make(Op::SQRT, {x}));
  UOp* store = Store(0, place, root);
  List(graph_.Make(Op::END, {store, loop}));
  const std::vector<EmitStep> steps = InRowOrder(list_);
  EXPECT_EQ(steps[list_.size() - 5], (EmitStep{x, kAllRows}));
  EXPECT_EQ(steps[list_.size() - 3], (EmitStep{root, 0}));
  EXPECT_EQ(steps[list_.size() - 2], (EmitStep{store, 0}));
}

}  // namespace
}  // namespace kiln::compiler
