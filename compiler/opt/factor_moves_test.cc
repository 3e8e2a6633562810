#include "compiler/opt/factor_moves.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

class FactorMovesTest : public ::testing::Test {
 protected:
  UOp* Loop(int64_t size) {
    return graph_.Make(Op::RANGE, {Idx(graph_, size)}, RangeArg{graph_.NextId(), AxisType::kLoop});
  }
  UOp* N(int64_t number) { return Idx(graph_, number); }
  UOp* Times(UOp* x, int64_t number) { return Mul(graph_, x, N(number)); }
  UOp* Over(UOp* x, int64_t number) { return graph_.Make(Op::FLOORDIV, {x, N(number)}); }
  UOp* Mod(UOp* x, int64_t number) { return graph_.Make(Op::FLOORMOD, {x, N(number)}); }
  UOp* Sum(std::vector<UOp*> terms) {
    UOp* sum = terms[0];
    for (size_t i = 1; i < terms.size(); ++i) sum = Add(graph_, sum, terms[i]);
    return sum;
  }

  static std::string Text(const std::optional<FactorMoves>& moves) {
    if (!moves.has_value()) return "none";
    std::string text = absl::StrCat(moves->step, " ", moves->step_k);
    for (const Jump& jump : moves->jumps)
      absl::StrAppend(&text, jump.reduced ? " k/" : " row/", jump.every, "*", jump.by);
    return text;
  }

  Graph graph_;
};

TEST_F(FactorMovesTest, LoopsThatAreNestedAsMemoryIsAreOneStep) {
  UOp *c = Loop(16), *y = Loop(3), *x = Loop(5), *row = Loop(42), *group = Loop(4);
  const auto text = [&](UOp* place) { return Text(MovesOf(ToLinear(place), {&row, 1}, std::vector<UOp*>{c, y, x})); };
  EXPECT_EQ(text(Sum({Times(c, 15), Times(y, 5), x, Times(row, 240), Times(group, 7)})), "240 1");
  EXPECT_EQ(text(Sum({Times(c, 100), Times(y, 10), x})), "0 1 k/5*5 k/15*70");
  EXPECT_EQ(text(Sum({Times(Over(row, 6), 6), Mod(row, 6)})), "1 0");
  EXPECT_EQ(text(Sum({Times(Over(row, 6), 20), Times(Mod(row, 6), 2)})), "2 0 row/6*8");
  EXPECT_EQ(text(Sum({Mod(Over(row, 3), 7), c})), "0 0 row/3*1 row/21*-7 k/15*1");
  EXPECT_EQ(text(Over(Sum({row, N(1)}), 6)), "none");
  EXPECT_EQ(text(graph_.Make(Op::MUL, {row, c})), "none");
  EXPECT_EQ(text(Over(y, 2)), "none");  // 3 is no multiple of 2, and c is above
}

// Each element of a convolution, by its moves and by what they are made from.
TEST_F(FactorMovesTest, GiveThePlacesOfAConvolution) {
  UOp *c = Loop(2), *ky = Loop(3), *kx = Loop(2), *pixel = Loop(4 * 5);
  const LinearForm place =
      ToLinear(Sum({Times(c, 99), Times(Over(pixel, 5), 22), Times(ky, 11), Times(Mod(pixel, 5), 2), kx, N(-1)}));
  for (const auto& order : {std::vector<UOp*>{c, ky, kx}, {kx, c, ky}}) {
    const auto moves = MovesOf(place, {&pixel, 1}, order);
    ASSERT_TRUE(moves.has_value());
    EXPECT_EQ(moves->rest.constant, -1);
    const auto size = [&](size_t i) { return order[i]->src(0)->const_int(); };
    for (int64_t row = 0; row < 20; ++row) {
      for (int64_t i = 0; i < 12; ++i) {
        const int64_t iterations[] = {i / size(2) / size(1), i / size(2) % size(1), i % size(2)};
        int64_t want = row / 5 * 22 + row % 5 * 2;
        for (size_t k = 0; k < 3; ++k) want += iterations[k] * (order[k] == c ? 99 : order[k] == ky ? 11 : 1);
        EXPECT_EQ(row * moves->step + i * moves->step_k + JumpsTo(moves->jumps, row, i), want);
      }
    }
  }
}

TEST_F(FactorMovesTest, ConditionsAreBounds) {
  UOp *y = Loop(8), *k = Loop(3);
  UOp* at = Sum({y, k});
  UOp* below = Lt(graph_, at, N(9));
  UOp* from = Not(graph_, Lt(graph_, at, N(1)));
  const auto both = ConditionsOf({from, below});
  ASSERT_TRUE(both.has_value());
  ASSERT_EQ(both->size(), 1u);
  EXPECT_EQ((*both)[0].least, 1);
  EXPECT_EQ((*both)[0].greatest, 8);
  const auto one = ConditionsOf({And(graph_, Lt(graph_, N(4), at), Lt(graph_, N(2), at))});
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ((*one)[0].least, 5);
  EXPECT_EQ((*one)[0].greatest, 9);  // what the loops reach
  EXPECT_FALSE(ConditionsOf({graph_.Make(Op::OR, {from, below})}).has_value());
  // Of an image of 8 rows of 10, padded by a row: inside behind the gate, and outside without either of its bounds.
  const LinearForm place = ToLinear(Sum({Times(at, 10), N(-10)}));
  EXPECT_TRUE(StaysInside(place, *both, 80));
  EXPECT_FALSE(StaysInside(place, *both, 70));
  EXPECT_FALSE(StaysInside(place, *ConditionsOf({below}), 80));
  EXPECT_FALSE(StaysInside(place, {}, 80));
}

}  // namespace
}  // namespace kiln::compiler
