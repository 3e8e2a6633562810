#include "compiler/search/neighbours.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "compiler/ir/build.h"
#include "compiler/opt/schedule_text.h"

namespace kiln::compiler {
namespace {

class NeighboursTest : public testing::Test {
 protected:
  NeighboursTest() {
    target_.mutable_tuning()->set_vector_bytes(64);
    target_.mutable_tuning()->set_vector_registers(32);
    UOp *i = Loop(96, AxisType::kLoop), *j = Loop(80, AxisType::kLoop), *r = Loop(64, AxisType::kReduce);
    UOp* product = Mul(graph_, Load(1, 96 * 64, i, 64, r), Load(2, 64 * 80, r, 80, j));
    UOp* sum = graph_.Make(Op::REDUCE, {product, r}, ReduceArg{Op::ADD, {}});
    UOp* store = graph_.Make(Op::STORE, {At(0, 96 * 80, i, 80, j), sum});
    kernel_ = graph_.Make(Op::SINK, {graph_.Make(Op::END, {store, i, j})});
  }

  // The same of 16-bit numbers.
  UOp* Halves() {
    UOp *i = Loop(96, AxisType::kLoop), *j = Loop(80, AxisType::kLoop), *r = Loop(64, AxisType::kReduce);
    const auto wide = [&](UOp* load) { return Cast(graph_, load, DType::kFloat32); };
    UOp* product = Mul(graph_, wide(Load(1, 96 * 64, i, 64, r, DType::kFloat16)),
                       wide(Load(2, 64 * 80, r, 80, j, DType::kFloat16)));
    UOp* sum = graph_.Make(Op::REDUCE, {product, r}, ReduceArg{Op::ADD, {}});
    UOp* store = graph_.Make(Op::STORE, {At(0, 96 * 80, i, 80, j), sum});
    return graph_.Make(Op::SINK, {graph_.Make(Op::END, {store, i, j})});
  }

  UOp* Loop(int64_t size, AxisType type) {
    return graph_.Make(Op::RANGE, {Idx(graph_, size)}, RangeArg{graph_.NextId(), type});
  }
  UOp* At(uint32_t slot, int64_t size, UOp* row, int64_t n, UOp* column, DType dtype = DType::kFloat32) {
    UOp* storage = graph_.Make(Op::PARAM, {ShapeSource(graph_, {size})}, BufferArg{slot, dtype});
    return graph_.Make(Op::INDEX, {storage, Add(graph_, Mul(graph_, row, Idx(graph_, n)), column)});
  }
  UOp* Load(uint32_t slot, int64_t size, UOp* row, int64_t n, UOp* column, DType dtype = DType::kFloat32) {
    return graph_.Make(Op::LOAD, {At(slot, size, row, n, column, dtype)});
  }

  std::set<std::string> Texts(const std::string& from) {
    std::set<std::string> texts;
    for (const Schedule& schedule : Neighbours(graph_, kernel_, *ParseSchedule(from), target_))
      EXPECT_TRUE(texts.insert(ToString(schedule)).second) << "twice: " << ToString(schedule);
    return texts;
  }

