#include "compiler/structure/rounding.h"

#include <gtest/gtest.h>

#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

class RoundingTest : public testing::Test {
 protected:
  UOp* Bits(uint64_t bits) { return ConstBits(graph_, DType::kUint32, bits); }
  UOp* Float(double value) { return ConstNumber(graph_, DType::kFloat32, value); }
  UOp* And(UOp* a, UOp* b) { return graph_.Make(Op::AND, {a, b}); }

  // The bits of x rounded, by numbers that are 2^23 where it is right.
  UOp* Rounded(UOp* x, double limit, double up, double down) {
    UOp* wide = Bitcast(graph_, x, DType::kUint32);
    UOp* size = Bitcast(graph_, And(wide, Bits(0x7FFFFFFF)), DType::kFloat32);
    UOp* shifted = Add(graph_, Add(graph_, size, Float(up)), Float(-down));
    UOp* whole = Where(graph_, Lt(graph_, size, Float(limit)), shifted, size);
    return graph_.Make(Op::OR, {Bitcast(graph_, whole, DType::kUint32), And(wide, Bits(0x80000000))});
  }

  Graph graph_;
  UOp* x_ = graph_.Make(Op::PARAM, {ShapeSource(graph_, {8})}, BufferArg{0, DType::kFloat32});
};

TEST_F(RoundingTest, IsFoundInWhatClientsWrite) {
  UOp* rounded = Rounded(x_, 0x1p23, 0x1p23, 0x1p23);
  EXPECT_EQ(RoundedInBits(rounded), x_);
  UOp* turned = graph_.Make(Op::OR, {rounded->src(1), rounded->src(0)});
  EXPECT_EQ(RoundedInBits(turned), x_);
}

TEST_F(RoundingTest, OtherNumbersRoundOtherwise) {
  EXPECT_EQ(RoundedInBits(Rounded(x_, 0x1p22, 0x1p23, 0x1p23)), nullptr);
  EXPECT_EQ(RoundedInBits(Rounded(x_, 0x1p23, 0x1p22, 0x1p22)), nullptr);
  EXPECT_EQ(RoundedInBits(Rounded(x_, 0x1p23, 0x1p23, 0x1p22)), nullptr);
}

TEST_F(RoundingTest, TheSignIsThatOfTheSameNumber) {
  UOp* other = graph_.Make(Op::PARAM, {ShapeSource(graph_, {8})}, BufferArg{1, DType::kFloat32});
  UOp* sign = And(Bitcast(graph_, other, DType::kUint32), Bits(0x80000000));
  EXPECT_EQ(RoundedInBits(graph_.Make(Op::OR, {Rounded(x_, 0x1p23, 0x1p23, 0x1p23)->src(0), sign})), nullptr);
}

}  // namespace
}  // namespace kiln::compiler
