#include "base/const_value.h"

#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/dtype_names.h"
#include "base/error.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

template <typename Set>
v1::ConstArg Make(v1::DType dtype, Set set) {
  v1::ConstArg arg;
  arg.set_dtype(dtype);
  set(arg);
  return arg;
}
v1::ConstArg I(v1::DType dtype, int64_t value) {
  return Make(dtype, [=](auto& arg) { arg.set_i(value); });
}
v1::ConstArg U(v1::DType dtype, uint64_t value) {
  return Make(dtype, [=](auto& arg) { arg.set_u(value); });
}
v1::ConstArg F(v1::DType dtype, double value) {
  return Make(dtype, [=](auto& arg) { arg.set_f(value); });
}
v1::ConstArg B(v1::DType dtype, bool value) {
  return Make(dtype, [=](auto& arg) { arg.set_b(value); });
}
v1::ConstArg Bits(v1::DType dtype, uint64_t value) {
  return Make(dtype, [=](auto& arg) { arg.set_bits(value); });
}
v1::ConstArg Decimal(v1::DType dtype, std::string text) {
  return Make(dtype, [&](auto& arg) { arg.set_decimal(text); });
}

uint64_t BitsOf(const v1::ConstArg& arg) {
  const auto value = CanonicalConst(arg);
  EXPECT_TRUE(value.ok()) << value.status();
  EXPECT_TRUE(!value.ok() || (value->decimal.empty() && !value->invalid));
  return value.ok() ? value->bits : 0xDEAD;
}

void ExpectRefused(const v1::ConstArg& arg) {
  const auto value = CanonicalConst(arg);
  ASSERT_FALSE(value.ok()) << arg.ShortDebugString();
  EXPECT_EQ(DetailOf(value.status())->code(), v1::BAD_ARGUMENT);
  EXPECT_EQ(DetailOf(value.status())->field(), "constant");
}

TEST(CanonicalConst, IntegersInEverySpelling) {
  const uint64_t minus_two = static_cast<uint64_t>(int64_t{-2});
  for (v1::DType dtype : {v1::INT8, v1::INT16, v1::INT32, v1::INT64, v1::WEAKINT}) {
    EXPECT_EQ(BitsOf(I(dtype, -2)), minus_two);
    EXPECT_EQ(BitsOf(F(dtype, -2.0)), minus_two);
    EXPECT_EQ(BitsOf(Decimal(dtype, "-002")), minus_two);
    const int width = RowOf(dtype).bits == 0 ? 64 : RowOf(dtype).bits;
    EXPECT_EQ(BitsOf(Bits(dtype, minus_two & (~uint64_t{0} >> (64 - width)))), minus_two);
    EXPECT_EQ(BitsOf(B(dtype, true)), 1u);
  }
  EXPECT_EQ(BitsOf(U(v1::UINT64, ~uint64_t{0})), ~uint64_t{0});
  EXPECT_EQ(BitsOf(Bits(v1::UINT8, 0xFF)), 0xFFu);
  EXPECT_EQ(BitsOf(F(v1::INT64, -0x1p63)), uint64_t{1} << 63);
  EXPECT_EQ(BitsOf(F(v1::INT32, -0.0)), 0u);
}

TEST(CanonicalConst, RangeOfEveryIntegerType) {
  struct Row {
    v1::DType dtype;
    std::string least, below, greatest, above;
  };
  const Row rows[] = {
      {v1::BOOL, "0", "-1", "1", "2"},
      {v1::INT8, "-128", "-129", "127", "128"},
      {v1::UINT8, "0", "-1", "255", "256"},
      {v1::INT16, "-32768", "-32769", "32767", "32768"},
      {v1::UINT16, "0", "-1", "65535", "65536"},
      {v1::INT32, "-2147483648", "-2147483649", "2147483647", "2147483648"},
      {v1::UINT32, "0", "-1", "4294967295", "4294967296"},
      {v1::INT64, "-9223372036854775808", "-9223372036854775809", "9223372036854775807", "9223372036854775808"},
      {v1::UINT64, "0", "-1", "18446744073709551615", "18446744073709551616"},
  };
  for (const Row& row : rows) {
    BitsOf(Decimal(row.dtype, row.least));
    BitsOf(Decimal(row.dtype, row.greatest));
    ExpectRefused(Decimal(row.dtype, row.below));
    ExpectRefused(Decimal(row.dtype, row.above));
    ExpectRefused(Decimal(row.dtype, absl::StrCat("9", std::string(60, '0'))));
  }
  EXPECT_EQ(CanonicalConst(I(v1::INT8, 128)).status().message(), "int8 constant: 128 is not between -128 and 127");
}

