#include "compiler/import/functions.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/import/wire.h"

namespace kiln::compiler {
namespace {

absl::StatusOr<std::string> Read(const std::string& text, const Limits& limits = Limits()) {
  const auto wire = ParseGraph(text);
  if (!wire.ok()) return wire.status();
  Graph graph;
  const auto root = FromWire(*wire, limits, graph);
  if (!root.ok()) return root.status();
  v1::Graph core = ToWire(*root);
  for (auto& node : *core.mutable_nodes()) node.clear_dtype();
  return PrintGraph(core);
}

// Four-element vectors by slot; f(a, b) = a - 2b as node 8.
constexpr char kHead[] = R"(0 CONST [] weakint 4
1 STACK [0]
2 PARAM [1] slot=0 dtype=int32
3 PARAM [1] slot=1 dtype=int32
4 CONST [] weakint 2
5 MUL [3, 4]
6 SUB [2, 5]
7 TUPLE [6]
)";

std::string With(const std::string& rest) { return kHead + rest; }

TEST(Functions, AParamInsideIsNotTheSameParamOutside) {
  // f(slot 1, slot 0): the very nodes that are its own arguments, the other way round.
  const auto read = Read(With("8 FUNCTION [7, 3, 2]\n9 GETTUPLE [8] index=0\n10 TUPLE [9]\n"));
  const auto by_hand = Read(With("8 MUL [2, 4]\n9 SUB [3, 8]\n10 TUPLE [9]\n"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, *by_hand);
}

TEST(Functions, ArgumentsAreNotLookedInto) {
  // f(f(b, a), a).
  const auto read =
      Read(With("8 FUNCTION [7, 3, 2]\n9 GETTUPLE [8] index=0\n10 FUNCTION [7, 9, 2]\n11 GETTUPLE [10] index=0\n12 "
                "TUPLE [11]\n"));
  const auto by_hand = Read(With("8 MUL [2, 4]\n9 SUB [3, 8]\n10 SUB [9, 8]\n11 TUPLE [10]\n"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, *by_hand);
}

TEST(Functions, BodiesMayCall) {
  // g(x, y) = f(y, x) + x; g(b, a).
  const auto read = Read(
      With("8 FUNCTION [7, 3, 2]\n9 GETTUPLE [8] index=0\n10 ADD [9, 2]\n11 TUPLE [10]\n12 FUNCTION [11, 3, 2]\n13 "
           "GETTUPLE [12] index=0\n14 TUPLE [13]\n"));
  const auto by_hand = Read(With("8 SUB [2, 5]\n9 ADD [8, 3]\n10 TUPLE [9]\n"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, *by_hand);
}

TEST(Functions, WeakArgumentsTakeTheDtypeOfTheirParam) {
  const auto read = Read(
      "0 STACK []\n1 PARAM [0] slot=0 dtype=float32\n2 TUPLE [1]\n3 CONST [] weakint 3\n4 FUNCTION [2, 3]\n5 "
      "GETTUPLE [4] index=0\n6 TUPLE [5]\n");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, "0 CONST [] float32 3.0\n1 TUPLE [0]\n");
}

TEST(Functions, ACallStoresToItsArguments) {
  const auto read =
      Read(With("8 STORE [2, 6]\n9 AFTER [2, 8]\n10 SINK [9]\n11 CALL [10, 3, 2]\n12 AFTER [3, 11]\n13 "
                "TUPLE [12]\n"));
  const auto by_hand =
      Read(With("8 MUL [2, 4]\n9 SUB [3, 8]\n10 STORE [3, 9]\n11 GROUP [10]\n12 AFTER [3, 11]\n13 "
                "TUPLE [12]\n"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, *by_hand);
}

TEST(Functions, ACallMayBeTheRoot) {
  const auto read = Read(With("8 STORE [2, 6]\n9 AFTER [2, 8]\n10 SINK [9]\n11 CALL [10, 3, 2]\n"));
  const auto by_hand = Read(With("8 MUL [2, 4]\n9 SUB [3, 8]\n10 STORE [3, 9]\n11 GROUP [10]\n12 SINK [11]\n"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, *by_hand);
}

struct Bad {
  const char* rest;
  v1::ErrorCode code;
  uint32_t node;
  int slot;  // -1: none
};

class BadCall : public ::testing::TestWithParam<Bad> {};

TEST_P(BadCall, IsRefusedWithNodeAndSlot) {
  const auto read = Read(With(GetParam().rest));
  ASSERT_FALSE(read.ok());
  const auto detail = DetailOf(read.status());
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->code(), GetParam().code) << read.status();
  EXPECT_EQ(detail->node(), GetParam().node) << read.status();
  EXPECT_EQ(detail->has_slot() ? static_cast<int>(detail->slot()) : -1, GetParam().slot) << read.status();
}

INSTANTIATE_TEST_SUITE_P(
    Functions, BadCall,
    ::testing::Values(Bad{"8 FUNCTION [7, 2]\n", v1::WRONG_SOURCE_COUNT, 8, 1},
                      Bad{"8 CAST [2] to=int64\n9 FUNCTION [7, 2, 8]\n", v1::DTYPE_MISMATCH, 9, 1},
                      Bad{"8 CONST [] weakint 3\n9 STACK [8]\n10 PARAM [9] slot=2 dtype=int32\n11 FUNCTION [7, 10, "
                          "2]\n",
                          v1::SHAPE_MISMATCH, 11, 0},
                      Bad{"8 FUNCTION [6, 2, 3]\n", v1::BAD_ARGUMENT, 8, -1},
                      Bad{"8 FUNCTION []\n", v1::WRONG_SOURCE_COUNT, 8, -1},
                      Bad{"8 FUNCTION [7, 2, 3]\n9 GETTUPLE [8] index=1\n", v1::BAD_ARGUMENT, 9, -1},
                      Bad{"8 SINK [6]\n9 CALL [8, 2, 3]\n", v1::BAD_ARGUMENT, 9, -1},
                      Bad{"8 CALL [7, 2, 3]\n", v1::BAD_ARGUMENT, 8, -1}));

// f_0(x) = x * x, f_k(x) = f_{k-1}(x) + f_{k-1}(x + k): doubles at every level.
std::string Doubling(int levels) {
  std::string text = "0 STACK []\n1 PARAM [0] slot=0 dtype=int32\n2 MUL [1, 1]\n3 TUPLE [2]\n";
  int body = 3, n = 4;
  for (int k = 1; k <= levels; ++k, n += 8) {
    absl::StrAppend(&text, n, " FUNCTION [", body, ", 1]\n", n + 1, " GETTUPLE [", n, "] index=0\n");
    absl::StrAppend(&text, n + 2, " CONST [] weakint ", k, "\n", n + 3, " ADD [1, ", n + 2, "]\n");
    absl::StrAppend(&text, n + 4, " FUNCTION [", body, ", ", n + 3, "]\n", n + 5, " GETTUPLE [", n + 4, "] index=0\n");
    absl::StrAppend(&text, n + 6, " ADD [", n + 1, ", ", n + 5, "]\n", n + 7, " TUPLE [", n + 6, "]\n");
    body = n + 7;
  }
  return text;
}

TEST(Functions, DoublingAtEveryLevelMeetsTheNodeLimit) {
  EXPECT_TRUE(Read(Doubling(10)).ok()) << Read(Doubling(10)).status();
  const auto read = Read(Doubling(60));
  ASSERT_FALSE(read.ok());
  const auto detail = DetailOf(read.status());
  EXPECT_EQ(detail->code(), v1::GRAPH_TOO_LARGE);
  EXPECT_EQ(detail->limit(), "nodes");
  EXPECT_EQ(detail->limit_value(), Limits().max_nodes);
}

TEST(Functions, ABodyThatIgnoresItsArgumentsCostsItsNodesEachTime) {
  std::string text = "0 STACK []\n1 PARAM [0] slot=0 dtype=int32\n2 ADD [1, 1]\n";
  for (int i = 3; i < 500; ++i) absl::StrAppend(&text, i, " CONST [] int32 ", i, "\n");
  std::string all;
  for (int i = 3; i < 500; ++i) absl::StrAppend(&all, all.empty() ? "" : ", ", i);
  absl::StrAppend(&text, "500 STACK [", all, "]\n501 TUPLE [500]\n");
  for (int i = 0; i < 20; ++i) absl::StrAppend(&text, 502 + i, " FUNCTION [501, ", 3 + i, "]\n");
  Limits limits;
  limits.max_nodes = 5000;
  const auto read = Read(text, limits);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(DetailOf(read.status())->code(), v1::GRAPH_TOO_LARGE);
}

}  // namespace
}  // namespace kiln::compiler
