#include "base/graph/graph_text.h"

#include <bit>
#include <cstdint>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/dtype_names.h"
#include "base/error.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

// The text prints back as itself, and the message survives the round trip.
void ExpectExact(const std::string& text) {
  const auto graph = ParseGraph(text);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(PrintGraph(*graph), text);
}

void ExpectRoundTrip(const v1::Graph& graph) {
  const std::string text = PrintGraph(graph);
  const auto back = ParseGraph(text);
  ASSERT_TRUE(back.ok()) << back.status() << "\n" << text;
  std::string difference;
  google::protobuf::util::MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&difference);
  EXPECT_TRUE(differencer.Compare(graph, *back)) << difference << text;
}

TEST(GraphText, EveryArgumentForm) {
  ExpectExact(R"(dialect LEGACY_2025
 0 CONST : weakint [] 8
 1 PARAM : float32 [0] slot=0 name="x"
 2 PARAM [0] slot=1 dtype=float32 device=("CPU:0", "CPU:1") space=GLOBAL
 3 PARAM : int32 [0] slot=2 dtype=int64 space=ALU name="n" min=-3 max=9
 4 PERMUTE [1] axes=(1, 0)
 5 FLIP [1] flip=(1, 0)
 6 REDUCE : float32 [1] ADD axes=(1)
 7 PAD [1, 0, 0] fill=float32 -0.0
 8 PAD [1, 0, 0] fill=
 9 CAST : float16 [1] to=float16
10 GETTUPLE [1] index=-1
11 LOAD [1] load
12 LOAD [1] load device=("GPU:0") space=LOCAL
13 RANGE [0] range=(0, 1) type=REDUCE
14 RANGE [0] range=()
15 SPECIAL [0] special="gidx0"
16 SINK [1] kernel name="k" opts=(SPLIT 0 (4, 7, 0), NOLOCALS 0 ()) nolocals
17 SINK [1] kernel
18 WMMA [1, 1, 1] wmma=(8, 16, 4) in=float16 out=float32 threads=32 upcast=((0, 1), ()) reduce=(3)
19 WMMA [1, 1, 1] wmma=(0, 0, 0)
20 SOURCE [] text="a \"b\" # no comment\nc"
21 BINARY [] data="\000\377"
22 VIEW [0] views=({shape=(2, 3) stride=(3, 1) offset=-1 begin=(0, 0) end=(2, 2)}, {shape=() stride=() offset=0})
23 VIEW [0] views=()
24 ALLREDUCE [1] allreduce=ADD device=("a")
25 NOOP [] opt=TC 0 (1, 2, 3) @"größe"
26 ADD [1, 2, 3]
)");
}

TEST(GraphText, ConstantsKeepTheirSpelling) {
  ExpectExact(R"( 0 CONST [] bool true
 1 CONST [] int32 -5
 2 CONST [] uint64 18446744073709551615u
 3 CONST [] float32 0.1
 4 CONST [] float32 f(0.1)
 5 CONST [] float64 0.1
 6 CONST [] float16 0.1
 7 CONST [] float32 -0.0
 8 CONST [] float32 -inf
 9 CONST [] float32 nan
10 CONST [] float32 bits(0x7fc00001)
11 CONST [] float32 f(0x7ff8000000000001)
12 CONST [] float32 1e-45
13 CONST [] float64 5e-324
14 CONST [] float64 1.7976931348623157e+308
15 CONST [] float32 16777216.0
16 CONST [] int32 bits(0xffffffff)
17 CONST [] weakint decimal("170141183460469231731687303715884105728")
18 CONST [] float32 invalid
19 CONST [] float32 invalid(false)
20 CONST [] float32 none
21 CONST [] untyped 1
22 CONST : int32 [] float32 1
23 CONST : float32 [] 1.5
24 CONST [] dtype_77 1
25 CONST [] float8_e4m3 448.0
26 CONST [] float32 bits(0x1ffffffff)
)");
}

TEST(GraphText, EveryPatternOfTheSmallFloats) {
  for (v1::DType dtype : {v1::FLOAT16, v1::BFLOAT16, v1::FLOAT8_E4M3, v1::FLOAT8_E5M2_FNUZ}) {
    v1::Graph graph;
    for (uint64_t bits = 0; bits < uint64_t{1} << RowOf(dtype).bits; bits += 7) {
      auto* node = graph.add_nodes();
      node->set_op(v1::CONST);
      node->mutable_constant()->set_dtype(dtype);
      node->mutable_constant()->set_bits(bits);
    }
    ExpectRoundTrip(graph);
  }
}

TEST(GraphText, RandomFloatsComeBackBitForBit) {
  std::mt19937_64 random(3);
  v1::Graph graph;
  for (int i = 0; i < 3000; ++i) {
    auto* constant = graph.add_nodes()->mutable_constant();
    constant->set_dtype(i % 2 == 0 ? v1::FLOAT32 : v1::FLOAT64);
    if (i % 3 == 0) {
      constant->set_f(std::bit_cast<double>(random()));
    } else {
      constant->set_bits(i % 2 == 0 ? random() & 0xFFFFFFFF : random());
    }
  }
  const auto back = ParseGraph(PrintGraph(graph));
  ASSERT_TRUE(back.ok()) << back.status();
  // Bytes, not fields: NaN differs from itself.
  EXPECT_EQ(back->SerializeAsString(), graph.SerializeAsString());
}

