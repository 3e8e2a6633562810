#include "compiler/spec/wmma_layout.h"

#include <gtest/gtest.h>

#include <vector>

namespace kiln::compiler {
namespace {

void ExpectEachOnce(const Fragment& fragment, int64_t threads, int64_t rows, int64_t columns) {
  std::vector<int> seen(static_cast<size_t>(rows * columns), 0);
  for (int64_t item = 0; item < threads; ++item) {
    for (int64_t i = 0; i < fragment.elements; ++i) {
      const Place place = fragment.At(item, i);
      ASSERT_LT(place.row, rows);
      ASSERT_LT(place.column, columns);
      ++seen[static_cast<size_t>(place.row * columns + place.column)];
    }
  }
  EXPECT_EQ(seen, std::vector<int>(static_cast<size_t>(rows * columns), 1));
}

TEST(WmmaLayout, FragmentsHoldEachElementOnce) {
  using enum DType;
  const WmmaArg args[] = {
      {8, 16, 16, kFloat16, kFloat32, 32},     {8, 16, 8, kBfloat16, kFloat32, 32},
      {8, 16, 32, kInt8, kInt32, 32},          {8, 16, 32, kFloat8E5m2, kFloat32, 32},
      {16, 16, 16, kFloat8E4m3, kFloat32, 32}, {8, 16, 8, kFloat32, kFloat32, 32},
      {8, 8, 4, kFloat64, kFloat64, 32},       {16, 16, 16, kFloat16, kFloat32, 32},
      {16, 16, 16, kUint8, kInt32, 32},        {16, 16, 16, kBfloat16, kFloat32, 64},
      {32, 32, 8, kFloat16, kFloat32, 64},     {16, 16, 16, kInt8, kInt32, 64},
      {32, 32, 8, kInt8, kInt32, 64},          {16, 16, 32, kInt8, kInt32, 64},
      {32, 32, 16, kInt8, kInt32, 64},         {16, 16, 4, kFloat64, kFloat64, 64},
      {16, 16, 4, kFloat32, kFloat32, 64},     {32, 32, 2, kFloat32, kFloat32, 64},
  };
  for (const WmmaArg& arg : args) {
    SCOPED_TRACE(testing::Message() << arg.threads << " " << arg.m << " " << arg.n << " " << arg.k);
    const auto layout = LayoutOf(arg);
    ASSERT_TRUE(layout.has_value());
    ExpectEachOnce(layout->a, arg.threads, arg.m, arg.k);
    ExpectEachOnce(layout->b, arg.threads, arg.k, arg.n);
    ExpectEachOnce(layout->c, arg.threads, arg.m, arg.n);
  }
}

TEST(WmmaLayout, IsAsThePtxIsaDrawsIt) {
  const auto layout = LayoutOf({8, 16, 16, DType::kFloat16, DType::kFloat32, 32});
  ASSERT_TRUE(layout.has_value());
  for (int64_t lane = 0; lane < 32; ++lane) {
    for (int64_t i = 0; i < 8; ++i) {
      EXPECT_EQ(layout->a.At(lane, i).row, lane / 4 + (i / 2 % 2) * 8);
      EXPECT_EQ(layout->a.At(lane, i).column, lane % 4 * 2 + i % 2 + i / 4 * 8);
    }
    for (int64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(layout->b.At(lane, i).row, lane % 4 * 2 + i % 2 + i / 2 * 8);
      EXPECT_EQ(layout->b.At(lane, i).column, lane / 4);
      EXPECT_EQ(layout->c.At(lane, i).row, lane / 4 + i / 2 * 8);
      EXPECT_EQ(layout->c.At(lane, i).column, lane % 4 * 2 + i % 2);
    }
  }
}

TEST(WmmaLayout, OthersThereAreNone) {
  EXPECT_FALSE(LayoutOf({8, 16, 16, DType::kFloat32, DType::kFloat32, 32}).has_value());
  EXPECT_FALSE(LayoutOf({8, 16, 16, DType::kFloat16, DType::kFloat32, 64}).has_value());
  EXPECT_FALSE(LayoutOf({16, 16, 16, DType::kFloat16, DType::kFloat64, 64}).has_value());
}

}  // namespace
}  // namespace kiln::compiler
