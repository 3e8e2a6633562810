// Which loops become coordinates, and that what is reduced by items is what loops would reduce.
#include "compiler/kernel/gpu_dims.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/interp/kernel_eval.h"
#include "compiler/ir/build.h"
#include "compiler/kernel/loops_apart.h"
#include "compiler/kernel/ranges.h"
#include "compiler/testing/items_as_loops.h"

namespace kiln::compiler {
namespace {

class GpuDimsTest : public testing::Test {
 protected:
  UOp* Param(uint32_t slot, int64_t size) {
    return graph_.Make(Op::PARAM, {ShapeSource(graph_, {size})}, BufferArg{slot, DType::kInt32});
  }
  UOp* Loop(int64_t size, AxisType type = AxisType::kLoop) {
    return graph_.Make(Op::RANGE, {Idx(graph_, size)}, RangeArg{graph_.NextId(), type});
  }
  UOp* At(UOp* storage, UOp* index) { return graph_.Make(Op::INDEX, {storage, index}); }
  UOp* Load(UOp* storage, UOp* index) { return graph_.Make(Op::LOAD, {At(storage, index)}); }
  UOp* Row(UOp* i, int64_t n, UOp* j) { return Add(graph_, Mul(graph_, i, Idx(graph_, n)), j); }
  UOp* Sum(UOp* value, std::vector<UOp*> loops) {
    loops.insert(loops.begin(), value);
    return graph_.Make(Op::REDUCE, loops, ReduceArg{Op::ADD, {}});
  }
  UOp* Kernel(UOp* place, UOp* value, std::vector<UOp*> loops) {
    UOp* store = graph_.Make(Op::STORE, {place, value});
    if (loops.empty()) return graph_.Make(Op::SINK, {store});
    loops.insert(loops.begin(), store);
    return graph_.Make(Op::SINK, {graph_.Make(Op::END, loops)});
  }

  // "gidx0:4 lidx0:32", and "loop:5" for what is left.
  static std::string Coordinates(UOp* sink) {
    std::multiset<std::string> found;
    for (const UOp* uop : Toposort(sink)) {
      if (uop->op() == Op::SPECIAL)
        found.insert(absl::StrCat(uop->arg_as<TextArg>().text, ":", uop->src(0)->const_int()));
      if (uop->op() == Op::RANGE) found.insert(absl::StrCat("loop:", uop->src(0)->const_int()));
    }
    std::string text;
    for (const std::string& each : found) absl::StrAppend(&text, text.empty() ? "" : " ", each);
    return text;
  }

  // That `made` gives what `kernel` gives.
  void ExpectSame(UOp* kernel, UOp* made) {
    KernelMemory memory, want;
    for (const UOp* uop : Toposort(kernel)) {
      if (uop->op() != Op::PARAM) continue;
      auto& cells = memory[uop->arg_as<BufferArg>().slot];
      for (int64_t i = 0; i < NumElements(uop->shape()); ++i) cells.push_back(static_cast<uint64_t>(i * 7 % 23));
    }
    want = memory;
    ASSERT_TRUE(EvalKernel(kernel, want).ok());
    const absl::Status status = EvalKernel(ItemsAsLoops(graph_, made), memory);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(memory == want);
  }