TEST(CanonicalConst, WeakIntHasNoRange) {
  EXPECT_EQ(CanonicalConst(U(v1::WEAKINT, ~uint64_t{0}))->decimal, "18446744073709551615");
  EXPECT_EQ(CanonicalConst(Decimal(v1::WEAKINT, "-0009223372036854775809"))->decimal, "-9223372036854775809");
  EXPECT_EQ(CanonicalConst(F(v1::WEAKINT, 0x1p200))->decimal,
            "1606938044258990275541962092341162602522202993782792835301376");
  EXPECT_EQ(BitsOf(Decimal(v1::WEAKINT, "-9223372036854775808")), uint64_t{1} << 63);
  EXPECT_EQ(BitsOf(Decimal(v1::WEAKINT, std::string(900, '0'))), 0u);
}

TEST(CanonicalConst, FloatsInEverySpelling) {
  EXPECT_EQ(BitsOf(F(v1::FLOAT32, 1)), 0x3f800000u);
  EXPECT_EQ(BitsOf(I(v1::FLOAT32, 1)), 0x3f800000u);
  EXPECT_EQ(BitsOf(U(v1::FLOAT32, 1)), 0x3f800000u);
  EXPECT_EQ(BitsOf(B(v1::FLOAT32, true)), 0x3f800000u);
  EXPECT_EQ(BitsOf(Bits(v1::FLOAT32, 0xffc12345)), 0xffc12345u);
  EXPECT_EQ(BitsOf(F(v1::FLOAT32, std::numeric_limits<double>::quiet_NaN())), 0x7fc00000u);
  EXPECT_EQ(BitsOf(F(v1::WEAKFLOAT, 0.1)), 0x3fb999999999999au);
  EXPECT_EQ(BitsOf(F(v1::FLOAT16, 1e9)), 0x7c00u);
}

TEST(CanonicalConst, Invalid) {
  const auto value = CanonicalConst(Make(v1::FLOAT32, [](auto& arg) { arg.set_invalid(true); }));
  ASSERT_TRUE(value.ok());
  EXPECT_TRUE(value->invalid);
  EXPECT_EQ(value->bits, 0u);
}

TEST(CanonicalConst, Refused) {
  ExpectRefused(Make(v1::FLOAT32, [](auto&) {}));
  ExpectRefused(Make(v1::INT32, [](auto&) {}));
  ExpectRefused(Make(v1::INT32, [](auto& arg) { arg.set_invalid(false); }));
  ExpectRefused(I(v1::VOID, 0));
  ExpectRefused(I(v1::DTYPE_UNSPECIFIED, 0));
  ExpectRefused(I(static_cast<v1::DType>(1000), 0));
  ExpectRefused(F(v1::INT32, 0.5));
  ExpectRefused(F(v1::INT64, std::numeric_limits<double>::infinity()));
  ExpectRefused(F(v1::WEAKINT, std::numeric_limits<double>::quiet_NaN()));
  ExpectRefused(F(v1::BOOL, 2));
  ExpectRefused(Bits(v1::INT8, 0x100));
  ExpectRefused(Bits(v1::FLOAT16, 0x10000));
  ExpectRefused(Decimal(v1::FLOAT32, "1"));
  for (const char* text : {"", "-", "+1", "1.0", " 1", "1e3", "0x1", "--1"}) ExpectRefused(Decimal(v1::WEAKINT, text));
  ExpectRefused(Decimal(v1::WEAKINT, std::string(1001, '1')));
}

}  // namespace
}  // namespace kiln
