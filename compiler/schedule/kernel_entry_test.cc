#include "compiler/schedule/kernel_entry.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/testing/read_text.h"

namespace kiln::compiler {
namespace {

TEST(EnterKernel, IsCalledWithItsParametersInOrderOfSlot) {
  Graph graph;
  Function function;
  const auto calls = EnterKernel(graph, ReadText(graph, R"(
    0 CONST : weakint [] 8
    1 STACK : weakint [0]
    2 PARAM : int32 [1] slot=7
    3 CONST : int64 [] 8
    4 RANGE : int64 [3] range=(0) type=LOOP
    5 INDEX [2, 4]
    6 PARAM : int32 [1] slot=3
    7 INDEX [6, 4]
    8 LOAD [7]
    9 STORE [5, 8]
    10 END [9, 4]
    11 SINK [10] kernel name="copy"
  )"),
                                 function);
  ASSERT_TRUE(calls.ok()) << calls.status();
  ASSERT_EQ((*calls)->op(), Op::LINEAR);
  ASSERT_EQ((*calls)->src().size(), 1u);
  const UOp* call = (*calls)->src(0);
  ASSERT_EQ(call->src().size(), 3u);
  EXPECT_EQ(call->src(1)->arg_as<BufferArg>().slot, 3u);
  EXPECT_EQ(call->src(2)->arg_as<BufferArg>().slot, 7u);
  EXPECT_EQ(function.written, (std::vector<bool>{false, true}));
  // In the body, slots are positions.
  std::vector<uint32_t> slots;
  for (const UOp* uop : Toposort(call->src(0))) {
    if (uop->op() == Op::PARAM) slots.push_back(uop->arg_as<BufferArg>().slot);
  }
  std::sort(slots.begin(), slots.end());
  EXPECT_EQ(slots, (std::vector<uint32_t>{0, 1}));
}

}  // namespace
}  // namespace kiln::compiler
