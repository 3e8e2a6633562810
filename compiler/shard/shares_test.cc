// What one of two devices computes of a graph on both, and what it gets from the other.
#include "compiler/shard/shares.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/import/wire.h"

namespace kiln::compiler {
namespace {

// x: slot 0, float32 (4, 6), its rows split; w: slot 1, float32 (4, 6), likewise.
constexpr char kInputs[] =
    "0 CONST [] weakint 4\n1 CONST [] weakint 6\n2 STACK [0, 1]\n"
    "3 PARAM [2] slot=0 dtype=float32 device=(\"A\", \"B\")\n"
    "4 PARAM [2] slot=1 dtype=float32 device=(\"A\", \"B\")\n";

class SharesTest : public testing::Test {
 protected:
  absl::StatusOr<Shares> Take(absl::string_view nodes) {
    auto wire = ParseGraph(absl::StrCat(kInputs, nodes));
    EXPECT_TRUE(wire.ok()) << wire.status();
    KILN_ASSIGN_OR_RETURN(UOp * root, FromWire(*wire, Limits(), graph_));
    return TakeShares(graph_, root);
  }

  Graph graph_;
};

TEST_F(SharesTest, WhatStaysWhereItIsNeedsNoOther) {
  const auto shares = Take("5 ADD [3, 4]\n6 TUPLE [5]\n");
  ASSERT_TRUE(shares.ok()) << shares.status();
  ASSERT_EQ(shares->parameters.size(), 2u);
  EXPECT_EQ(shares->parameters[0].whole->shape(), (Shape{4, 6}));
  EXPECT_EQ(shares->parameters[0].share->shape(), (Shape{2, 6}));
  EXPECT_EQ(shares->parameters[0].layout, (Layout{"A,B", 0}));
  ASSERT_EQ(shares->results.size(), 1u);
  EXPECT_EQ(shares->results[0].value->op(), Op::ADD);
  EXPECT_EQ(shares->results[0].value->shape(), (Shape{2, 6}));
  EXPECT_EQ(shares->results[0].layout, (Layout{"A,B", 0}));
  EXPECT_EQ(shares->results[0].aliases, std::nullopt);
  EXPECT_TRUE(shares->transfers.empty());
  EXPECT_TRUE(shares->stores.empty());
}

TEST_F(SharesTest, AReduceAlongTheSplitAxisIsATransferOfParts) {
  const auto shares = Take("5 REDUCE [3] MAX axes=(0)\n6 TUPLE [5]\n");
  ASSERT_TRUE(shares.ok()) << shares.status();
  ASSERT_EQ(shares->transfers.size(), 1u);
  const Transfer& transfer = shares->transfers[0];
  EXPECT_EQ(transfer.source->op(), Op::REDUCE);
  EXPECT_EQ(transfer.source->src(0)->shape(), (Shape{2, 6}));
  EXPECT_EQ(transfer.target->op(), Op::PARAM);
  EXPECT_EQ(transfer.shape, (Shape{1, 6}));
  EXPECT_EQ(transfer.to, (Layout{"A,B", -1}));
  EXPECT_EQ(transfer.reduce_op, Op::MAX);
  EXPECT_EQ(shares->results[0].value, transfer.target);
}

TEST_F(SharesTest, AReduceAlongAnotherAxisIsNone) {
  const auto shares = Take("5 REDUCE [3] ADD axes=(1)\n6 TUPLE [5]\n");
  ASSERT_TRUE(shares.ok()) << shares.status();
  EXPECT_TRUE(shares->transfers.empty());
  EXPECT_EQ(shares->results[0].value->shape(), (Shape{2, 1}));
}

TEST_F(SharesTest, WhatIsUpdatedInPlaceIsTheParameter) {
  const auto shares = Take("5 ADD [3, 4]\n6 STORE [4, 5]\n7 AFTER [4, 6]\n8 TUPLE [7]\n");
  ASSERT_TRUE(shares.ok()) << shares.status();
  ASSERT_EQ(shares->stores.size(), 1u);
  EXPECT_EQ(shares->stores[0]->src(1)->shape(), (Shape{2, 6}));
  ASSERT_EQ(shares->parameters.size(), 2u);
  EXPECT_TRUE(shares->parameters[0].stores.empty());
  EXPECT_EQ(shares->parameters[1].stores, shares->stores);
  EXPECT_EQ(shares->results[0].aliases, 1u);
}

}  // namespace
}  // namespace kiln::compiler
