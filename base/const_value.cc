#include "base/const_value.h"

#include <cmath>
#include <limits>
#include <optional>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/dtype_names.h"
#include "base/error.h"
#include "base/float_bits.h"

namespace kiln {
namespace {

// Longer decimals than this are refused: no program needs them, and they would
// travel through every pass.
constexpr size_t kMaxDecimal = 1000;

absl::Status Bad(const v1::ConstArg& arg, absl::string_view what) {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field("constant");
  const DTypeRow& row = RowOf(arg.dtype());
  return MakeError(std::move(detail),
                   row.name.empty() ? absl::StrCat("constant: ", what) : absl::StrCat(row.name, " constant: ", what));
}

// An integer of any size: `small` if it fits 128 bits, else `text`.
struct Integer {
  absl::int128 small = 0;
  std::string text;
};

std::optional<Integer> ParseDecimal(absl::string_view text) {
  if (text.size() > kMaxDecimal) return std::nullopt;
  const bool negative = !text.empty() && text[0] == '-';
  absl::string_view digits = text.substr(negative ? 1 : 0);
  if (digits.empty()) return std::nullopt;
  for (char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
  }
  while (digits.size() > 1 && digits[0] == '0') digits.remove_prefix(1);
  Integer result;
  if (digits.size() > 38) {
    result.text = absl::StrCat(negative ? "-" : "", digits);
    return result;
  }
  for (char c : digits) result.small = result.small * 10 + (c - '0');
  if (negative) result.small = -result.small;
  return result;
}

std::string Text(const Integer& value) {
  if (!value.text.empty()) return value.text;
  absl::uint128 rest = value.small < 0 ? -absl::uint128(value.small) : absl::uint128(value.small);
  std::string digits;
  do {
    digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(absl::Uint128Low64(rest % 10))));
    rest /= 10;
  } while (rest != 0);
  return value.small < 0 ? "-" + digits : digits;
}

uint64_t LowBits(absl::int128 value) { return absl::Int128Low64(value); }

struct Range {
  absl::int128 least;
  absl::int128 greatest;
};

Range RangeOf(const DTypeRow& row) {
  switch (row.kind) {
    case DTypeClass::kBool: return {0, 1};
    case DTypeClass::kUnsigned: return {0, (absl::int128(1) << row.bits) - 1};
    case DTypeClass::kSigned: return {-(absl::int128(1) << (row.bits - 1)), (absl::int128(1) << (row.bits - 1)) - 1};
    default: return {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  }
}

bool FitsWidth(uint64_t bits, int width) { return width >= 64 || bits >> width == 0; }

// The mathematical value of an integer or bool constant.
absl::StatusOr<Integer> IntegerOf(const v1::ConstArg& arg, const DTypeRow& row) {
  Integer result;
  switch (arg.value_case()) {
    case v1::ConstArg::kB: result.small = arg.b() ? 1 : 0; return result;
    case v1::ConstArg::kI: result.small = arg.i(); return result;
    case v1::ConstArg::kU: result.small = arg.u(); return result;
    case v1::ConstArg::kF:
      if (!std::isfinite(arg.f()) || std::trunc(arg.f()) != arg.f()) {
        return Bad(arg, absl::StrCat("f = ", arg.f(), " is no integer"));
      }
      return *ParseDecimal(absl::StrFormat("%.0f", arg.f()));
    case v1::ConstArg::kBits: {
      const int width = row.bits == 0 ? 64 : row.bits;
      if (!FitsWidth(arg.bits(), width)) return Bad(arg, "bits above the width are set");
      if (row.kind == DTypeClass::kUnsigned || row.kind == DTypeClass::kBool) {
        result.small = arg.bits();
      } else {
        result.small = static_cast<int64_t>(arg.bits() << (64 - width)) >> (64 - width);
      }
      return result;
    }
    case v1::ConstArg::kDecimal: {
      std::optional<Integer> parsed = ParseDecimal(arg.decimal());
      if (!parsed.has_value()) {
        return Bad(arg, absl::StrCat("decimal takes an optional '-' and digits, ", kMaxDecimal, " characters at most"));
      }
      return *std::move(parsed);
    }
    default: return Bad(arg, "no value is set");
  }
}

absl::StatusOr<uint64_t> FloatBitsOf(const v1::ConstArg& arg, const DTypeRow& row) {
  switch (arg.value_case()) {
    case v1::ConstArg::kB: return FloatToBits(arg.dtype(), arg.b() ? 1 : 0);
    case v1::ConstArg::kI: return SignedToFloatBits(arg.dtype(), arg.i());
    case v1::ConstArg::kU: return UnsignedToFloatBits(arg.dtype(), arg.u());
    case v1::ConstArg::kF: return FloatToBits(arg.dtype(), arg.f());
    case v1::ConstArg::kBits:
      if (row.bits != 0 && !FitsWidth(arg.bits(), row.bits)) return Bad(arg, "bits above the width are set");
      return arg.bits();
    case v1::ConstArg::kDecimal: return Bad(arg, "decimal is for integers; a float takes f or bits");
    default: return Bad(arg, "no value is set");
  }
}

}  // namespace

absl::StatusOr<ConstValue> CanonicalConst(const v1::ConstArg& arg) {
  const DTypeRow& row = RowOf(arg.dtype());
  if (row.kind == DTypeClass::kNone) {
    return Bad(arg, absl::StrCat("dtype ", row.name.empty() ? absl::StrCat(arg.dtype()) : std::string(row.name),
                                 " has no values"));
  }
  ConstValue result;
  result.dtype = arg.dtype();
  if (arg.value_case() == v1::ConstArg::kInvalid) {
    if (!arg.invalid()) return Bad(arg, "invalid is set but false");
    result.invalid = true;
    return result;
  }
  if (row.kind == DTypeClass::kFloat || row.kind == DTypeClass::kWeakFloat) {
    KILN_ASSIGN_OR_RETURN(result.bits, FloatBitsOf(arg, row));
    return result;
  }
  KILN_ASSIGN_OR_RETURN(const Integer value, IntegerOf(arg, row));
  const Range range = RangeOf(row);
  if (value.text.empty() && value.small >= range.least && value.small <= range.greatest) {
    result.bits = LowBits(value.small);
    return result;
  }
  if (row.kind != DTypeClass::kWeakInt) {
    return Bad(arg, absl::StrCat(Text(value), " is not between ", Text({range.least, ""}), " and ",
                                 Text({range.greatest, ""})));
  }
  result.decimal = Text(value);
  return result;
}

}  // namespace kiln
