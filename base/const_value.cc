#include "base/const_value.h"

#include <bit>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/float_bits.h"

namespace kiln {
namespace {

struct IntRange {
  __int128 min;
  __int128 max;
};

// Integer types and their width in bits; 0 for the rest.
int IntWidth(v1::DType dtype) {
  switch (dtype) {
    case v1::INT8:
    case v1::UINT8: return 8;
    case v1::INT16:
    case v1::UINT16: return 16;
    case v1::INT32:
    case v1::UINT32: return 32;
    case v1::INT64:
    case v1::UINT64:
    case v1::WEAKINT: return 64;
    default: return 0;
  }
}

bool IsSignedInt(v1::DType dtype) { return (dtype >= v1::INT8 && dtype <= v1::INT64) || dtype == v1::WEAKINT; }
bool IsUnsignedInt(v1::DType dtype) { return dtype >= v1::UINT8 && dtype <= v1::UINT64; }
bool IsFloat(v1::DType dtype) { return (dtype >= v1::FLOAT16 && dtype <= v1::FLOAT8_E5M2_FNUZ) || dtype == v1::WEAKFLOAT; }

int FloatWidth(v1::DType dtype) {
  switch (dtype) {
    case v1::FLOAT64:
    case v1::WEAKFLOAT: return 64;
    case v1::FLOAT32: return 32;
    case v1::FLOAT16:
    case v1::BFLOAT16: return 16;
    default: return 8;
  }
}

IntRange RangeOf(v1::DType dtype) {
  const int width = IntWidth(dtype);
  if (IsSignedInt(dtype)) return {-(__int128{1} << (width - 1)), (__int128{1} << (width - 1)) - 1};
  return {0, (__int128{1} << width) - 1};
}

absl::Status DoesNotFit(v1::DType dtype, absl::string_view value) {
  return MakeError(v1::BAD_ARGUMENT, absl::StrCat("the constant ", value, " does not fit ", v1::DType_Name(dtype)));
}

absl::StatusOr<uint64_t> FromInteger(v1::DType dtype, __int128 value) {
  const std::string text = value < 0 ? absl::StrCat(static_cast<int64_t>(value)) : absl::StrCat(static_cast<uint64_t>(value));
  if (dtype == v1::BOOL) {
    if (value != 0 && value != 1) return DoesNotFit(dtype, text);
    return static_cast<uint64_t>(value);
  }
  if (IsFloat(dtype)) {
    const double number = static_cast<double>(value);
    if (static_cast<__int128>(number) != value) return DoesNotFit(dtype, absl::StrCat(text, " (as an integer; write it as f)"));
    return FloatToBits(dtype, number);
  }
  const IntRange range = RangeOf(dtype);
  if (value < range.min || value > range.max) return DoesNotFit(dtype, text);
  return static_cast<uint64_t>(value);
}

absl::StatusOr<uint64_t> FromDouble(v1::DType dtype, double value) {
  if (IsFloat(dtype)) {
    if (value != value) value = std::numeric_limits<double>::quiet_NaN();
    return FloatToBits(dtype, value);
  }
  if (!(value >= -9223372036854775808.0 && value < 18446744073709551616.0) || value != static_cast<double>(static_cast<__int128>(value))) {
    return DoesNotFit(dtype, absl::StrCat(value));
  }
  return FromInteger(dtype, static_cast<__int128>(value));
}

absl::StatusOr<uint64_t> FromBits(v1::DType dtype, uint64_t bits) {
  if (dtype == v1::BOOL) return FromInteger(dtype, bits);
  const int width = IsFloat(dtype) ? FloatWidth(dtype) : IntWidth(dtype);
  if (width < 64 && bits >> width) return DoesNotFit(dtype, absl::StrCat("0x", absl::Hex(bits)));
  if (width < 64 && IsSignedInt(dtype) && bits >> (width - 1)) bits |= ~uint64_t{0} << width;
  return bits;
}

// A decimal integer: its digits without sign and leading zeros.
absl::Status FromDecimal(const std::string& text, ConstValue& value) {
  const bool negative = !text.empty() && text[0] == '-';
  const std::string digits = text.substr(negative ? 1 : 0);
  const bool plain = !digits.empty() && digits.size() <= 4096 && digits.find_first_not_of("0123456789") == std::string::npos &&
                     (digits.size() == 1 || digits[0] != '0') && text != "-0";
  if (!plain || value.dtype != v1::WEAKINT) {
    return MakeError(v1::BAD_ARGUMENT, "decimal wants a WEAKINT written as digits, with a leading minus if negative");
  }
  int64_t small = 0;
  if (absl::SimpleAtoi(text, &small)) {
    value.bits = static_cast<uint64_t>(small);
  } else {
    value.decimal = text;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ConstValue> CanonicalConst(const v1::ConstArg& wire) {
  ConstValue value;
  value.dtype = wire.dtype();
  if (wire.dtype() != v1::BOOL && IntWidth(wire.dtype()) == 0 && !IsFloat(wire.dtype())) {
    return MakeError(v1::BAD_ARGUMENT, "a CONST needs the dtype of a number");
  }
  absl::StatusOr<uint64_t> bits = uint64_t{0};
  switch (wire.value_case()) {
    case v1::ConstArg::kB: bits = FromInteger(wire.dtype(), wire.b()); break;
    case v1::ConstArg::kI: bits = FromInteger(wire.dtype(), wire.i()); break;
    case v1::ConstArg::kU: bits = FromInteger(wire.dtype(), wire.u()); break;
    case v1::ConstArg::kF: bits = FromDouble(wire.dtype(), wire.f()); break;
    case v1::ConstArg::kBits: bits = FromBits(wire.dtype(), wire.bits()); break;
    case v1::ConstArg::kInvalid: value.invalid = true; break;
    case v1::ConstArg::kDecimal: KILN_RETURN_IF_ERROR(FromDecimal(wire.decimal(), value)); return value;
    case v1::ConstArg::VALUE_NOT_SET: return MakeError(v1::BAD_ARGUMENT, "a CONST without a value");
  }
  KILN_RETURN_IF_ERROR(bits.status());
  value.bits = *bits;
  return value;
}

}  // namespace kiln
