#include "compiler/schedule/realize.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/callify.h"
#include "compiler/testing/read_text.h"

namespace kiln::compiler {
namespace {

class RealizeTest : public ::testing::Test {
 protected:
  absl::flat_hash_set<UOp*> Chosen(absl::string_view text) {
    sink_ = Callify(graph_, ReadText(graph_, text))->sink;
    return ChooseRealized(graph_, sink_, StoreOrder(sink_));
  }

  Graph graph_;
  UOp* sink_ = nullptr;
};

TEST_F(RealizeTest, AProductThatAnotherReadsAgainAndAgainGetsABuffer) {
  const auto chosen = Chosen(R"(
    0 CONST : weakint [] 64
    1 CONST : weakint [] 1
    2 STACK [0, 1, 0]
    3 STACK [1, 0, 0]
    4 PARAM : float32 [2] slot=0
    5 PARAM : float32 [3] slot=1
    6 MUL [4, 5]
    7 REDUCE [6] ADD axes=(2)
    8 PARAM : float32 [3] slot=2
    9 MUL [7, 8]
    10 REDUCE [9] ADD axes=(1)
    11 TUPLE [10]
  )");
  ASSERT_EQ(chosen.size(), 1u);
  EXPECT_EQ((*chosen.begin())->op(), Op::REDUCE);
  EXPECT_EQ(ToString((*chosen.begin())->shape()), "(64, 64, 1)");
}

// What is made of it uses it more than once, and only the last of that is needed elsewhere: as in rounding, or in gelu.
TEST_F(RealizeTest, AProductIsStoredAsTheLastValueThatAllOfItGoesThrough) {
  const auto chosen = Chosen(R"(
    0 CONST : weakint [] 64
    1 CONST : weakint [] 1
    2 STACK [0, 1, 0]
    3 STACK [1, 0, 0]
    4 PARAM : float32 [2] slot=0
    5 PARAM : float32 [3] slot=1
    6 MUL [4, 5]
    7 REDUCE [6] ADD axes=(2)
    8 SQRT [7]
    9 MUL [8, 8]
    10 ADD [9, 8]
    11 EXP2 [10]
    12 PARAM : float32 [3] slot=2
    13 MUL [11, 12]
    14 REDUCE [13] ADD axes=(1)
    15 TUPLE [14]
  )");
  ASSERT_EQ(chosen.size(), 1u);
  EXPECT_EQ((*chosen.begin())->op(), Op::EXP2);
}

// Blocks of a network, each of which makes something of a product and of what the last one made.
class BlocksTest : public RealizeTest {
 protected:
  // Each block ends with `finish`, which adds nodes.
  absl::flat_hash_set<UOp*> ChosenOf(int blocks, const std::function<void()>& finish, bool sum) {
    text_ = R"(
      0 CONST : weakint [] 64
      1 CONST : weakint [] 1
      2 STACK [0, 0, 1]
      3 STACK [1, 0, 0]
      4 CONST : weakint [] 0
      5 STACK [1, 4, 4]
      6 STACK [4, 4, 4]
      7 CONST : weakint [] 63
      8 STACK [7, 0, 1]
      9 PARAM : float32 [2] slot=0
)";
    last_ = 9, next_ = 10;
    for (int block = 0; block < blocks; ++block) {
      const int weight = Add(absl::StrCat("PARAM : float32 [3] slot=", block + 1));
      const int rows = Add(absl::StrCat("PERMUTE [", block == 0 ? 9 : last_, "] axes=(0, 2, 1)"));
      const int product = Add(absl::StrCat("REDUCE [", Add("MUL", rows, weight), "] ADD axes=(2)"));
      last_ = Add("ADD", product, last_);
      finish();
    }
    if (sum) last_ = Add(absl::StrCat("REDUCE [", last_, "] ADD axes=(0)"));
    Add(absl::StrCat("TUPLE [", last_, "]"));
    return Chosen(text_);
  }
  int Add(const std::string& node) {
    absl::StrAppend(&text_, next_, " ", node, "\n");
    return next_++;
  }
  int Add(absl::string_view op, int a, int b) { return Add(absl::StrCat(op, " [", a, ", ", b, "]")); }