  Graph graph_;
};

TEST_F(GpuDimsTest, WithoutAScheduleTheInnermostLoopIsShared) {
  UOp *i = Loop(6), *j = Loop(512);
  UOp* kernel = Kernel(At(Param(0, 6 * 512), Row(i, 512, j)), Load(Param(1, 6 * 512), Row(i, 512, j)), {i, j});
  UOp* made = GpuDims(graph_, kernel, true);
  EXPECT_EQ(Coordinates(made), "gidx0:2 gidx1:6 lidx0:256");
  ExpectSame(kernel, made);
}

TEST_F(GpuDimsTest, IterationsThatMayCollideKeepTheirOrder) {
  // The place of the row is read; the columns of it are apart.
  UOp *i = Loop(6), *j = Loop(64);
  UOp* row = Cast(graph_, Load(Param(1, 6), i), kIndexType);
  UOp* wrapped = graph_.Make(Op::FLOORMOD, {row, Idx(graph_, 6)});
  UOp* kernel = Kernel(At(Param(0, 6 * 64), Row(wrapped, 64, j)), Load(Param(2, 6 * 64), Row(i, 64, j)), {i, j});
  UOp* made = GpuDims(graph_, kernel, true);
  EXPECT_EQ(Coordinates(made), "lidx0:64 loop:6");
  ExpectSame(kernel, made);
}

TEST_F(GpuDimsTest, LoopsApart) {
  UOp *i = Loop(4), *j = Loop(8), *k = Loop(3);
  UOp* value = ConstInt(graph_, DType::kInt32, 1);
  const auto apart = [&](UOp* index, std::vector<UOp*> loops) {
    return LoopsApart(Kernel(At(Param(0, 4096), index), value, loops), loops);
  };
  using Loops = std::vector<UOp*>;
  EXPECT_EQ(apart(Row(i, 8, j), {i, j}), (Loops{i, j}));
  // Rows that overlap: the last column of one is the first of the next.
  EXPECT_EQ(apart(Row(i, 7, j), {i, j}), (Loops{}));
  EXPECT_EQ(apart(Row(i, 8, j), {i, j, k}), (Loops{i, j}));
  EXPECT_EQ(apart(Add(graph_, Mul(graph_, i, Idx(graph_, -8)), Add(graph_, j, Idx(graph_, 24))), {i, j}),
            (Loops{i, j}));
  UOp* wrapped = graph_.Make(Op::FLOORMOD, {i, Idx(graph_, 3)});
  EXPECT_EQ(apart(Row(wrapped, 8, j), {i, j}), (Loops{j}));
  EXPECT_EQ(apart(Row(wrapped, 7, j), {i, j}), (Loops{}));
  // Beyond all that the other reaches.
  EXPECT_EQ(apart(Row(j, 100, wrapped), {i, j}), (Loops{j}));
  UOp* n =
      graph_.Make(Op::PARAM, {graph_.Make(Op::STACK, {})}, BufferArg{5, DType::kInt32, AddrSpace::kAlu, "", "n", 1, 8});
  UOp* varying = graph_.Make(Op::RANGE, {Cast(graph_, n, kIndexType)}, RangeArg{graph_.NextId(), AxisType::kLoop});
  EXPECT_EQ(apart(Row(varying, 8, j), {varying, j}), (Loops{j}));
}

// As a padded loop is, once it is split: digits reach beyond a row, and the gate keeps what is stored within it.
TEST_F(GpuDimsTest, LoopsThatAGateBoundsAreApart) {
  UOp *row = Loop(4), *i = Loop(2), *j = Loop(8);
  UOp* column = Row(i, 8, j);
  const auto apart = [&](UOp* index, UOp* gate) {
    UOp* value = ConstInt(graph_, DType::kInt32, 1);
    UOp* store = graph_.Make(Op::STORE, {At(Param(0, 4096), index), value, gate});
    UOp* kernel = graph_.Make(Op::SINK, {graph_.Make(Op::END, {store, row, i, j})});
    return LoopsApart(kernel, {row, i, j});
  };
  const auto less = [&](UOp* what, int64_t bound) { return Lt(graph_, what, Idx(graph_, bound)); };
  using Loops = std::vector<UOp*>;
  const Loops all = {row, i, j};
  EXPECT_EQ(apart(Row(row, 16, column), less(column, 16)), all);
  EXPECT_EQ(apart(Row(row, 10, column), less(column, 16)), (Loops{}));
  EXPECT_EQ(apart(Row(row, 10, column), less(column, 11)), (Loops{}));
  EXPECT_EQ(apart(Row(row, 10, column), less(column, 10)), all);
  EXPECT_EQ(apart(Row(row, 10, column), And(graph_, less(row, 3), less(column, 10))), all);
  // Elements two apart, backwards, and of a sum that begins elsewhere.
  EXPECT_EQ(apart(Row(row, 20, Mul(graph_, column, Idx(graph_, 2))), less(column, 10)), all);
  EXPECT_EQ(apart(Row(row, 19, Mul(graph_, column, Idx(graph_, 2))), less(column, 10)), all);
  EXPECT_EQ(apart(Row(row, 18, Mul(graph_, column, Idx(graph_, 2))), less(column, 10)), (Loops{}));
  EXPECT_EQ(apart(Row(row, 10, Mul(graph_, column, Idx(graph_, -1))), less(column, 10)), all);
  EXPECT_EQ(apart(Row(row, 10, column), less(Add(graph_, column, Idx(graph_, 5)), 15)), all);
  EXPECT_EQ(apart(Row(row, 10, column), less(Add(graph_, column, Idx(graph_, -5)), 6)), (Loops{}));
  // A gate that doubles itself is walked once, and where it has more parts than are listed, nothing is said.
  UOp* doubled = less(column, 10);
  for (int level = 0; level < 64; ++level) {
    if (level == 4) {
      EXPECT_EQ(apart(Row(row, 10, column), doubled), all);
    }
    doubled = And(graph_, And(graph_, doubled, less(row, 100 + level)), And(graph_, doubled, less(row, 200 + level)));
  }
  EXPECT_EQ(apart(Row(row, 10, column), doubled), (Loops{}));
  // A sum that wraps is bounded by nothing.
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(apart(Row(row, 10, column), less(Add(graph_, column, Idx(graph_, kMost - 20)), kMost - 10)), all);
  EXPECT_EQ(apart(Row(row, 10, column), less(Add(graph_, column, Idx(graph_, kMost - 10)), kMost)), (Loops{}));
  // What the gate bounds is another sum than the place's, or has no digits of its own.
  EXPECT_EQ(apart(Row(row, 10, column), less(Row(i, 9, j), 10)), (Loops{}));
  EXPECT_EQ(apart(Row(row, 10, Add(graph_, i, j)), less(Add(graph_, i, j), 10)), (Loops{row}));
  UOp* store = graph_.Make(
      Op::STORE, {At(Param(0, 64), Row(row, 10, column)), Load(Param(1, 64), Row(row, 10, column)), less(column, 10)});
  UOp* kernel = graph_.Make(Op::SINK, {graph_.Make(Op::END, {store, row, i, j})});
  UOp* made = GpuDims(graph_, kernel, true);
  EXPECT_EQ(Coordinates(made), "gidx0:2 gidx1:4 lidx0:8");
  ExpectSame(kernel, made);
}

TEST_F(GpuDimsTest, RowsAreReducedByItems) {
  UOp* i = Loop(5);
  UOp *outer = Loop(3, AxisType::kReduce), *inner = Loop(32, AxisType::kGroupReduce);
  UOp* sum = Sum(Load(Param(1, 5 * 96), Row(i, 96, Row(outer, 32, inner))), {outer, inner});
  UOp* kernel = Kernel(At(Param(0, 5), i), sum, {i});
  EXPECT_EQ(Coordinates(GpuDims(graph_, kernel, false)), "lidx0:5 loop:3 loop:32");
  // One item has no items to reduce with; with a LOCAL loop it is a schedule either way.
  UOp* made = GpuDims(graph_, kernel, true);
  EXPECT_EQ(Coordinates(made), "gidx0:5 lidx0:32 loop:3");
  const UOp* store = made->src(0);
  ASSERT_EQ(store->op(), Op::STORE);
  ASSERT_EQ(store->src().size(), 3);  // by the first item alone
  EXPECT_EQ(store->src(2)->op(), Op::CMPLT);
  ExpectSame(kernel, made);
}

// What is reduced, and what is walked with the result, by the same items; two rows a group.
TEST_F(GpuDimsTest, AnOutputLoopSharesTheItemsOfAReduce) {
  UOp *rows = Loop(3), *two = Loop(2, AxisType::kLocal), *iteration = Loop(2), *item = Loop(32, AxisType::kLocal);
  UOp *outer = Loop(2, AxisType::kReduce), *inner = Loop(32, AxisType::kGroupReduce);
  UOp *row = Row(rows, 2, two), *column = Row(iteration, 32, item);
  UOp* sum = Sum(Load(Param(1, 6 * 64), Row(row, 64, Row(outer, 32, inner))), {outer, inner});
  UOp* value = Add(graph_, Load(Param(1, 6 * 64), Row(row, 64, column)), sum);
  UOp* kernel = Kernel(At(Param(0, 6 * 64), Row(row, 64, column)), value, {rows, two, iteration, item});
  UOp* made = GpuDims(graph_, kernel, true);
  EXPECT_EQ(Coordinates(made), "gidx0:3 lidx0:32 lidx1:2 loop:2 loop:2");
  ExpectSame(kernel, made);
}

// Columns: neighbours in memory are neighbours in the group, whoever was split first.
TEST_F(GpuDimsTest, ColumnsAreTheFirstCoordinate) {
  UOp *columns = Loop(2), *column = Loop(32, AxisType::kLocal);
  UOp *outer = Loop(4, AxisType::kReduce), *inner = Loop(8, AxisType::kGroupReduce);
  UOp* j = Row(columns, 32, column);
  UOp* sum = Sum(Load(Param(1, 32 * 64), Row(Row(outer, 8, inner), 64, j)), {outer, inner});
  UOp* kernel = Kernel(At(Param(0, 64), j), sum, {columns, column});
  UOp* made = GpuDims(graph_, kernel, true);
  EXPECT_EQ(Coordinates(made), "gidx0:2 lidx0:32 lidx1:8 loop:4");
  ExpectSame(kernel, made);
}

// A reduction on which no loop of the output has a part is done by one group alone.
TEST_F(GpuDimsTest, AWholeSumBesideEachElement) {
  UOp *i = Loop(4), *item = Loop(16, AxisType::kLocal);
  UOp *outer = Loop(4, AxisType::kReduce), *inner = Loop(16, AxisType::kGroupReduce);
  UOp* sum = Sum(Load(Param(1, 64), Row(outer, 16, inner)), {outer, inner});
  UOp* at = Row(i, 16, item);
  UOp* kernel = Kernel(At(Param(0, 64), at), Add(graph_, sum, Load(Param(1, 64), at)), {i, item});
  UOp* made = GpuDims(graph_, kernel, true);
  EXPECT_EQ(Coordinates(made), "lidx0:16 loop:4 loop:4");
  ExpectSame(kernel, made);
}

TEST_F(GpuDimsTest, MoreItemsThanAGroupHasAreLoops) {
  UOp* i = Loop(2);
  UOp *outer = Loop(64, AxisType::kGroupReduce), *inner = Loop(32, AxisType::kGroupReduce);
  UOp* sum = Sum(Load(Param(1, 2 * 2048), Row(i, 2048, Row(outer, 32, inner))), {outer, inner});
  UOp* kernel = Kernel(At(Param(0, 2), i), sum, {i});
  UOp* made = GpuDims(graph_, kernel, true);
  EXPECT_EQ(Coordinates(made), "gidx0:2 lidx0:64 loop:32");
  ExpectSame(kernel, made);
}

}  // namespace
}  // namespace kiln::compiler
