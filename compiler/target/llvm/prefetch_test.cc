#include "compiler/target/llvm/prefetch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

class PrefetchTest : public testing::Test {
 protected:
  UOp* Range(int64_t size, AxisType type) {
    return graph_.Make(Op::RANGE, {Idx(graph_, size)}, RangeArg{graph_.NextId(), type});
  }
  UOp* Load(uint32_t slot, UOp* index) {
    UOp* param = graph_.Make(Op::PARAM, {ShapeSource(graph_, {1024})}, BufferArg{slot, DType::kFloat32});
    return graph_.Make(Op::LOAD, {graph_.Make(Op::INDEX, {param, index})});
  }
  // for i: for k: load(k); end; place; load(place)
  std::vector<UOp*> List(AxisType inner, UOp*& place, UOp*& behind, UOp*& loop) {
    UOp* i = Range(4, AxisType::kLoop);
    loop = Range(8, inner);
    UOp* inside = Load(1, loop);
    UOp* end = graph_.Make(Op::END, {inside, loop});
    place = Mul(graph_, i, Idx(graph_, 3));
    behind = Load(2, place);
    return {i, loop, inside, end, behind->src(0)->src(0), place, behind, graph_.Make(Op::END, {behind, i})};
  }

  Graph graph_;
};

TEST_F(PrefetchTest, ALoadBehindAReductionIsAskedForBeforeIt) {
  UOp *place, *behind, *loop;
  const std::vector<UOp*> list = List(AxisType::kReduce, place, behind, loop);
  const Prefetches prefetches = FindPrefetches(graph_.Make(Op::LINEAR, list), 1);
  ASSERT_EQ(prefetches.before.size(), 1u);
  EXPECT_EQ(prefetches.before.at(loop), std::vector<UOp*>{behind});
  EXPECT_EQ(prefetches.list, (std::vector<UOp*>{list[0], list[4], place, loop, list[2], list[3], behind, list[7]}));
}

TEST_F(PrefetchTest, OtherLoopsAreNotWaitedFor) {
  UOp *place, *behind, *loop;
  const std::vector<UOp*> list = List(AxisType::kLoop, place, behind, loop);
  const Prefetches prefetches = FindPrefetches(graph_.Make(Op::LINEAR, list), 1);
  EXPECT_TRUE(prefetches.before.empty());
  EXPECT_EQ(prefetches.list, list);
}

TEST_F(PrefetchTest, APlaceThatIsLoadedIsNotKnownYet) {
  UOp* i = Range(4, AxisType::kLoop);
  UOp* k = Range(8, AxisType::kReduce);
  UOp* inside = Load(1, k);
  UOp* place = graph_.Make(Op::CAST, {Load(3, i)}, kIndexType);
  UOp* behind = Load(2, place);
  UOp* end = graph_.Make(Op::END, {inside, k});
  const std::vector<UOp*> list = {i, k, inside, end, place->src(0), place, behind, graph_.Make(Op::END, {behind, i})};
  const Prefetches prefetches = FindPrefetches(graph_.Make(Op::LINEAR, list), 1);
  EXPECT_EQ(prefetches.before.at(k), std::vector<UOp*>{place->src(0)});  // but what it is loaded from is
  EXPECT_EQ(prefetches.list, list);
}

// for panel < 8: for row < 5: for k < 64: load(the 32 numbers of k in the panel).
TEST_F(PrefetchTest, EachRowAsksForItsShareOfTheNextPanel) {
  constexpr int64_t kLanes = 32, kDepth = 64, kRows = 5, kPanels = 8;
  const auto ahead_of = [&](int64_t elements, AxisType panels_are, int64_t threads) {
    UOp *panel = Range(kPanels, panels_are), *row = Range(kRows, AxisType::kLoop),
        *k = Range(kDepth, AxisType::kReduce);
    std::vector<UOp*> lanes;
    for (int64_t i = 0; i < kLanes; ++i) lanes.push_back(Idx(graph_, i));
    UOp* first = Add(graph_, Mul(graph_, panel, Idx(graph_, kDepth * kLanes)), Mul(graph_, k, Idx(graph_, kLanes)));
    UOp* index = Add(graph_, Reshape(graph_, first, {1}), graph_.Make(Op::STACK, lanes));
    UOp* param = graph_.Make(Op::PARAM, {ShapeSource(graph_, {elements})}, BufferArg{1, DType::kFloat32});
    UOp* load = graph_.Make(Op::LOAD, {graph_.Make(Op::INDEX, {param, index})});
    std::vector<UOp*> list = {panel,
                              row,
                              k,
                              load,
                              graph_.Make(Op::END, {load, k}),
                              graph_.Make(Op::END, {load, row}),
                              graph_.Make(Op::END, {load, panel})};
    const Prefetches found = FindPrefetches(graph_.Make(Op::LINEAR, list), threads);
    return found.ahead.contains(load) ? std::optional(found.ahead.at(load)) : std::nullopt;
  };
  const std::optional<Ahead> ahead = ahead_of(1 << 20, AxisType::kLoop, 2);
  ASSERT_TRUE(ahead.has_value());
  EXPECT_EQ(ahead->rows.size(), 1u);
  EXPECT_EQ(ahead->reduced.size(), 1u);
  EXPECT_EQ(ahead->iterations, kDepth);
  EXPECT_EQ(ahead->step, kLanes * 4);
  EXPECT_EQ(ahead->share, 26);  // a fifth of 128
  EXPECT_EQ(ahead->skipped, 0);
  // Threads take turns at panels.
  EXPECT_EQ(ahead_of(1 << 20, AxisType::kThread, 3)->skipped, 2 * kDepth * kLanes * 4);
  // What fits the caches anyway.
  EXPECT_FALSE(ahead_of(kPanels * kDepth * kLanes, AxisType::kLoop, 2).has_value());
}

// Rows of four float32: four of them fill a line.
TEST_F(PrefetchTest, NeighboursThatALineHoldsAreAskedForTogether) {
  const auto asked = [&](int64_t step) {
    const auto numbers = [&](int64_t count, const Shape& shape) {
      std::vector<UOp*> all;
      for (int64_t i = 0; i < count; ++i) all.push_back(Idx(graph_, i));
      return Reshape(graph_, graph_.Make(Op::STACK, all), shape);
    };
    UOp* loop = Mul(graph_, Range(4, AxisType::kLoop), Idx(graph_, 100));
    std::vector<UOp*> rows;
    for (int64_t row = 0; row < 6; ++row) rows.push_back(Idx(graph_, row * step));
    std::vector<UOp*> apart;
    for (UOp* row : rows) apart.push_back(graph_.Make(Op::STACK, {row}));
    UOp* place = Add(graph_, Add(graph_, loop, graph_.Make(Op::STACK, apart)), numbers(4, {1, 4}));
    std::vector<std::pair<int64_t, int64_t>> found;
    for (const AskedRow& row : AskedRowsOf(Load(2, place))) found.push_back({row.row, row.elements});
    return found;
  };
  using Rows = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(asked(4), (Rows{{0, 16}, {4, 8}}));
  EXPECT_EQ(asked(8), (Rows{{0, 4}, {1, 4}, {2, 4}, {3, 4}, {4, 4}, {5, 4}}));
}

}  // namespace
}  // namespace kiln::compiler
