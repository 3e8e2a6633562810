#include "compiler/program/work_groups.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "base/error.h"
#include "compiler/program/program_values.h"
#include "compiler/testing/read_text.h"

namespace kiln::compiler {
namespace {

// Four groups of 16 items: each reverses its 16 elements by way of shared memory, of $0 elements.
constexpr char kReverse[] = R"(
  0 CONST : weakint [] 64
  1 STACK : weakint [0]
  2 PARAM : int32 [1] slot=0 space=GLOBAL
  3 PARAM : int32 [1] slot=1 space=GLOBAL
  4 CONST : weakint [] $0
  5 STACK : weakint [4]
  6 BUFFER : int32 [5] slot=0 space=LOCAL
  7 CONST : int64 [] 4
  8 CONST : int64 [] 16
  9 CONST : int64 [] 15
  10 SPECIAL : int64 [7] special="gidx0"
  11 SPECIAL : int64 [8] special="lidx0"
  12 MUL : int64 [10, 8]
  13 ADD : int64 [12, 11]
  14 INDEX : int32 [3, 13]
  15 LOAD : int32 [14]
  16 INDEX : int32 [6, 11]
  17 STORE : void [16, 15]
  18 BARRIER : void [17]
  19 CONST : int64 [] -1
  20 MUL : int64 [11, 19]
  21 ADD : int64 [20, 9]
  22 AFTER : int32 [6, 18]
  23 INDEX : int32 [22, 21]
  24 LOAD : int32 [23]
  25 INDEX : int32 [2, 13]
  26 STORE : void [25, 24]
  27 LINEAR : void [10, 11, 12, 13, 14, 15, 16, 17, 18, 20, 21, 22, 23, 24, 25, 26] kernel name="reverse_16"
)";

class WorkGroupsTest : public testing::Test {
 protected:
  absl::StatusOr<UOp*> Lowered(int64_t elements, Zeros zeros = Zeros::kStored) {
    const auto named = NameValues(graph_, ReadText(graph_, absl::Substitute(kReverse, elements)),
                                  [](const WmmaArg&) { return false; });
    EXPECT_TRUE(named.ok()) << named.status();
    return LowerWorkGroups(graph_, *named, zeros);
  }

  Graph graph_;
};

std::vector<std::string> LoopsOf(const UOp* linear) {
  std::vector<std::string> loops;
  for (const UOp* uop : linear->src()) {
    if (uop->op() != Op::RANGE) continue;
    const bool thread = uop->arg_as<RangeArg>().type == AxisType::kThread;
    loops.push_back(absl::StrCat(thread ? "threads " : "loop ", uop->src(0)->const_int()));
  }
  return loops;
}

TEST_F(WorkGroupsTest, ABarrierEndsALoopOverTheItemsAndBeginsTheNext) {
  const auto lowered = Lowered(16, Zeros::kDeclared);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_EQ(CountOf(*lowered, Op::SPECIAL), 0u);
  EXPECT_EQ(CountOf(*lowered, Op::BARRIER), 0u);
  EXPECT_EQ(LoopsOf(*lowered), (std::vector<std::string>{"threads 4", "loop 16", "loop 16"}));
  // What each of the two loops does.
  std::vector<Op> ops;
  for (const UOp* uop : (*lowered)->src()) ops.push_back(uop->op());
  EXPECT_EQ(ops, (std::vector<Op>{Op::RANGE, Op::BUFFER, Op::RANGE, Op::AFTER, Op::STORE, Op::END, Op::RANGE, Op::AFTER,
                                  Op::STORE, Op::END, Op::END}));
}

TEST_F(WorkGroupsTest, SharedMemoryBeginsAsZeros) {
  const auto lowered = Lowered(16);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  // One vector, once.
  EXPECT_EQ(LoopsOf(*lowered), (std::vector<std::string>{"threads 4", "loop 1", "loop 16", "loop 16"}));
}

TEST_F(WorkGroupsTest, AGroupThatNeedsTooMuchMemoryIsRefused) {
  const auto lowered = Lowered(int64_t{1} << 26);
  ASSERT_FALSE(lowered.ok());
  EXPECT_EQ(DetailOf(lowered.status())->code(), v1::GRAPH_TOO_LARGE) << lowered.status();
}

}  // namespace
}  // namespace kiln::compiler
