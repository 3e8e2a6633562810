#include "compiler/structure/rounding.h"

#include <gtest/gtest.h>

#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

class RoundingTest : public testing::Test {
 protected:
  UOp* Bits(uint64_t bits) { return ConstBits(graph_, DType::kUint32, bits); }
  UOp* Float(double value) { return ConstNumber(graph_, DType::kFloat32, value); }
  UOp* AsFloat(UOp* bits) { return Bitcast(graph_, bits, DType::kFloat32); }
  UOp* And(UOp* a, UOp* b) { return graph_.Make(Op::AND, {a, b}); }

  // x rounded, by numbers that are 2^23 where it is right.
  UOp* Rounded(UOp* x, double limit, double up, double down) {
    UOp* wide = Bitcast(graph_, x, DType::kUint32);
    UOp* size = Bitcast(graph_, And(wide, Bits(0x7FFFFFFF)), DType::kFloat32);
    UOp* shifted = Add(graph_, Add(graph_, size, Float(up)), Float(-down));
    UOp* whole = Where(graph_, Lt(graph_, size, Float(limit)), shifted, size);
    return AsFloat(graph_.Make(Op::OR, {Bitcast(graph_, whole, DType::kUint32), And(wide, Bits(0x80000000))}));
  }

  Graph graph_;
  UOp* x_ = graph_.Make(Op::PARAM, {ShapeSource(graph_, {8})}, BufferArg{0, DType::kFloat32});
};

TEST_F(RoundingTest, IsFoundInWhatClientsWrite) {
  UOp* rounded = Rounded(x_, 0x1p23, 0x1p23, 0x1p23);
  EXPECT_EQ(RoundedIn(rounded), x_);
  UOp* bits = rounded->src(0);
  EXPECT_EQ(RoundedIn(AsFloat(graph_.Make(Op::OR, {bits->src(1), bits->src(0)}))), x_);
  EXPECT_EQ(RoundedIn(AsFloat(Bitcast(graph_, bits, DType::kInt32))), x_);
  EXPECT_EQ(RoundedIn(bits), nullptr);  // of a signalling NaN they are others
}

TEST_F(RoundingTest, OtherNumbersRoundOtherwise) {
  EXPECT_EQ(RoundedIn(Rounded(x_, 0x1p22, 0x1p23, 0x1p23)), nullptr);
  EXPECT_EQ(RoundedIn(Rounded(x_, 0x1p23, 0x1p22, 0x1p22)), nullptr);
  EXPECT_EQ(RoundedIn(Rounded(x_, 0x1p23, 0x1p23, 0x1p22)), nullptr);
}

TEST_F(RoundingTest, TheSignIsThatOfTheSameNumber) {
  UOp* other = graph_.Make(Op::PARAM, {ShapeSource(graph_, {8})}, BufferArg{1, DType::kFloat32});
  UOp* sign = And(Bitcast(graph_, other, DType::kUint32), Bits(0x80000000));
  EXPECT_EQ(RoundedIn(AsFloat(graph_.Make(Op::OR, {Rounded(x_, 0x1p23, 0x1p23, 0x1p23)->src(0)->src(0), sign}))),
            nullptr);
}

}  // namespace
}  // namespace kiln::compiler
