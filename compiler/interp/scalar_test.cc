// Spot checks of the tables in docs/ir.md. tests/conformance has every op of each
// dtype on edges and random values.
#include "compiler/interp/scalar.h"

#include <gtest/gtest.h>

#include <cmath>

#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

int64_t Int(Op op, DType dtype, int64_t a, int64_t b) {
  return static_cast<int64_t>(EvalScalar(
      op, dtype, dtype, {WrapInt(dtype, static_cast<uint64_t>(a)), WrapInt(dtype, static_cast<uint64_t>(b))}));
}

TEST(Scalar, IntegersWrap) {
  EXPECT_EQ(Int(Op::ADD, DType::kInt8, 127, 1), -128);
  EXPECT_EQ(Int(Op::MUL, DType::kUint8, 200, 2), 144);
  EXPECT_EQ(Int(Op::MUL, DType::kInt64, INT64_MIN, -1), INT64_MIN);
}

TEST(Scalar, Division) {
  EXPECT_EQ(Int(Op::FLOORDIV, DType::kInt32, -7, 2), -4);
  EXPECT_EQ(Int(Op::FLOORMOD, DType::kInt32, -7, 2), 1);
  EXPECT_EQ(Int(Op::FLOORMOD, DType::kInt32, 7, -2), -1);
  EXPECT_EQ(Int(Op::CDIV, DType::kInt32, -7, 2), -3);
  EXPECT_EQ(Int(Op::CMOD, DType::kInt32, -7, 2), -1);
  for (Op op : {Op::FLOORDIV, Op::CDIV}) EXPECT_EQ(Int(op, DType::kInt32, 5, 0), 0);
  for (Op op : {Op::FLOORMOD, Op::CMOD}) EXPECT_EQ(Int(op, DType::kInt32, 5, 0), 5);
  for (Op op : {Op::FLOORDIV, Op::CDIV}) EXPECT_EQ(Int(op, DType::kInt32, INT32_MIN, -1), INT32_MIN);
  for (Op op : {Op::FLOORMOD, Op::CMOD}) EXPECT_EQ(Int(op, DType::kInt32, INT32_MIN, -1), 0);
}

TEST(Scalar, ShiftsPastTheWidth) {
  EXPECT_EQ(Int(Op::SHL, DType::kInt8, 1, 8), 0);
  EXPECT_EQ(Int(Op::SHR, DType::kInt8, -1, 100), -1);
  EXPECT_EQ(Int(Op::SHR, DType::kUint8, 255, 8), 0);
  EXPECT_EQ(Int(Op::SHL, DType::kInt8, 1, -1), 0);  // a count is unsigned: 255
}

TEST(Scalar, Bool) {
  EXPECT_EQ(Int(Op::ADD, DType::kBool, 1, 1), 1);
  EXPECT_EQ(Int(Op::MUL, DType::kBool, 1, 0), 0);
  EXPECT_EQ(Int(Op::CMPLT, DType::kBool, 0, 1), 1);
}

TEST(Scalar, Threefry) {
  EXPECT_EQ(EvalScalar(Op::THREEFRY, DType::kUint64, DType::kUint64, {0, 0}), 0x99BA4EFE6B200159u);
  EXPECT_EQ(EvalScalar(Op::THREEFRY, DType::kUint64, DType::kUint64, {~0ull, ~0ull}), 0xBB002BE71CB996FCu);
  EXPECT_EQ(EvalScalar(Op::THREEFRY, DType::kUint64, DType::kUint64, {0x85A308D3243F6A88u, 0x0370734413198A2Eu}),
            0x483DF7A0C4923A9Cu);
}

uint64_t CastTo(DType to, double value) {
  return EvalScalar(Op::CAST, DType::kFloat64, to, {FloatBits(DType::kFloat64, value)});
}

TEST(Scalar, FloatsToIntegersSaturate) {
  EXPECT_EQ(CastTo(DType::kUint8, 300.5), 255u);
  EXPECT_EQ(CastTo(DType::kUint8, -3), 0u);
  EXPECT_EQ(static_cast<int64_t>(CastTo(DType::kInt32, -INFINITY)), INT32_MIN);
  EXPECT_EQ(CastTo(DType::kInt64, NAN), 0u);
  EXPECT_EQ(CastTo(DType::kBool, NAN), 1u);
  EXPECT_EQ(CastTo(DType::kInt8, -2.9), static_cast<uint64_t>(-2));
}

TEST(Scalar, IntegersToFloatsRoundOnce) {
  const auto to_bfloat = [](int64_t n) {
    return EvalScalar(Op::CAST, DType::kInt64, DType::kBfloat16, {static_cast<uint64_t>(n)});
  };
  // Just above a tie: a detour over float32 or double would lose the last bit.
  EXPECT_EQ(to_bfloat((int64_t{1} << 61) + (int64_t{1} << 53)), 0x5E00u);
  EXPECT_EQ(to_bfloat((int64_t{1} << 61) + (int64_t{1} << 53) + 1), 0x5E01u);
}

TEST(Scalar, NarrowFloatsRoundOncePerOp) {
  const uint64_t one = FloatBits(DType::kBfloat16, 1.0), small = FloatBits(DType::kBfloat16, 0x1p-9);
  EXPECT_EQ(EvalScalar(Op::ADD, DType::kBfloat16, DType::kBfloat16, {one, small}), one);
}

TEST(Scalar, NanComparesAsIeee) {
  const uint64_t nan = FloatBits(DType::kFloat32, NAN), one = FloatBits(DType::kFloat32, 1);
  EXPECT_EQ(EvalScalar(Op::CMPLT, DType::kFloat32, DType::kBool, {nan, one}), 0u);
  EXPECT_EQ(EvalScalar(Op::CMPNE, DType::kFloat32, DType::kBool, {nan, nan}), 1u);
  EXPECT_TRUE(
      std::isnan(FloatValue(DType::kFloat32, EvalScalar(Op::MAX, DType::kFloat32, DType::kFloat32, {one, nan}))));
}

}  // namespace
}  // namespace kiln::compiler
