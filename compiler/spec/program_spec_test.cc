#include "compiler/spec/program_spec.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/import/wire.h"

namespace kiln::compiler {
namespace {

absl::StatusOr<ProgramNeeds> Check(const std::string& text, const Limits& limits = Limits()) {
  const auto wire = ParseGraph(text);
  if (!wire.ok()) return wire.status();
  Graph graph;
  const auto root = FromWire(*wire, Limits(), graph);
  if (!root.ok()) return absl::InternalError(absl::StrCat("the importer: ", root.status().message()));
  return VerifyProgram(*root, limits, &graph);
}

// 1: four int32; 3: a place in them; 4: this item's number, of four.
constexpr char kHead[] =
    "0 CONST [] weakint 4\n"
    "1 PARAM : int32 [0] slot=0\n"
    "2 CONST [] int32 0\n"
    "3 INDEX [1, 2]\n"
    "4 SPECIAL [0] special=\"lidx0\"\n";

struct Bad {
  const char* name;
  const char* rest;
  v1::ErrorCode code;
  uint32_t node;
  const char* op;
  const char* says;
};

class BadProgram : public ::testing::TestWithParam<Bad> {};

TEST_P(BadProgram, NamesNodeFoundAndLegal) {
  const auto needs = Check(absl::StrCat(kHead, GetParam().rest));
  ASSERT_FALSE(needs.ok());
  const auto detail = DetailOf(needs.status());
  ASSERT_TRUE(detail.has_value()) << needs.status();
  EXPECT_EQ(v1::ErrorCode_Name(detail->code()), v1::ErrorCode_Name(GetParam().code)) << needs.status();
  ASSERT_TRUE(detail->has_node()) << needs.status();
  EXPECT_EQ(detail->node(), GetParam().node) << needs.status();
  EXPECT_EQ(detail->op(), GetParam().op);
  EXPECT_NE(needs.status().message().find(GetParam().says), absl::string_view::npos) << needs.status();
}

INSTANTIATE_TEST_SUITE_P(
    Programs, BadProgram,
    ::testing::Values(
        Bad{"a LOAD that is not listed", "5 LOAD [3]\n6 STORE [3, 5]\n7 LINEAR [3, 6]\n", v1::BAD_ARGUMENT, 6, "STORE",
            "source 1 (LOAD) is not listed before it"},
        Bad{"a value of a closed loop",
            "5 RANGE [0] range=(0)\n6 LOAD [3]\n7 GROUP []\n8 END [7, 5]\n9 STORE [3, 6]\n10 LINEAR [5, 3, 6, 8, 9]\n",
            v1::BAD_ARGUMENT, 9, "STORE", "(LOAD) stands in a loop or an IF that has closed"},
        Bad{"a counter of a closed loop",
            "5 RANGE [0] range=(0)\n6 GROUP []\n7 END [6, 5]\n8 CAST [5] to=int32\n9 STORE [3, 8]\n10 LINEAR [5, 7, 8, "
            "9]\n",
            v1::BAD_ARGUMENT, 8, "CAST", "(RANGE) stands in a loop or an IF that has closed"},
        Bad{"crossed loops",
            "5 RANGE [0] range=(0)\n6 RANGE [0] range=(1)\n7 GROUP []\n8 END [7, 5]\n9 END [7, 6]\n10 LINEAR [5, 6, 8, "
            "9]\n",
            v1::BAD_ARGUMENT, 8, "END", "not the innermost; a RANGE is"},
        Bad{"a loop across an IF",
            "5 CONST [] bool true\n6 IF [5]\n7 RANGE [0] range=(0)\n8 ENDIF [6]\n9 LINEAR [6, 7, 8]\n",
            v1::BAD_ARGUMENT, 8, "ENDIF", "not the innermost; a RANGE is"},
        Bad{"an END of nothing open", "5 RANGE [0] range=(0)\n6 GROUP []\n7 END [6, 5]\n8 LINEAR [5, 7, 7]\n",
            v1::BAD_ARGUMENT, 7, "END", "nothing is open"},
        Bad{"a loop without an end", "5 RANGE [0] range=(0)\n6 LINEAR [5]\n", v1::BAD_ARGUMENT, 5, "RANGE",
            "never closed; an END closes it"},
        Bad{"an IF without an end", "5 CONST [] bool true\n6 IF [5]\n7 LINEAR [6]\n", v1::BAD_ARGUMENT, 6, "IF",
            "never closed; an ENDIF closes it"},
        Bad{"a loop inside itself", "5 RANGE [0] range=(0)\n6 GROUP []\n7 END [6, 5]\n8 LINEAR [5, 5, 7, 7]\n",
            v1::BAD_ARGUMENT, 5, "RANGE", "open already"},
        Bad{"a BARRIER for some items",
            "5 CONST [] int64 2\n6 CMPLT [4, 5]\n7 IF [6]\n8 BARRIER []\n9 ENDIF [7]\n10 LINEAR [4, 6, 7, 8, 9]\n",
            v1::BAD_ARGUMENT, 8, "BARRIER", "IF that items of one group may take differently"},
        Bad{"a BARRIER in a loop as long as the item's number",
            "5 RANGE [4] range=(0)\n6 BARRIER []\n7 GROUP []\n8 END [7, 5]\n9 LINEAR [4, 5, 6, 8]\n", v1::BAD_ARGUMENT,
            6, "BARRIER", "RANGE that items of one group may take differently"},
        Bad{"a BARRIER behind written memory",
            "5 LOAD [3]\n6 RANGE [5] range=(0)\n7 BARRIER []\n8 STORE [3, 2]\n9 GROUP []\n10 END [9, 6]\n11 LINEAR [3, "
            "5, 6, 7, 8, 10]\n",
            v1::BAD_ARGUMENT, 7, "BARRIER", "may take differently"},
        Bad{"a pointer as a value", "5 ADD [3, 2]\n6 LINEAR [3, 5]\n", v1::BAD_ARGUMENT, 5, "ADD",
            "source 0 (INDEX) is memory, not a value; LOAD it first"},
        Bad{"a stored pointer", "5 STORE [3, 3]\n6 LINEAR [3, 5]\n", v1::BAD_ARGUMENT, 5, "STORE", "LOAD it first"},
        Bad{"storage as a place", "5 STORE [1, 2]\n6 LINEAR [1, 5]\n", v1::BAD_ARGUMENT, 5, "STORE",
            "not an INDEX or SHRINK of a PARAM or BUFFER"},
        Bad{"a pointer into a pointer", "5 SHRINK [1, 2, 0]\n6 INDEX [5, 2]\n7 LINEAR [5, 6]\n", v1::BAD_ARGUMENT, 6,
            "INDEX", "a pointer into a pointer"},
        Bad{"too few indices", "5 STACK [0, 0]\n6 PARAM : int32 [5] slot=1\n7 INDEX [6, 2]\n8 LINEAR [7]\n",
            v1::SHAPE_MISMATCH, 7, "INDEX", "1 indices of storage of shape (4, 4)"},
        Bad{"two axes of lanes",
            "5 STACK [0, 0]\n6 PARAM : int32 [5] slot=1\n7 STACK [2, 2]\n8 INDEX [6, 7, 7]\n9 LINEAR [7, 8]\n",
            v1::SHAPE_MISMATCH, 8, "INDEX", "values are () or vectors"},
        Bad{"more lanes than there are",
            "5 CONST [] weakint 300\n6 PARAM : int32 [5] slot=1\n7 SHRINK [6, 2, 5]\n8 LINEAR [7]\n",
            v1::SHAPE_MISMATCH, 7, "SHRINK", "a vector of 300 lanes; they have 1 to 256"},
        Bad{"a lane that is not there", "5 STACK [2, 2]\n6 INDEX [5, 0]\n7 LINEAR [5, 6]\n", v1::BAD_ARGUMENT, 6,
            "INDEX", "lane 4 of a vector of 2"},
        Bad{"a lane by a variable", "5 STACK [2, 2]\n6 INDEX [5, 4]\n7 LINEAR [4, 5, 6]\n", v1::BAD_ARGUMENT, 6,
            "INDEX", "by a CONST"},
        Bad{"a gate with lanes", "5 CONST [] bool true\n6 STACK [5, 5]\n7 IF [6]\n8 ENDIF [7]\n9 LINEAR [6, 7, 8]\n",
            v1::SHAPE_MISMATCH, 7, "IF", "an IF wants one bool"},
        Bad{"an unknown coordinate", "5 SPECIAL [0] special=\"warp0\"\n6 LINEAR [5]\n", v1::BAD_ARGUMENT, 5, "SPECIAL",
            "\"warp0\"; there are gidx0..2, lidx0..2 and idx0..2"},
        Bad{"a fourth axis", "5 SPECIAL [0] special=\"lidx3\"\n6 LINEAR [5]\n", v1::BAD_ARGUMENT, 5, "SPECIAL",
            "there are"},
        Bad{"a coordinate without a bound", "5 LOAD [3]\n6 SPECIAL [5] special=\"gidx0\"\n7 LINEAR [3, 5, 6]\n",
            v1::BAD_ARGUMENT, 6, "SPECIAL", "the bound of gidx0 is not a number of at least 1"},
        Bad{"one axis with two bounds", "5 CONST [] weakint 5\n6 SPECIAL [5] special=\"lidx0\"\n7 LINEAR [4, 6]\n",
            v1::BAD_ARGUMENT, 6, "SPECIAL", "lidx0 up to 5 beside lidx0 up to 4"},
        Bad{"one axis with two names",
            "5 SPECIAL [0] special=\"gidx1\"\n6 SPECIAL [0] special=\"idx1\"\n7 LINEAR [5, 6]\n", v1::BAD_ARGUMENT, 6,
            "SPECIAL", "idx1 up to 4 beside gidx1 up to 4"},
        Bad{"too many items along an axis", "5 CONST [] weakint 1025\n6 SPECIAL [5] special=\"lidx1\"\n7 LINEAR [6]\n",
            v1::BAD_ARGUMENT, 6, "SPECIAL", "a group has at most 1024 items"},
        Bad{"one slot, two shapes",
            "5 CONST [] weakint 5\n6 PARAM : int32 [5] slot=0\n7 INDEX [6, 2]\n8 LINEAR [3, 7]\n", v1::BAD_ARGUMENT, 7,
            "INDEX", "slot 0 is storage of two kinds"},
        Bad{"a BUFFER of the caller's", "5 BUFFER : int32 [0] slot=3\n6 INDEX [5, 2]\n7 LINEAR [6]\n", v1::BAD_ARGUMENT,
            6, "INDEX", "not LOCAL or REG"},
        Bad{"a reduction", "5 STACK [2, 2]\n6 REDUCE [5] ADD axes=(0)\n7 LINEAR [5, 6]\n", v1::UNSUPPORTED_OP, 6,
            "REDUCE", "an op that no program has"},
        Bad{"Invalid", "5 CONST [] int32 invalid\n6 ADD [5, 2]\n7 LINEAR [6]\n", v1::BAD_ARGUMENT, 6, "ADD",
            "is Invalid"},
        Bad{"a WMMA of other sizes than its operands'",
            "5 CONST [] float32 1.0\n6 STACK [5, 5]\n7 WMMA [6, 6, 6] wmma=(2, 2, 2) in=float32 out=float32 "
            "threads=1\n8 LINEAR [6, 7]\n",
            v1::SHAPE_MISMATCH, 7, "WMMA", "each item holds 4 of float32"},
        Bad{"a WMMA by 32 that is not built",
            "5 CONST [] float32 1.0\n6 STACK [5, 5]\n7 WMMA [6, 6, 6] wmma=(8, 8, 4) in=float32 out=float32 "
            "threads=32\n8 LINEAR [6, 7]\n",
            v1::UNSUPPORTED_OP, 7, "WMMA", "32 items (8, 16, 16) of float16"},
        Bad{"a WMMA by 32 in a group of 4",
            "5 CONST [] float16 1.0\n6 CONST [] float32 0.0\n7 STACK [5, 5, 5, 5, 5, 5, 5, 5]\n8 STACK [5, 5, 5, 5]\n9 "
            "STACK [6, 6, 6, 6]\n10 WMMA [7, 8, 9] wmma=(8, 16, 16) in=float16 out=float32 threads=32\n11 LINEAR [4, "
            "7, 8, 9, 10]\n",
            v1::BAD_ARGUMENT, 10, "WMMA", "a group here has 4"}),
    [](const auto& info) {
      std::string name = info.param.name;
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      return name;
    });

struct TooMuch {
  const char* rest;
  const char* limit;
};

TEST(ProgramSpec, LimitsAreNamed) {
  const TooMuch rows[] = {
      {"5 CONST [] weakint 33\n6 SPECIAL [5] special=\"lidx1\"\n7 SPECIAL [5] special=\"lidx2\"\n8 LINEAR [6, 7]\n",
       "items of a group"},
      {"5 CONST [] weakint 16385\n6 BUFFER : int32 [5] slot=0 space=LOCAL\n7 INDEX [6, 2]\n8 LINEAR [7]\n",
       "bytes of LOCAL storage"},
      {"5 CONST [] weakint 4097\n6 BUFFER : int32 [5] slot=0 space=REG\n7 INDEX [6, 2]\n8 LINEAR [7]\n",
       "bytes of REG storage"},
      {"5 LOAD [3]\n6 RANGE [5] range=(0)\n7 RANGE [5] range=(1)\n8 GROUP []\n9 END [8, 7]\n10 END [8, 6]\n11 LINEAR "
       "[3, 5, 6, 7, 9, 10]\n",
       "operations"},
  };
  for (const TooMuch& row : rows) {
    const auto needs = Check(absl::StrCat(kHead, row.rest));
    ASSERT_FALSE(needs.ok()) << row.limit;
    const auto detail = DetailOf(needs.status());
    EXPECT_EQ(detail->code(), v1::GRAPH_TOO_LARGE) << needs.status();
    EXPECT_EQ(detail->limit(), row.limit);
    EXPECT_GT(detail->used(), detail->limit_value()) << row.limit;
  }
  Limits few;
  few.max_instructions = 3;
  EXPECT_EQ(DetailOf(Check(absl::StrCat(kHead, "5 LOAD [3]\n6 STORE [3, 5]\n7 LINEAR [4, 3, 5, 6]\n"), few).status())
                ->limit(),
            "instructions");
}

TEST(ProgramSpec, NeedsAreCounted) {
  const auto needs = Check(absl::StrCat(
      kHead,
      "5 CONST [] weakint 3\n6 SPECIAL [5] special=\"gidx2\"\n7 BUFFER : float64 [0] slot=0 space=LOCAL\n8 BUFFER : "
      "int16 [5] slot=0 space=REG\n9 INDEX [7, 4]\n10 INDEX [8, 2]\n11 RANGE [5] range=(0)\n12 LOAD [10]\n13 GROUP "
      "[]\n14 END [13, 11]\n15 LINEAR [4, 6, 9, 10, 11, 12, 14]\n"));
  ASSERT_TRUE(needs.ok()) << needs.status();
  EXPECT_EQ(needs->items[0], 4);
  EXPECT_EQ(needs->groups[2], 3);
  EXPECT_EQ(needs->items_of_group(), 4);
  EXPECT_EQ(needs->local_bytes, 32);
  EXPECT_EQ(needs->register_bytes, 6);
  EXPECT_EQ(needs->instructions, 7);
  // SPECIAL, SPECIAL, INDEX, INDEX, END once; RANGE and LOAD three times; 12 items in all.
  EXPECT_EQ(needs->work, 12u * (5 + 2 * 3));
}

TEST(ProgramSpec, UniformControlLetsBarriersIn) {
  // A bound loaded from memory that nobody writes, and a group's coordinate.
  const auto needs = Check(absl::StrCat(
      kHead,
      "5 SPECIAL [0] special=\"gidx0\"\n6 INDEX [1, 5]\n7 LOAD [6]\n8 CONST [] int32 7\n9 AND [7, 8]\n10 RANGE [9] "
      "range=(0)\n11 BARRIER []\n12 GROUP []\n13 END [12, 10]\n14 LINEAR [4, 5, 6, 7, 9, 10, 11, 13]\n"));
  EXPECT_TRUE(needs.ok()) << needs.status();
}

TEST(ProgramSpec, OneListingMayReplaceAnother) {
  // LOAD inside the loop is not what is seen behind it; the one before is.
  EXPECT_TRUE(Check(absl::StrCat(kHead,
                                 "5 LOAD [3]\n6 RANGE [0] range=(0)\n7 GROUP []\n8 END [7, 6]\n9 STORE [3, 5]\n10 "
                                 "LINEAR [3, 5, 6, 5, 8, 9]\n"))
                  .ok());
}

}  // namespace
}  // namespace kiln::compiler
