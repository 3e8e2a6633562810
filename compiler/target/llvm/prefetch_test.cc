#include "compiler/target/llvm/prefetch.h"

#include <gtest/gtest.h>

#include <algorithm>

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

}  // namespace
}  // namespace kiln::compiler
