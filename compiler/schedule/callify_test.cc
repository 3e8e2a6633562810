#include "compiler/schedule/callify.h"

#include <gtest/gtest.h>

#include "compiler/testing/read_text.h"

namespace kiln::compiler {
namespace {

TEST(Callify, SlotsArePositionsAndResultsHaveBuffers) {
  Graph graph;
  const auto function = Callify(graph, ReadText(graph, R"(
    0 CONST : weakint [] 4
    1 STACK [0]
    2 PARAM : float32 [1] slot=5
    3 PARAM : float32 [1] slot=9
    4 ADD [2, 3]
    5 STORE [2, 4]
    6 AFTER [2, 5]
    7 EXP2 [3]
    8 TUPLE [6, 7]
  )"));
  ASSERT_TRUE(function.ok()) << function.status();
  ASSERT_EQ(function->parameters.size(), 2u);
  EXPECT_EQ(function->parameters[0]->arg_as<BufferArg>().slot, 5u);
  EXPECT_EQ(function->written, (std::vector<bool>{true, false}));
  ASSERT_EQ(function->results.size(), 2u);
  EXPECT_EQ(function->results[0].aliases, 0u);
  EXPECT_EQ(function->results[0].buffer, nullptr);
  ASSERT_NE(function->results[1].buffer, nullptr);
  EXPECT_FALSE(function->results[1].aliases.has_value());
  // The update, and the store of the result.
  EXPECT_EQ(function->sink->op(), Op::SINK);
  EXPECT_EQ(function->sink->src().size(), 2u);
  EXPECT_EQ(CountOf(function->sink, Op::STORE), 2u);
  EXPECT_EQ(CountOf(function->sink, Op::BUFFER), 1u);
}

}  // namespace
}  // namespace kiln::compiler
