#include "compiler/ir/polynomial.h"

#include <gtest/gtest.h>

#include "compiler/ir/build.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/infer.h"

namespace kiln::compiler {
namespace {

class PolynomialTest : public ::testing::Test {
 protected:
  UOp* Variable(const char* name, int64_t min, int64_t max, DType dtype = DType::kInt32) {
    BufferArg arg;
    arg.slot = next_slot_++;
    arg.dtype = dtype;
    arg.addrspace = AddrSpace::kAlu;
    arg.name = name;
    arg.min = min;
    arg.max = max;
    return graph_.Make(Op::PARAM, {ShapeSource(graph_, {})}, arg);
  }
  UOp* Range(UOp* bound) { return graph_.Make(Op::RANGE, {bound}, RangeArg{graph_.NextId(), AxisType::kLoop}); }
  Polynomial P(UOp* uop) { return PolynomialOf(graph_, uop); }
  bool Proved(const Polynomial& p) { return IsNonNegative(graph_, p); }
  std::string Text(const Polynomial& p) { return ToString(FromPolynomial(graph_, p)); }

  Graph graph_;
  uint32_t next_slot_ = 0;
  UOp* n_ = Variable("n", 0, 10);
  UOp* m_ = Variable("m", 1, 6);
  const Polynomial n = P(n_), m = P(m_), one{1};
};

TEST_F(PolynomialTest, HaveOneForm) {
  EXPECT_TRUE(((n + one) * (m - one)).Equals(n * m - n + m - one));
  EXPECT_EQ(FromPolynomial(graph_, (n + one) * (m - one)), FromPolynomial(graph_, m - one + n * (m - one)));
  EXPECT_EQ(Text(n * m * Polynomial(3) + n), "n*m*3 + n");
  EXPECT_TRUE((n - n).Equals(Polynomial(0)));
  // int32 and int64 spellings of one value.
  UOp* wide = Add(graph_, Cast(graph_, n_, kIndexType), Idx(graph_, 2));
  UOp* narrow = Add(graph_, n_, ConstInt(graph_, DType::kInt32, 2));
  EXPECT_TRUE(P(wide).Equals(P(narrow)));
}

TEST_F(PolynomialTest, WhatMayWrapIsAnAtom) {
  UOp* big = Variable("b", 0, 2'000'000'000);
  UOp* twice = Add(graph_, big, big);
  EXPECT_FALSE(P(twice).Equals(P(big) * Polynomial(2)));
  EXPECT_FALSE(IsSize(graph_, P(twice)));
  EXPECT_TRUE(IsSize(graph_, n * m));
  EXPECT_FALSE(IsSize(graph_, P(Range(Idx(graph_, 4)))));
}

TEST_F(PolynomialTest, Divide) {
  EXPECT_TRUE((n * m * Polynomial(6)).DividedBy(m * Polynomial(3))->Equals(n * Polynomial(2)));
  EXPECT_TRUE((n * n - one).DividedBy(n - one)->Equals(n + one));
  EXPECT_FALSE((n * m + one).DividedBy(m).has_value());
  EXPECT_FALSE((n * Polynomial(3)).DividedBy(Polynomial(2)).has_value());
  EXPECT_TRUE(FloorDivide(graph_, n * m + m - one, m).Equals(n));
  EXPECT_TRUE(FloorRemainder(graph_, n * m - one, m).Equals(m - one));
  EXPECT_TRUE(FloorDivide(graph_, Polynomial(-7), Polynomial(2)).Equals(Polynomial(-4)));
  EXPECT_TRUE(FloorRemainder(graph_, Polynomial(-7), Polynomial(2)).Equals(one));
  EXPECT_EQ(Text(FloorDivide(graph_, n + m, Polynomial(2))), "FLOORDIV(n + m, 2)");
}

TEST_F(PolynomialTest, ADivisionThatOverflowsSaysNothing) {
  // 4 * (v + 2^62) is beyond int64.
  const Polynomial v = P(Variable("v", 0, 10)), sum = v + Polynomial(int64_t{1} << 62);
  Polynomial quotient, rest;
  (v * Polynomial(4)).Divide(sum, quotient, rest);
  EXPECT_FALSE(quotient.exact());
  EXPECT_FALSE((v * Polynomial(4)).DividedBy(sum).has_value());
  EXPECT_NE(FloorDivide(graph_, v * Polynomial(4), sum).constant(), 4);
}

TEST_F(PolynomialTest, ADivisionWithTooManyTermsSaysNothing) {
  const Polynomial a = P(Variable("a", 100, 200));
  Polynomial above = a * Polynomial(2), below = a;
  for (int i = 0; i < 9; ++i) above = above + P(Variable("b", 0, 1 << 20));
  for (int i = 0; i < 8; ++i) below = below - P(Variable("c", 1, 10));
  ASSERT_TRUE(above.exact() && below.exact());
  EXPECT_FALSE(above.DividedBy(below).has_value());
}

TEST_F(PolynomialTest, AQuotientThatMayWrapIsAnAtom) {
  for (const DType dtype : {DType::kInt8, DType::kInt32, DType::kInt64}) {
    const auto least = static_cast<int64_t>(BoundsOf(dtype).min);
    UOp* x = Variable("x", least, 100, dtype);
    UOp* y = Variable("y", -1, 5, dtype);
    UOp* quotient = graph_.Make(Op::FLOORDIV, {x, y});
    EXPECT_EQ(FromPolynomial(graph_, P(quotient)), Cast(graph_, quotient, kIndexType)) << Name(dtype);
  }
  UOp* x = Variable("x", -127, 100, DType::kInt8);
  UOp* quotient = graph_.Make(Op::FLOORDIV, {x, Variable("y", -1, 5, DType::kInt8)});
  EXPECT_NE(FromPolynomial(graph_, P(quotient)), Cast(graph_, quotient, kIndexType));
}

// What a division leaves may be beyond int64 where the dividend is not.
TEST_F(PolynomialTest, NoQuotientOfWhatWraps) {
  const Polynomial k(int64_t{1} << 30);
  const Polynomial a = P(Variable("a", 1, 4)), b = P(Variable("b", 1, int64_t{1} << 62, DType::kInt64));
  const Polynomial quotient = FloorDivide(graph_, k * a, a + b);
  EXPECT_TRUE(!quotient.exact() || Text(quotient) == "FLOORDIV(a*1073741824, a + b)") << Text(quotient);
  const Polynomial rest = FloorRemainder(graph_, k * a, a + b);
  EXPECT_TRUE(!rest.exact() || Text(rest) == "FLOORMOD(a*1073741824, a + b)") << Text(rest);
}

TEST_F(PolynomialTest, ProofsOverVariables) {
  EXPECT_TRUE(Proved(n));
  EXPECT_FALSE(Proved(n - one));
  EXPECT_TRUE(Proved(m - one));
  EXPECT_TRUE(Proved(Polynomial(16) - n - m));
  EXPECT_FALSE(Proved(Polynomial(15) - n - m));
  EXPECT_TRUE(Proved(n * m - n));  // n (m - 1)
  EXPECT_FALSE(Proved(n * m - m));
}

TEST_F(PolynomialTest, TheGreaterOfTwoIsOneOfThem) {
  const Polynomial greater = P(graph_.Make(Op::MAX, {n_, m_}));
  EXPECT_TRUE(Proved(greater - n));
  EXPECT_TRUE(Proved(greater - m));
  EXPECT_TRUE(Proved(n + m - greater));  // of both
  EXPECT_FALSE(Proved(n - greater));
  EXPECT_FALSE(Proved(greater - n - one));
}

TEST_F(PolynomialTest, ProofsInsideLoops) {
  UOp* i = Range(Cast(graph_, n_, kIndexType));
  UOp* j = Range(Cast(graph_, m_, kIndexType));
  const Polynomial flat = P(i) * m + P(j);
  EXPECT_TRUE(Proved(n - P(i) - one));
  EXPECT_TRUE(Proved(flat));
  EXPECT_TRUE(Proved(n * m - flat - one));
  EXPECT_FALSE(Proved(n * m - flat - one - one));
  // Reversed, and cut up again.
  const Polynomial reversed = (n - one - P(i)) * m + P(j);
  EXPECT_TRUE(Proved(reversed));
  EXPECT_TRUE(Proved(n * m - reversed - one));
  EXPECT_TRUE(FloorDivide(graph_, flat, m).Equals(P(i)));
  EXPECT_TRUE(FloorRemainder(graph_, flat, m).Equals(P(j)));
  // Read the other way round: k in n*m, as (k mod n) * m + k // n.
  UOp* k = Range(FromPolynomial(graph_, (n + one) * m));
  const Polynomial across = FloorRemainder(graph_, P(k), n + one) * m + FloorDivide(graph_, P(k), n + one);
  EXPECT_TRUE(Proved(across));
  EXPECT_TRUE(Proved((n + one) * m - across - one));
}

TEST_F(PolynomialTest, TooMuchIsInexact) {
  Polynomial p(1);
  for (int i = 0; i < 40; ++i) p = p * (n + m + one);
  EXPECT_FALSE(p.exact());
  EXPECT_FALSE(Proved(p));
  EXPECT_FALSE(p.Equals(p));
  EXPECT_FALSE((Polynomial(std::numeric_limits<int64_t>::max()) + one).exact());
}

}  // namespace
}  // namespace kiln::compiler