TEST(GraphText, NumbersWithoutNames) {
  ExpectExact(R"(dialect 9
0 999 : dtype_88 [4000000000]
1 -7 []
2 REDUCE [] 998 axes=(1)
3 LOAD [] load space=12
4 RANGE [] range=(0) type=77
5 NOOP [] opt=9 -1 ()
6 OP_UNSPECIFIED []
)");
}

TEST(GraphText, CommentsBlanksAndAnnotations) {
  const auto graph = ParseGraph("\n# two nodes\r\n 0  CONST[]int32 4 # four\n\n\t1 SINK [ 0 ] @ \"#t\"# end");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(PrintGraph(*graph), "0 CONST [] int32 4\n1 SINK [0] @\"#t\"\n");
  const auto annotate = [](int node) { return node == 0 ? std::string() : absl::StrCat("(", node, ", 8)"); };
  EXPECT_EQ(PrintGraph(*graph, annotate), "0 CONST [] int32 4\n1 SINK [0] @\"#t\"  # (1, 8)\n");
  EXPECT_EQ(ParseGraph("")->nodes_size(), 0);
  EXPECT_EQ(ParseGraph("0 ADD")->nodes(0).src_size(), 0);
}

TEST(GraphText, ErrorsSayLineColumnAndWhatWasExpected) {
  struct Row {
    const char* text;
    const char* error;
  };
  const Row rows[] = {
      {"0 NOOP []\n2 NOOP []", "line 2, column 1: expected node index 1, found \"2 NOOP []\""},
      {"0 ADDD []", "line 1, column 3: expected an op's name, found \"ADDD []\""},
      {"0 ADD : float33 []",
       "line 1, column 9: expected a dtype (bool, int8 … uint64, float16, bfloat16, float32, "
       "float64, weakint, …), found \"float33 []\""},
      {"0 ADD [1 2]", "line 1, column 10: expected ',', found \"2]\""},
      {"0 ADD [1,]", "line 1, column 10: expected a source's node index, found \"]\""},
      {"0 ADD [-1]", "line 1, column 8: expected a source's node index, found \"-1]\""},
      {"0 CONST [] int32 1.5",
       "line 1, column 18: expected a constant's value; a fraction needs a float dtype, or "
       "f(…), found \"1.5\""},
      {"0 PARAM [] slot=x", "line 1, column 17: expected a slot number, found \"x\""},
      {"0 SOURCE [] text=\"abc", "line 1, column 18: expected text in quotes, closed by '\"', found \"\\\"abc\""},
      {R"(0 SOURCE [] text="\377")", R"(line 1, column 18: expected text in quotes, in UTF-8, found "\"\\377\"")"},
      {R"(0 NOOP [] @"\355\240\200")",
       R"(line 1, column 12: expected a tag in quotes, in UTF-8, found "\"\\355\\240\\200\"")"},
      {"0 PERMUTE [] axes=(1, 0", "line 1, column 24: expected ',' or ')', found the end of the line"},
      {"0 PERMUTE [] axes=(1, 0) 5",
       "line 1, column 26: expected the end of the line, '@' and a tag, or '#' and a "
       "comment, found \"5\""},
      {"dialect 2027X", "line 1, column 9: expected TINYSPEC_2026 or LEGACY_2025, found \"2027X\""},
      {"0 RANGE [] range=(99999999999999999999)",
       "line 1, column 19: expected an integer, found "
       "\"99999999999999999999)\""},
      {"0", "line 1, column 2: expected an op's name, found the end of the line"},
  };
  for (const Row& row : rows) {
    const auto graph = ParseGraph(row.text);
    ASSERT_FALSE(graph.ok()) << row.text;
    EXPECT_EQ(DetailOf(graph.status())->code(), v1::MALFORMED_MESSAGE);
    EXPECT_EQ(std::string(graph.status().message()), absl::StrCat("graph text, ", row.error));
  }
}

TEST(GraphText, NoTextCrashesTheParser) {
  const std::string seed =
      "0 CONST [] float32 f(0.1)\n1 VIEW [0] views=({shape=(2) stride=(1) offset=0})\n"
      "2 SINK [1] kernel name=\"k\\n\" opts=(SPLIT 0 (4)) @\"t\" # c\n";
  std::mt19937 random(11);
  for (int i = 0; i < 20000; ++i) {
    std::string text = seed;
    for (int k = 0; k < 1 + i % 4; ++k) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0: text[at] = static_cast<char>(random()); break;
        case 1: text.erase(at, 1 + random() % 5); break;
        default: text.insert(at, seed.substr(random() % seed.size(), random() % 9));
      }
    }
    const auto graph = ParseGraph(text);
    if (!graph.ok()) continue;
    EXPECT_TRUE(ParseGraph(PrintGraph(*graph)).ok()) << text;
  }
}

TEST(GraphText, TooLong) {
  const auto graph = ParseGraph(std::string(kMaxGraphText + 1, ' '));
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(DetailOf(graph.status())->code(), v1::GRAPH_TOO_LARGE);
}

}  // namespace
}  // namespace kiln
