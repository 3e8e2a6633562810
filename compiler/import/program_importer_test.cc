#include "compiler/import/program_importer.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/import/wire.h"

namespace kiln::compiler {
namespace {

// The instructions that a program comes to, an op a word: "INDEX LOAD STORE".
absl::StatusOr<std::string> Listed(const std::string& text, const Limits& limits = Limits()) {
  const auto wire = ParseGraph(text);
  if (!wire.ok()) return wire.status();
  Graph graph;
  const auto root = FromWire(*wire, limits, graph);
  if (!root.ok()) return root.status();
  EXPECT_EQ((*root)->op(), Op::LINEAR);
  return absl::StrJoin((*root)->src(), " ",
                       [](std::string* out, const UOp* uop) { absl::StrAppend(out, std::string(Name(uop->op()))); });
}

std::string Legacy(const std::string& rest) {
  return absl::StrCat(
      "dialect LEGACY_2025\n"
      "0 DEFINE_GLOBAL : int32 [] slot=0\n"
      "1 CONST : int32 [] 0\n"
      "2 CONST : int32 [] 5\n",
      rest);
}

TEST(ProgramImporter, OldAccessesBecomePointers) {
  EXPECT_EQ(*Listed(Legacy("3 LOAD [0, 1]\n4 STORE [0, 2, 3]\n5 LINEAR [0, 1, 2, 3, 4]\n")),
            "PARAM INDEX LOAD INDEX STORE");
}

TEST(ProgramImporter, CountersAreCastToWhatTheySayTheyAre) {
  EXPECT_EQ(
      *Listed(Legacy("3 RANGE : int32 [1, 2] range=(0)\n4 STORE [0, 3, 3]\n5 ENDRANGE [3]\n6 LINEAR [3, 4, 5]\n")),
      "RANGE CAST INDEX STORE END");
  EXPECT_EQ(*Listed(Legacy("3 RANGE [1, 2] range=(0)\n4 STORE [0, 3, 2]\n5 ENDRANGE [3]\n6 LINEAR [3, 4, 5]\n")),
            "RANGE INDEX STORE END");
  // (2, 5): five less two iterations, and two more than each.
  EXPECT_EQ(*Listed(Legacy("3 CONST : int32 [] 2\n4 RANGE : int32 [3, 2] range=(0)\n5 STORE [0, 4, 4]\n6 ENDRANGE "
                           "[4]\n7 LINEAR [4, 5, 6]\n")),
            "CAST CAST MUL ADD RANGE ADD CAST INDEX STORE END");
}

std::string Today(const std::string& rest) {
  return absl::StrCat(
      "0 CONST [] weakint 8\n1 PARAM [0] slot=0 dtype=int32\n2 CONST [] weakint 3\n3 CONST [] weakint 4\n", rest);
}

TEST(ProgramImporter, ARangeOfTodayWaitsForItsFurtherSources) {
  // tinygrad's lowering says so which loop stands inside which, and which one behind.
  EXPECT_EQ(
      *Listed(Today("4 RANGE [2] range=(0)\n5 RANGE [3, 4] range=(1)\n6 CONST [] int32 1\n7 INDEX [1, 5]\n8 STORE "
                    "[7, 6]\n9 END [8, 5]\n10 END [9, 4]\n11 RANGE [2, 10] range=(2)\n12 INDEX [1, 11]\n13 STORE "
                    "[12, 6]\n14 END [13, 11]\n15 LINEAR [4, 5, 7, 8, 9, 10, 11, 12, 13, 14]\n")),
      "RANGE RANGE INDEX STORE END END RANGE INDEX STORE END");
}

TEST(ProgramImporter, WhatARangeWaitsForIsListedBeforeIt) {
  const auto late =
      Listed(Today("4 GROUP []\n5 RANGE [2] range=(0)\n6 END [4, 5]\n7 RANGE [3, 6] range=(1)\n8 END [4, 7]\n9 "
                   "LINEAR [7, 8, 5, 6]\n"));
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(DetailOf(late.status())->code(), v1::BAD_ARGUMENT) << late.status();
  EXPECT_EQ(DetailOf(late.status())->node(), 7u) << late.status();
  EXPECT_NE(late.status().message().find("source 1 (END) is not listed before it"), absl::string_view::npos)
      << late.status();
  // In a graph of a kernel, nothing lists it.
  const auto kernel = Listed(Today("4 RANGE [2] range=(0)\n5 RANGE [3, 4] range=(1)\n6 SINK [5]\n"));
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(DetailOf(kernel.status())->code(), v1::UNSUPPORTED_OP) << kernel.status();
  EXPECT_EQ(DetailOf(kernel.status())->node(), 5u) << kernel.status();
}

TEST(ProgramImporter, AccumulatorsAreReadAnewByEveryUser) {
  EXPECT_EQ(*Listed(Legacy("3 LOOP [1, 2]\n4 DEFINE_ACC : int32 [1, 3] slot=0\n5 ADD [4, 2]\n6 ASSIGN [4, 5]\n7 MUL "
                           "[4, 6]\n8 ASSIGN [6, 7]\n9 ENDLOOP [3]\n10 STORE [0, 1, 8]\n11 LINEAR [3, 4, 5, 6, 7, 8, "
                           "9, 10]\n")),
            "BUFFER INDEX STORE RANGE LOAD ADD STORE LOAD LOAD MUL STORE END INDEX LOAD STORE");
}

TEST(ProgramImporter, WhatOnlyComputesNeedNotBeListed) {
  // Inside the loop it is computed there; behind the loop, again.
  EXPECT_EQ(*Listed(Legacy("3 LOAD [0, 1]\n4 SUB [2, 3]\n5 LOOP [1, 2]\n6 STORE [0, 5, 4]\n7 ENDLOOP [5]\n8 STORE [0, "
                           "1, 4]\n9 LINEAR [3, 5, 6, 7, 8]\n")),
            "INDEX LOAD RANGE INDEX MUL ADD STORE END MUL ADD STORE");
}

TEST(ProgramImporter, WhatIsComputedFollowsItsSources) {
  // The LOAD is listed twice: SUB, which is two core nodes, sees the newer value.
  EXPECT_EQ(*Listed(Legacy("3 LOAD [0, 1]\n4 SUB [2, 3]\n5 STORE [0, 1, 4]\n6 LINEAR [3, 4, 5, 3, 4, 5]\n")),
            "INDEX LOAD MUL ADD STORE LOAD MUL ADD STORE");
}

TEST(ProgramImporter, NamesRunNothingAgain) {
  EXPECT_EQ(*Listed(Legacy("3 LOAD [0, 1]\n4 NOOP [3]\n5 NAME [] text=\"k\"\n6 STORE [0, 2, 4]\n7 LINEAR [5, 3, 4, "
                           "6]\n")),
            "INDEX LOAD INDEX STORE");
}

TEST(ProgramImporter, StorageHoldsEveryAccess) {
  Graph graph;
  const auto wire = ParseGraph(Legacy(
      "3 SPECIAL : int32 [2] special=\"gidx0\"\n4 MUL [3, 3]\n5 STORE [0, 4, 1]\n6 STORE [0, 2, 1]\n7 LINEAR [3, "
      "4, 5, 6]\n"));
  const auto root = FromWire(*wire, Limits(), graph);
  ASSERT_TRUE(root.ok()) << root.status();
  // gidx0² is at most 16.
  EXPECT_EQ((*root)->src(3)->src(0)->shape(), Shape{17});
}

TEST(ProgramImporter, EndsNameTheInnermostLoopLast) {
  Graph graph;
  const auto wire = ParseGraph(
      "0 CONST [] weakint 4\n1 RANGE [0] range=(0)\n2 RANGE [0] range=(1)\n3 GROUP []\n4 END [3, 2, 1]\n5 LINEAR [1, "
      "2, "
      "4]\n");
  const auto root = FromWire(*wire, Limits(), graph);
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ((*root)->src(2)->src(1), (*root)->src(0));
  EXPECT_EQ((*root)->src(2)->src(2), (*root)->src(1));
}

TEST(ProgramImporter, WithoutAListAccumulatorsAreOrderedByAfter) {
  // The graph of a kernel as the older documents draw it: SINK(STORE(..., ASSIGN)).
  Graph graph;
  const auto wire = ParseGraph(Legacy(
      "3 CONST [] weakint 5\n4 DEFINE_GLOBAL : int32 [3] slot=1\n5 RANGE : int32 [1, 2] range=(0)\n6 DEFINE_ACC "
      ": int32 [1, 5] slot=0\n7 LOAD [4, 5]\n8 ADD [6, 7]\n9 ASSIGN [6, 8]\n10 STORE [0, 1, 9]\n11 SINK [10]\n"));
  const auto root = FromWire(*wire, Limits(), graph);
  ASSERT_TRUE(root.ok()) << root.status();
  const UOp* value = (*root)->src(0)->src(1);
  ASSERT_EQ(value->op(), Op::LOAD);
  const UOp* after = value->src(0)->src(0);
  ASSERT_EQ(after->op(), Op::AFTER);
  EXPECT_EQ(after->src(0)->op(), Op::BUFFER);
  EXPECT_EQ(after->src(1)->op(), Op::END);
}

struct Bad {
  const char* rest;
  v1::ErrorCode code;
  uint32_t node;
  const char* says;
};

TEST(ProgramImporter, RefusesWithNodeAndReason) {
  const Bad rows[] = {
      {"3 CUSTOM [1] text=\"asm(0)\"\n", v1::NOT_ALLOWED, 3, "--allow_native_code"},
      {"3 SOURCE [] text=\"int main\"\n", v1::NOT_ALLOWED, 3, "code of the client's own"},
      {"3 LOAD [0, 1]\n4 LOAD [0, 3]\n5 LINEAR [3, 4]\n", v1::BAD_ARGUMENT, 0, "no bound below 2^31"},
      {"3 ADD [0, 1]\n4 LINEAR [3]\n", v1::BAD_ARGUMENT, 0, "is used whole"},
      {"3 CONST [] bool true\n4 LOAD [0, 1, 3, 3]\n", v1::DTYPE_MISMATCH, 4, "both gates"},
      {"3 LOAD [0, 1, 1, 2]\n", v1::DTYPE_MISMATCH, 3, "both alternatives"},
      {"3 CONST [] bool true\n4 LOAD [0, 1, 3, 1, 1]\n", v1::WRONG_SOURCE_COUNT, 4, "3 values beside its place"},
      {"3 CONST [] bool true\n4 INDEX [0, 1, 3]\n5 ADD [4, 1]\n", v1::UNSUPPORTED_OP, 5, "validity mask"},
      {"3 ENDLOOP [1]\n", v1::BAD_ARGUMENT, 3, "closes a RANGE or LOOP, not CONST"},
      {"3 LOOP [1, 2, 2]\n", v1::WRONG_SOURCE_COUNT, 3, "(start, end)"},
      {"3 DEFINE_ACC : int32 [1, 2] slot=0\n", v1::BAD_ARGUMENT, 3, "must be RANGEs"},
      {"3 LOOP [1, 2]\n4 DEFINE_ACC : int32 [1, 3] slot=65536\n", v1::BAD_ARGUMENT, 4, "slots are below 65536"},
      {"3 CONST [] weakint 1\n4 BUFFER : int32 [3] slot=16777216 space=REG\n5 LOOP [1, 2]\n6 DEFINE_ACC : int32 [1, 5] "
       "slot=0\n7 LINEAR [4, 6]\n",
       v1::BAD_ARGUMENT, 6, "which are the accumulators'"},
      {"3 VECTORIZE [1, 2]\n4 GEP [3] axes=(2)\n", v1::BAD_ARGUMENT, 4, "lane 2 of 2"},
      {"3 VECTORIZE [1, 2]\n4 VECTORIZE [3, 3]\n", v1::SHAPE_MISMATCH, 4, "CAT joins vectors"},
      {"3 VECTORIZE [1, 2]\n4 UNROLL [3] axes=(0, 2)\n5 UNROLL [3] axes=(1, 2)\n6 ADD [4, 5]\n", v1::UNSUPPORTED_OP, 6,
       "different axes"},
      {"3 VECTORIZE [1, 2]\n4 CONTRACT [3] axes=(0, 2)\n", v1::UNSUPPORTED_OP, 4, "UNROLLed over"},
      {"3 VCONST [] data=\"abc\"\n", v1::BAD_ARGUMENT, 3, "VCONST wants"},
  };
  for (const Bad& row : rows) {
    const auto listed = Listed(Legacy(row.rest));
    ASSERT_FALSE(listed.ok()) << row.rest;
    const auto detail = DetailOf(listed.status());
    ASSERT_TRUE(detail.has_value()) << listed.status();
    EXPECT_EQ(v1::ErrorCode_Name(detail->code()), v1::ErrorCode_Name(row.code)) << listed.status();
    EXPECT_EQ(detail->node(), row.node) << listed.status();
    EXPECT_NE(listed.status().message().find(row.says), absl::string_view::npos) << listed.status();
  }
}

TEST(ProgramImporter, CodeThatIsAllowedIsReadInALinearAlone) {
  Limits limits;
  limits.allow_native_code = true;
  const Bad rows[] = {
      {"3 CUSTOMI [1] text=\"x\"\n4 LINEAR [3]\n", v1::BAD_ARGUMENT, 3, "wants a dtype"},
      {"3 CUSTOMI : int32 [1] text=\"{1}\"\n4 LINEAR [3]\n", v1::BAD_ARGUMENT, 3, "beyond the 1"},
      {"3 CUSTOM [1]\n4 LINEAR [3]\n", v1::BAD_ARGUMENT, 3, "wants its code"},
      {"3 CUSTOM [1] text=\"x\"\n4 SINK [3]\n", v1::UNSUPPORTED_OP, 3, "of a LINEAR program alone"},
      {"3 SOURCE [] text=\"int main\"\n4 PROGRAM [3]\n", v1::BAD_ARGUMENT, 4, "wants a LINEAR"},
      {"3 SOURCE [] text=\"int main\"\n4 LINEAR [1]\n5 PROGRAM [3, 4]\n", v1::BAD_ARGUMENT, 5, "wants a name"},
      {"3 LINEAR [1]\n4 BINARY [] data=\"x\"\n5 PROGRAM [3, 4]\n", v1::UNSUPPORTED_OP, 5, "machine code"},
      {"3 CUSTOM_FUNCTION [] text=\"encdec\"\n4 LINEAR [1]\n", v1::NOT_ALLOWED, 3, "lists no function"},
  };
  for (const Bad& row : rows) {
    const auto listed = Listed(Legacy(row.rest), limits);
    ASSERT_FALSE(listed.ok()) << row.rest;
    EXPECT_EQ(DetailOf(listed.status())->code(), row.code) << listed.status();
    EXPECT_EQ(DetailOf(listed.status())->node(), row.node) << listed.status();
    EXPECT_NE(listed.status().message().find(row.says), absl::string_view::npos) << listed.status();
  }
  const auto listed =
      Listed(Legacy("3 CUSTOMI : int32 [1] text=\"{0}\"\n4 CUSTOM [3] text=\"\"\n5 LINEAR [4]\n"), limits);
  EXPECT_TRUE(listed.ok()) << listed.status();
}

TEST(ProgramImporter, LongListsAreRefused) {
  Limits limits;
  limits.max_instructions = 2;
  const auto listed = Listed(Legacy("3 LOAD [0, 1]\n4 LINEAR [0, 1, 3]\n"), limits);
  EXPECT_EQ(DetailOf(listed.status())->limit(), "instructions");
}

}  // namespace
}  // namespace kiln::compiler
