#include "server/engine/memory/tensor_type.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace kiln::server {
namespace {

TEST(TensorTypeTest, Bytes) {
  EXPECT_EQ(*TensorBytes(v1::FLOAT32, {2, 3}), 24u);
  EXPECT_EQ(*TensorBytes(v1::BOOL, {}), 1u);
  EXPECT_EQ(*TensorBytes(v1::FLOAT64, {5}), 40u);
  EXPECT_EQ(*TensorBytes(v1::BFLOAT16, {1 << 20, 1 << 20}), uint64_t{1} << 41);
}

TEST(TensorTypeTest, ASizeOfZeroBeatsAnyOther) {
  EXPECT_EQ(*TensorBytes(v1::FLOAT32, {int64_t{1} << 62, int64_t{1} << 62, 0}), 0u);
}

TEST(TensorTypeTest, Faults) {
  struct Row {
    v1::DType dtype;
    std::vector<int64_t> shape;
    v1::ErrorCode code;
  };
  const Row rows[] = {
      {v1::FLOAT32, {int64_t{1} << 62, int64_t{1} << 62}, v1::SIZE_OVERFLOW},
      {v1::UINT8, {(int64_t{1} << 60) + 1}, v1::SIZE_OVERFLOW},
      {v1::FLOAT32, {-1}, v1::BAD_ARGUMENT},
      {v1::VOID, {1}, v1::BAD_ARGUMENT},
      {v1::WEAKINT, {1}, v1::BAD_ARGUMENT},
      {v1::DTYPE_UNSPECIFIED, {1}, v1::BAD_ARGUMENT},
      {static_cast<v1::DType>(1000), {1}, v1::BAD_ARGUMENT},
  };
  for (const Row& row : rows) {
    const auto bytes = TensorBytes(row.dtype, row.shape);
    ASSERT_FALSE(bytes.ok()) << TensorTypeName(row.dtype, row.shape);
    EXPECT_EQ(DetailOf(bytes.status())->code(), row.code) << bytes.status();
  }
}

TEST(TensorTypeTest, DimensionsAreCounted) {
  EXPECT_EQ(*TensorBytes(v1::FLOAT32, std::vector<int64_t>(32, 1)), 4u);
  for (const int64_t size : {0, 1}) {
    const absl::Status status = TensorBytes(v1::FLOAT32, std::vector<int64_t>(33, size)).status();
    const v1::ErrorDetail detail = DetailOf(status).value_or(v1::ErrorDetail());
    EXPECT_EQ(detail.code(), v1::BAD_ARGUMENT) << status;
    EXPECT_EQ(detail.field(), "shape");
    EXPECT_EQ(detail.limit(), "dimensions");
    EXPECT_EQ(detail.limit_value(), 32u);
    EXPECT_EQ(detail.used(), 33u);
  }
  EXPECT_EQ(TensorTypeName(v1::INT32, {2, 3}), "int32 [2, 3]");
  EXPECT_LT(TensorTypeName(v1::INT32, std::vector<int64_t>(1'000'000, 1)).size(), 200u);
}

}  // namespace
}  // namespace kiln::server
