#include "compiler/program/program_values.h"

#include <gtest/gtest.h>

#include <vector>

#include "compiler/testing/read_text.h"

namespace kiln::compiler {
namespace {

// One LOAD, listed twice: out[0] = x[0]; x[0] = x[0] + 1; out[1] = x[0].
constexpr char kReadTwice[] = R"(
  0 CONST : weakint [] 2
  1 STACK : weakint [0]
  2 CONST : weakint [] 1
  3 STACK : weakint [2]
  4 PARAM : int32 [1] slot=0 space=GLOBAL
  5 PARAM : int32 [3] slot=1 space=GLOBAL
  6 CONST : int64 [] 0
  7 CONST : int64 [] 1
  8 CONST : int32 [] 1
  9 INDEX : int32 [5, 6]
  10 LOAD : int32 [9]
  11 INDEX : int32 [4, 6]
  12 STORE : void [11, 10]
  13 ADD : int32 [10, 8]
  14 STORE : void [9, 13]
  15 INDEX : int32 [4, 7]
  16 STORE : void [15, 10]
  17 LINEAR : void [9, 10, 11, 12, 13, 14, 10, 15, 16] kernel name="read_twice"
)";

UOp* Named(Graph& graph, const char* text) {
  const auto named = NameValues(graph, ReadText(graph, text), [](const WmmaArg&) { return false; });
  EXPECT_TRUE(named.ok()) << named.status();
  return *named;
}

std::vector<Op> OpsOf(const UOp* linear) {
  std::vector<Op> ops;
  for (const UOp* uop : linear->src()) ops.push_back(uop->op());
  return ops;
}

TEST(NameValues, EachTimeThatALoadIsListedIsAReadOfItsOwn) {
  Graph graph;
  const UOp* named = Named(graph, kReadTwice);
  ASSERT_EQ(OpsOf(named), (std::vector<Op>{Op::AFTER, Op::STORE, Op::STORE, Op::AFTER, Op::STORE}));
  const UOp *first = named->src(0), *second = named->src(3);
  EXPECT_NE(first, second);
  EXPECT_EQ(first->src(0)->op(), Op::LOAD);
  EXPECT_EQ(second->src(0)->op(), Op::LOAD);
  EXPECT_EQ(named->src(1)->src(1), first);
  EXPECT_EQ(named->src(2)->src(1)->op(), Op::ADD);
  EXPECT_EQ(named->src(2)->src(1)->src(0), first);
  EXPECT_EQ(named->src(4)->src(1), second);
}

// The same RANGE, run twice: out[i] = i, and then out[i] = i once more.
constexpr char kLoopTwice[] = R"(
  0 CONST : weakint [] 4
  1 STACK : weakint [0]
  2 PARAM : int64 [1] slot=0 space=GLOBAL
  3 CONST : int64 [] 4
  4 RANGE : int64 [3] range=(0) type=LOOP
  5 INDEX : int64 [2, 4]
  6 STORE : void [5, 4]
  7 END : void [6, 4]
  8 LINEAR : void [4, 5, 6, 7, 4, 5, 6, 7] kernel name="loop_twice"
)";

TEST(NameValues, EveryLoopHasARangeOfItsOwn) {
  Graph graph;
  const UOp* named = Named(graph, kLoopTwice);
  ASSERT_EQ(OpsOf(named), (std::vector<Op>{Op::RANGE, Op::STORE, Op::END, Op::RANGE, Op::STORE, Op::END}));
  const UOp *first = named->src(0), *second = named->src(3);
  EXPECT_NE(first, second);
  EXPECT_EQ(named->src(1)->src(1), first);
  EXPECT_EQ(named->src(2)->src(1), first);
  EXPECT_EQ(named->src(4)->src(1), second);
  EXPECT_EQ(named->src(5)->src(1), second);
}

}  // namespace
}  // namespace kiln::compiler
