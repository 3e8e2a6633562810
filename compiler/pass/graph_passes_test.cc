#include "compiler/pass/graph_passes.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/graph/graph_text.h"

namespace kiln::compiler {
namespace {

class NormaliseTest : public testing::Test {
 protected:
  absl::StatusOr<UOp*> Normalised(absl::string_view text, bool shards = false) {
    auto wire = ParseGraph(text);
    EXPECT_TRUE(wire.ok()) << wire.status();
    wire_ = *std::move(wire);
    lowering_.wire = &wire_;
    return shards ? NormaliseShards(lowering_) : Normalise(lowering_);
  }
  static bool Has(UOp* root, Op op) {
    for (const UOp* uop : Toposort(root)) {
      if (uop->op() == op) return true;
    }
    return false;
  }

  v1::Graph wire_;
  Options options_;
  Graph graph_;
  Lowering lowering_{graph_, options_};
};

constexpr char kTensor[] = R"(
  0 CONST [] weakint 8
  1 STACK [0]
  2 PARAM [1] slot=0 dtype=float32
  3 PARAM [1] slot=1 dtype=float32
  4 SUB [2, 3]
  5 TUPLE [4]
)";
constexpr char kProgram[] = R"(
  0 CONST [] weakint 8
  1 STACK [0]
  2 PARAM [1] slot=0 dtype=float32
  3 CONST [] int64 0
  4 INDEX [2, 3]
  5 CONST [] float32 1.0
  6 STORE [4, 5]
  7 SINK [6]
  8 LINEAR [2, 3, 4, 5, 6, 7]
)";

TEST_F(NormaliseTest, OnlyCoreOpsAreLeft) {
  const auto root = Normalised(kTensor);
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ((*root)->op(), Op::TUPLE);
  EXPECT_EQ((*root)->src(0)->op(), Op::ADD);
  EXPECT_EQ((*root)->src(0)->shape(), (Shape{8}));
  EXPECT_TRUE(lowering_.function.bodies.empty());
}

TEST_F(NormaliseTest, ATooLargeGraphIsRefusedWithTheLimit) {
  options_.limits.max_nodes = 5;
  const auto root = Normalised(kTensor);
  ASSERT_FALSE(root.ok());
  const auto detail = DetailOf(root.status());
  EXPECT_EQ(detail->code(), v1::GRAPH_TOO_LARGE);
  EXPECT_EQ(detail->limit_value(), 5u);
}

TEST_F(NormaliseTest, AProgramByHandIsForOneDevice) {
  const auto one = Normalised(kProgram);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ((*one)->op(), Op::LINEAR);
  const auto several = Normalised(kProgram, true);
  ASSERT_FALSE(several.ok());
  EXPECT_EQ(DetailOf(several.status())->code(), v1::UNSUPPORTED_OP);
}

}  // namespace
}  // namespace kiln::compiler