  Graph graph_;
  v1::Target target_;
  UOp* kernel_;
};

TEST_F(NeighboursTest, OfThePlainLoops) {
  const std::set<std::string> texts = Texts("");
  for (const char* wanted : {"SPLIT(1, 16, UPCAST)", "SPLIT(0, 4, UPCAST)", "SPLIT(2, 16, UNROLL)", "SWAP(0, 1)",
                             "FUSE(0)", "LOCAL(0, 1)", "SPLIT(2, 32, REDUCE)", "SPLIT(0, 8, LOOP)"})
    EXPECT_TRUE(texts.contains(wanted)) << wanted;
}

TEST_F(NeighboursTest, OfASchedule) {
  const std::set<std::string> texts =
      Texts("PADTO(0, 5); SPLIT(0, 5, UPCAST); SPLIT(1, 16, UPCAST, dim 1); LOCAL(0, 1)");
  for (const char* wanted : {
           "PADTO(0, 6); SPLIT(0, 6, UPCAST); SPLIT(1, 16, UPCAST, dim 1); LOCAL(0, 1)",  // the padding goes with it
           "PADTO(0, 5); SPLIT(0, 5, UPCAST); SPLIT(1, 8, UPCAST, dim 1); LOCAL(0, 1)",   // half as wide
           "PADTO(0, 5); SPLIT(0, 5, UPCAST); SPLIT(1, 16, UPCAST, dim 1); LOCAL(1, 1)",  // another loop
           "PADTO(0, 5); SPLIT(0, 5, UPCAST); SPLIT(1, 16, UPCAST, dim 1)",               // one less
           "PADTO(0, 5); SPLIT(1, 16, UPCAST); LOCAL(0, 1)",                              // no dimension is left out
           "PADTO(0, 5); SPLIT(0, 5, UPCAST); SPLIT(1, 16, UPCAST, dim 1); LOCAL(0, 1); SWAP(0, 1)",
       })
    EXPECT_TRUE(texts.contains(wanted)) << wanted;
}

TEST_F(NeighboursTest, OnAGpu) {
  target_ = v1::Target();
  target_.set_kind(v1::Target::NVPTX);
  target_.set_arch("sm_80");
  std::set<std::string> texts = Texts("");
  for (const char* wanted : {"SPLIT(1, 16, LOCAL)", "PADTO(1, 32, clamp); SPLIT(1, 32, LOCAL)", "SPLIT(0, 32, LOCAL)",
                             "SPLIT(2, 64, GROUP_REDUCE)", "SPLIT(2, 8, GROUP_REDUCE)", "SPLIT(1, 4, UPCAST)"})
    EXPECT_TRUE(texts.contains(wanted)) << wanted;
  EXPECT_FALSE(texts.contains("TC(0, 1, MMA_64X64)"));  // of float32
  texts = Texts("SPLIT(1, 16, LOCAL)");
  for (const char* wanted : {"", "SPLIT(1, 8, LOCAL)", "PADTO(1, 32, clamp); SPLIT(1, 32, LOCAL)",
                             "SPLIT(1, 16, LOCAL); SPLIT(0, 32, LOCAL)"})
    EXPECT_TRUE(texts.contains(wanted)) << wanted;

  kernel_ = Halves();
  texts = Texts("");
  for (const char* wanted : {"TC(0, 1, MMA_64X64)", "TC(1, 0, MMA_32X32)", "SPLIT(0, 32, LOCAL)"})
    EXPECT_TRUE(texts.contains(wanted)) << wanted;
  EXPECT_FALSE(texts.contains("TC(0, 1, WGMMA_128X128)"));  // Hopper's
  texts = Texts("TC(0, 1, MMA_64X64)");
  for (const char* wanted : {"", "TC(0, 1, MMA_32X32)", "TC(0, 1, MMA_128X128)"})
    EXPECT_TRUE(texts.contains(wanted)) << wanted;
}

// From wherever a search gets to, all is legal, and there is an end to it.
TEST_F(NeighboursTest, AllAreLegalAndBounded) {
  Schedule at;
  for (size_t step = 0; step < 30; ++step) {
    const std::vector<Schedule> next = Neighbours(graph_, kernel_, at, target_);
    ASSERT_LE(next.size(), kMaxNeighbours);
    if (next.empty()) break;
    for (const Schedule& schedule : next) {
      CheckedSchedule checked(graph_, kernel_, target_);
      for (const OptOp& opt : schedule) ASSERT_TRUE(checked.Apply(opt).ok()) << ToString(schedule);
      EXPECT_FALSE(checked.threads());
      EXPECT_LE(schedule.size(), 24u);
    }
    at = next[step * 7 % next.size()];
  }
  EXPECT_EQ(Neighbours(graph_, kernel_, at, target_), Neighbours(graph_, kernel_, at, target_));
}

TEST_F(NeighboursTest, NoMoreAreLookedForThanAreWanted) {
  const std::vector<Schedule> all = Neighbours(graph_, kernel_, {}, target_);
  int asked = 0;
  const std::vector<Schedule> some = Neighbours(graph_, kernel_, {}, target_, [&] { return ++asked > 5; });
  EXPECT_LE(some.size(), 5u);
  EXPECT_LT(some.size(), all.size());
  EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin()));
}

TEST_F(NeighboursTest, OfWhatIsIllegalThereAreNone) { EXPECT_TRUE(Texts("SPLIT(7, 2, UPCAST)").empty()); }

}  // namespace
}  // namespace kiln::compiler
