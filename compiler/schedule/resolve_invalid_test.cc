#include "compiler/schedule/resolve_invalid.h"

#include <gtest/gtest.h>

#include "base/graph/graph_text.h"
#include "compiler/import/wire.h"
#include "compiler/schedule/callify.h"

namespace kiln::compiler {
namespace {

class ResolveInvalidTest : public ::testing::Test {
 protected:
  // Resolves the SINK of a program; p is (3), padded is (5).
  void Resolve(const std::string& lines) {
    const auto wire = ParseGraph(
        "0 CONST [] weakint 3\n1 STACK [0]\n2 PARAM [1] slot=0 dtype=int32\n3 CONST [] weakint 1\n4 STACK [3]\n"
        "5 CONST [] weakint 5\n6 STACK [5]\n7 PAD [2, 4, 6]\n" +
        lines);
    ASSERT_TRUE(wire.ok()) << wire.status();
    const auto root = FromWire(*wire, Limits(), graph_);
    ASSERT_TRUE(root.ok()) << root.status();
    const auto function = Callify(graph_, *root);
    ASSERT_TRUE(function.ok()) << function.status();
    before_ = function->sink;
    after_ = ResolveInvalid(graph_, before_);
    for (UOp* uop : Toposort(after_)) {
      EXPECT_FALSE(uop->IsInvalid());
      if (uop->op() == Op::PAD) {
        EXPECT_TRUE(std::holds_alternative<ConstArg>(uop->arg()));
      }
    }
  }
  Graph graph_;
  UOp* before_ = nullptr;
  UOp* after_ = nullptr;
};

TEST_F(ResolveInvalidTest, NothingInvalidNothingChanged) {
  Resolve("8 NEG [2]\n9 TUPLE [8]");
  EXPECT_EQ(after_, before_);
}

TEST_F(ResolveInvalidTest, AResultGetsZeros) {
  Resolve("8 ADD [7, 3]\n9 TUPLE [8]");
  const UOp* value = after_->src(0)->src(1);
  EXPECT_EQ(value->op(), Op::WHERE);
  EXPECT_TRUE(value->src(2)->IsConstInt(0));
}

TEST_F(ResolveInvalidTest, AReductionGetsItsIdentity) {
  Resolve("8 REDUCE [7] MUL axes=(0)\n9 TUPLE [8]");
  const UOp* reduce = after_->src(0)->src(1);
  ASSERT_EQ(reduce->op(), Op::REDUCE);
  EXPECT_EQ(reduce->src(0)->op(), Op::WHERE);
  EXPECT_TRUE(reduce->src(0)->src(2)->IsConstInt(1));
}

TEST_F(ResolveInvalidTest, AStoreToAParameterGetsAGate) {
  Resolve("8 PARAM [6] slot=1 dtype=int32\n9 STORE [8, 7]\n10 SINK [9]");
  const UOp* store = after_->src(0);
  ASSERT_EQ(store->src().size(), 3u);
  EXPECT_EQ(store->src(2)->dtype(), DType::kBool);
  EXPECT_EQ(store->src(2)->shape(), Shape{5});
}

TEST_F(ResolveInvalidTest, AnInvalidIndexPointsOutOfRange) {
  Resolve("8 INDEX [2, 7]\n9 TUPLE [8]");
  const UOp* index = after_->src(0)->src(1);
  ASSERT_EQ(index->op(), Op::INDEX);
  EXPECT_TRUE(index->src(1)->src(2)->IsConstInt(-1));
}

}  // namespace
}  // namespace kiln::compiler