  std::string text_;
  int last_ = 0, next_ = 0;
};

// A kernel is not as large as all of them.
TEST_F(BlocksTest, ABlockIsNotCutForWhatTheLastOneComputed) {
  const auto finish = [this] {
    for (int k = 0; k < 6; ++k) last_ = Add("ADD", Add(absl::StrCat("EXP2 [", last_, "]")), last_);  // doubles
    last_ = Add(absl::StrCat("SQRT [", last_, "]"));
  };
  int finished = 0;
  for (const UOp* uop : ChosenOf(4, finish, false)) {
    EXPECT_TRUE(uop->op() != Op::EXP2 && uop->op() != Op::ADD);
    finished += uop->op() == Op::SQRT;
  }
  EXPECT_EQ(finished, 3);
}

// What is only likely to be stored is looked through like all else where a reduction may collapse: else each block
// would double what is lowered to see that.
TEST_F(BlocksTest, ManyThatAreShiftedAreNotLoweredAsOne) {
  const auto finish = [this] {
    const int inside = Add(absl::StrCat("SHRINK [", last_, ", 6, 8]"));
    last_ = Add("ADD", last_, Add(absl::StrCat("PAD [", inside, ", 5, 2] fill=float32 0.0")));
  };
  EXPECT_GE(ChosenOf(40, finish, true).size(), 40u);
}

TEST_F(RealizeTest, ElementwiseValuesAreComputedWhereTheyAreUsed) {
  EXPECT_TRUE(Chosen(R"(
    0 CONST : weakint [] 64
    1 STACK [0]
    2 PARAM : float32 [1] slot=0
    3 EXP2 [2]
    4 MUL [3, 3]
    5 TUPLE [4]
  )")
                  .empty());
}

// A product widens its factors as it reads them: what is realised is the narrow numbers, if they are not there anyway.
TEST_F(RealizeTest, NarrowFactorsAreKeptNarrow) {
  const auto kept = [&](absl::string_view text) {
    sink_ = Callify(graph_, ReadText(graph_, text))->sink;
    absl::flat_hash_set<UOp*> wide;
    for (UOp* uop : Toposort(sink_)) {
      if (uop->op() == Op::CAST) wide.insert(uop);
    }
    EXPECT_EQ(wide.size(), 1u);
    return KeepNarrow(sink_, wide, [](DType dtype) { return dtype == DType::kInt8; }, {});
  };
  const std::string param =
      "0 CONST : weakint [] 4\n1 STACK [0]\n2 PARAM : int8 [1] slot=0\n3 CONST : weakint [] 1\n4 STACK [3]\n";
  const auto computed = kept(param + "5 MUL [2, 2]\n6 CAST [5] to=int32\n7 MUL [6, 6]\n8 TUPLE [7]\n");
  ASSERT_EQ(computed.size(), 1u);
  EXPECT_EQ((*computed.begin())->op(), Op::MUL);
  EXPECT_EQ((*computed.begin())->dtype(), DType::kInt8);
  EXPECT_TRUE(kept(param + "5 CAST [2] to=int32\n6 MUL [5, 5]\n7 TUPLE [6]\n").empty());
  // Nor are the zeros around a parameter worth a copy of it.
  const std::string padded = "5 CONST : weakint [] 6\n6 STACK [5]\n7 PAD [2, 4, 6]\n8 CAST [7] to=int32\n";
  EXPECT_TRUE(kept(param + padded + "9 MUL [8, 8]\n10 TUPLE [9]\n").empty());
}

TEST_F(RealizeTest, MarksComeOffAndWhatTheyStoodOnIsKept) {
  UOp* param = ReadText(graph_, R"(
    0 CONST : weakint [] 4
    1 STACK [0]
    2 PARAM : float32 [1] slot=0
    3 EXP2 [2]
    4 TUPLE [3]
  )");
  UOp* value = param->src(0);
  UOp* marked = graph_.Make(Op::SINK, {graph_.Make(Op::SQRT, {graph_.Make(Op::AFTER, {value})})});
  absl::flat_hash_set<UOp*> kept;
  UOp* plain = TakeMarks(graph_, marked, kept);
  EXPECT_EQ(plain, graph_.Make(Op::SINK, {graph_.Make(Op::SQRT, {value})}));
  EXPECT_TRUE(kept.contains(value));
  EXPECT_EQ(kept.size(), 1u);
  EXPECT_EQ(TakeMarks(graph_, plain, kept), plain);
}

}  // namespace
}  // namespace kiln::compiler
