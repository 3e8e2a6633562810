#include "compiler/schedule/memory/memory_plan.h"

#include <gtest/gtest.h>

#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

class MemoryPlanTest : public testing::Test {
 protected:
  UOp* Buffer(int64_t floats) {
    BufferArg arg;
    arg.slot = static_cast<uint32_t>(graph_.NextId());
    arg.dtype = DType::kFloat32;
    return graph_.Make(Op::BUFFER, {ShapeSource(graph_, {floats})}, arg);
  }
  // A call that writes the first buffer and reads the others.
  void Call(std::vector<UOp*> buffers) {
    buffers.insert(buffers.begin(), graph_.Make(Op::SINK, {}, KernelArg{std::to_string(calls_.size()), {}, false}));
    calls_.push_back(graph_.Make(Op::CALL, buffers));
  }
  MemoryPlan Plan(const absl::flat_hash_set<UOp*>& external = {}) {
    return PlanMemory(graph_.Make(Op::LINEAR, calls_), external);
  }

  Graph graph_;
  std::vector<UOp*> calls_;
};

TEST_F(MemoryPlanTest, BuffersThatAreNeverAliveTogetherShareTheirPlace) {
  UOp *a = Buffer(16), *b = Buffer(16), *c = Buffer(16);
  Call({a});
  Call({b, a});
  Call({c, b});
  const MemoryPlan plan = Plan();
  EXPECT_EQ(plan.offsets.at(a), 0);
  EXPECT_EQ(plan.offsets.at(b), 64);
  EXPECT_EQ(plan.offsets.at(c), 0);
  EXPECT_EQ(plan.arena_bytes, 128);
}

TEST_F(MemoryPlanTest, PlacesAreAligned) {
  UOp *a = Buffer(1), *b = Buffer(3);
  Call({a});
  Call({b, a});
  const MemoryPlan plan = Plan();
  EXPECT_EQ(plan.offsets.at(a) % kArenaAlignment, 0);
  EXPECT_EQ(plan.offsets.at(b) % kArenaAlignment, 0);
  EXPECT_EQ(plan.arena_bytes, 2 * kArenaAlignment);
}

TEST_F(MemoryPlanTest, AHoleIsUsedWhereItFits) {
  UOp *large = Buffer(64), *small = Buffer(16), *later = Buffer(32);
  Call({large});
  Call({small, large});
  Call({later, small});
  const MemoryPlan plan = Plan();
  EXPECT_EQ(plan.offsets.at(large), 0);
  EXPECT_EQ(plan.offsets.at(small), 256);
  EXPECT_EQ(plan.offsets.at(later), 0);
  EXPECT_EQ(plan.arena_bytes, 320);
  EXPECT_EQ(plan.alive_bytes, 320);
}

// Two that are alive together, and one that is alive with neither.
TEST_F(MemoryPlanTest, WhatIsAliveAtOnceIsCounted) {
  UOp *a = Buffer(16), *b = Buffer(32), *c = Buffer(64);
  Call({a});
  Call({b, a});
  Call({c});
  EXPECT_EQ(Plan().alive_bytes, 256);
}

TEST_F(MemoryPlanTest, ResultsLiveElsewhere) {
  UOp *result = Buffer(16), *a = Buffer(16);
  Call({a});
  Call({result, a});
  const MemoryPlan plan = Plan({result});
  EXPECT_FALSE(plan.offsets.contains(result));
  EXPECT_EQ(plan.arena_bytes, 64);
}

}  // namespace
}  // namespace kiln::compiler
