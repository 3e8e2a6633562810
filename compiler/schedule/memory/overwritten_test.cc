#include "compiler/schedule/memory/overwritten.h"

#include <gtest/gtest.h>

#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

class OverwrittenTest : public testing::Test {
 protected:
  UOp* Storage(uint32_t slot, int64_t elements) {
    BufferArg arg;
    arg.slot = slot;
    arg.dtype = DType::kInt32;
    return graph_.Make(Op::PARAM, {ShapeSource(graph_, {elements})}, arg);
  }
  UOp* Range(int64_t size, int64_t id) {
    return graph_.Make(Op::RANGE, {Idx(graph_, size)}, RangeArg{id, AxisType::kLoop});
  }
  UOp* Times(UOp* loop, int64_t stride) { return Mul(graph_, loop, Idx(graph_, stride)); }
  UOp* Place(UOp* storage, UOp* index) { return graph_.Make(Op::INDEX, {storage, index}); }
  UOp* Load(UOp* place) { return graph_.Make(Op::LOAD, {place}); }
  UOp* Kernel(std::vector<UOp*> store, std::vector<UOp*> loops) {
    std::vector<UOp*> end = {graph_.Make(Op::STORE, store)};
    end.insert(end.end(), loops.begin(), loops.end());
    return graph_.Make(Op::SINK, {graph_.Make(Op::END, end)}, KernelArg{"k", {}, false, {}});
  }
  // slot 0 [i] = slot 1 [i] + what is added
  UOp* Copy(int64_t elements, UOp* added = nullptr) {
    UOp* i = Range(elements, 0);
    UOp* value = Load(Place(Storage(1, elements), i));
    return Kernel({Place(Storage(0, elements), i), added == nullptr ? value : Add(graph_, value, added)}, {i});
  }

  Graph graph_;
};

TEST_F(OverwrittenTest, LoopsThatCountThroughAllElementsDo) {
  UOp *i = Range(4, 0), *j = Range(6, 1), *value = Load(Place(Storage(1, 1), Idx(graph_, 0)));
  const auto store = [&](UOp* index) { return Kernel({Place(Storage(0, 24), index), value}, {i, j}); };
  EXPECT_TRUE(OverwritesSlot(store(Add(graph_, Times(i, 6), j)), 0));
  EXPECT_TRUE(OverwritesSlot(store(Add(graph_, i, Times(j, 4))), 0));  // columns first
  EXPECT_FALSE(OverwritesSlot(store(Add(graph_, Times(i, 6), j)), 1));
  EXPECT_FALSE(OverwritesSlot(store(Add(graph_, Times(i, 6), j)), 2));  // which it does not have
}

TEST_F(OverwrittenTest, WhatLeavesElementsOutDoesNot) {
  UOp *i = Range(4, 0), *j = Range(6, 1), *value = Load(Place(Storage(1, 1), Idx(graph_, 0)));
  const auto overwrites = [&](UOp* index, int64_t elements) {
    return OverwritesSlot(Kernel({Place(Storage(0, elements), index), value}, {i, j}), 0);
  };
  UOp* dense = Add(graph_, Times(i, 6), j);
  EXPECT_FALSE(overwrites(dense, 25));
  EXPECT_FALSE(overwrites(Add(graph_, Times(i, 7), j), 28));         // rows apart
  EXPECT_FALSE(overwrites(Add(graph_, Times(i, 5), j), 21));         // rows that overlap
  EXPECT_FALSE(overwrites(Add(graph_, dense, Idx(graph_, 1)), 25));  // all but the first
  EXPECT_FALSE(overwrites(Times(i, 2), 8));
}

TEST_F(OverwrittenTest, AGateAReadOrAnInvalidValueCounts) {
  UOp *i = Range(8, 0), *out = Storage(0, 8), *other = Load(Place(Storage(1, 8), i));
  UOp* gate = graph_.Make(Op::CMPLT, {i, Idx(graph_, 9)});
  EXPECT_TRUE(OverwritesSlot(Kernel({Place(out, i), other}, {i}), 0));
  EXPECT_FALSE(OverwritesSlot(Kernel({Place(out, i), other, gate}, {i}), 0));
  EXPECT_FALSE(OverwritesSlot(Kernel({Place(out, i), Load(Place(out, i))}, {i}), 0));
  UOp* elsewhere = Load(Place(out, Idx(graph_, 0)));
  EXPECT_FALSE(OverwritesSlot(Kernel({Place(out, i), Add(graph_, other, elsewhere)}, {i}), 0));
}

TEST_F(OverwrittenTest, TheFirstCallDecides) {
  UOp *a = Storage(5, 8), *b = Storage(6, 8), *c = Storage(7, 8);
  UOp* copy = Copy(8);
  UOp* update = Copy(8, Load(Place(Storage(0, 8), Range(8, 0))));
  const auto of = [&](std::vector<UOp*> calls) {
    return Overwritten(std::vector<UOp*>{a, b, c}, graph_.Make(Op::LINEAR, calls));
  };
  const auto call = [&](UOp* body, UOp* to, UOp* from) { return graph_.Make(Op::CALL, {body, to, from}); };
  EXPECT_EQ(of({call(copy, a, b)}), (std::vector<bool>{true, false, false}));
  EXPECT_EQ(of({call(copy, a, b), call(update, a, b), call(copy, c, a)}), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(of({call(update, a, b), call(copy, a, b)}), (std::vector<bool>{false, false, false}));
  EXPECT_EQ(of({call(copy, a, b), call(copy, b, a)}), (std::vector<bool>{true, false, false}));
  EXPECT_EQ(of({call(copy, a, a)}), (std::vector<bool>{false, false, false}));
}

}  // namespace
}  // namespace kiln::compiler
