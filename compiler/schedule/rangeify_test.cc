#include "compiler/schedule/rangeify.h"

#include <gtest/gtest.h>

#include "compiler/interp/kernel_eval.h"
#include "compiler/schedule/callify.h"
#include "compiler/testing/read_text.h"

namespace kiln::compiler {
namespace {

constexpr char kTwice[] = R"(
  0 CONST : weakint [] 2
  1 CONST : weakint [] 3
  2 STACK [0, 1]
  3 PARAM : int32 [2] slot=0
  4 PERMUTE [3] axes=(1, 0)
  5 ADD [4, 4]
  6 TUPLE [5]
)";

TEST(Rangeify, MovementIsArithmeticOnIndices) {
  Graph graph;
  const auto function = Callify(graph, ReadText(graph, kTwice));
  const auto calls = Rangeify(graph, function->sink, {}, {});
  ASSERT_TRUE(calls.ok()) << calls.status();
  ASSERT_EQ((*calls)->src().size(), 1u);
  const UOp* call = (*calls)->src(0);
  EXPECT_EQ(call->src(1), function->results[0].buffer);
  EXPECT_EQ(call->src(2), function->parameters[0]);
  EXPECT_EQ(CountOf(call->src(0), Op::PERMUTE), 0u);
  KernelMemory memory = {{0, std::vector<uint64_t>(6, 0)}, {1, {1, 2, 3, 4, 5, 6}}};
  ASSERT_TRUE(EvalKernel(call->src(0), memory).ok());
  EXPECT_EQ(memory[0], (std::vector<uint64_t>{2, 8, 4, 10, 6, 12}));
}

TEST(Rangeify, AValueThatIsRealizedHasAKernelAndABufferOfItsOwn) {
  Graph graph;
  const auto function = Callify(graph, ReadText(graph, kTwice));
  UOp* value = function->sink->src(0)->src(1)->src(0);
  ASSERT_EQ(value->op(), Op::PERMUTE);
  const auto calls = Rangeify(graph, function->sink, {}, {value});
  ASSERT_TRUE(calls.ok()) << calls.status();
  ASSERT_EQ((*calls)->src().size(), 2u);
  const UOp *first = (*calls)->src(0), *second = (*calls)->src(1);
  EXPECT_EQ(first->src(1), second->src(2));
  EXPECT_EQ(first->src(1)->op(), Op::BUFFER);
}

}  // namespace
}  // namespace kiln::compiler
