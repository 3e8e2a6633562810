#include "compiler/schedule/split_reduce.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/callify.h"
#include "compiler/testing/read_text.h"

namespace kiln::compiler {
namespace {

UOp* SumOf(Graph& graph, int64_t size) {
  return Callify(graph, ReadText(graph, absl::StrCat("0 CONST : weakint [] ", size, R"(
    1 STACK [0]
    2 PARAM : float32 [1] slot=0
    3 REDUCE [2] ADD axes=(0)
    4 TUPLE [3]
  )")))
      ->sink;
}

TEST(SplitReductions, ALargeSumIsOneOfSums) {
  Graph graph;
  absl::flat_hash_set<UOp*> marked;
  UOp* split = SplitReductions(graph, SumOf(graph, 1 << 20), marked);
  EXPECT_EQ(CountOf(split, Op::REDUCE), 2u);
  ASSERT_EQ(marked.size(), 1u);
  EXPECT_EQ((*marked.begin())->op(), Op::REDUCE);
  EXPECT_EQ(ToString((*marked.begin())->shape()), "(64, 1)");
}

TEST(SplitReductions, ASmallOneStays) {
  Graph graph;
  absl::flat_hash_set<UOp*> marked;
  UOp* sink = SumOf(graph, 64);
  EXPECT_EQ(SplitReductions(graph, sink, marked), sink);
  EXPECT_TRUE(marked.empty());
}

}  // namespace
}  // namespace kiln::compiler
