#include "base/graph/const_text.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>

#include "absl/strings/charconv.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/float_bits.h"

namespace kiln {
namespace {

bool LooksLikeFloat(absl::string_view word) {
  return word == "inf" || word == "-inf" || word == "nan" || word.find_first_of(".eE") != absl::string_view::npos;
}

std::optional<double> ParseDouble(absl::string_view word) {
  double value = 0;
  const auto result = absl::from_chars(word.data(), word.data() + word.size(), value);
  if (result.ptr != word.data() + word.size() || result.ec != std::errc()) return std::nullopt;
  return value;
}

// Whole numbers below this print without an exponent, all digits exact.
constexpr double kPlainBelow = 1e15;

// The shortest decimal that parses to the same pattern, if one does.
std::optional<std::string> ShortestDecimal(v1::DType dtype, uint64_t bits) {
  const double value = BitsToFloat(dtype, bits);
  if (std::isnan(value)) return bits == QuietNanBits(dtype) ? std::optional<std::string>("nan") : std::nullopt;
  if (FloatToBits(dtype, value) != bits) return std::nullopt;  // bits above the width, or no pattern of the format
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  for (int digits = 1; digits <= 17; ++digits) {
    std::string text = absl::StrFormat("%.*g", digits, value);
    const std::optional<double> back = ParseDouble(text);
    if (!back.has_value() || FloatToBits(dtype, *back) != bits) continue;
    if (value == std::trunc(value) && std::fabs(value) < kPlainBelow) text = absl::StrFormat("%.0f", value);
    return LooksLikeFloat(text) ? text : absl::StrCat(text, ".0");
  }
  return std::nullopt;
}

std::string HexText(uint64_t bits) { return absl::StrCat("0x", absl::Hex(bits)); }

std::string PrintBits(v1::DType dtype, uint64_t bits) {
  std::optional<std::string> decimal = IsFloatDType(dtype) ? ShortestDecimal(dtype, bits) : std::nullopt;
  return decimal.has_value() ? *decimal : absl::StrCat("bits(", HexText(bits), ")");
}

void ParseNumber(TextScanner& in, v1::ConstArg& arg) {
  const absl::string_view word = in.PeekWord();
  int64_t i = 0;
  uint64_t u = 0;
  if (absl::SimpleAtoi(word, &i) && !absl::StartsWith(word, "+")) {
    arg.set_i(i);
  } else if (absl::EndsWith(word, "u") && absl::SimpleAtoi(word.substr(0, word.size() - 1), &u)) {
    arg.set_u(u);
  } else if (const std::optional<double> f = ParseDouble(word);
             IsFloatDType(arg.dtype()) && LooksLikeFloat(word) && f.has_value()) {
    arg.set_bits(FloatToBits(arg.dtype(), *f));
  } else {
    in.Fail(IsFloatDType(arg.dtype()) ? "a constant's value"
                                      : "a constant's value; a fraction needs a float dtype, or f(…)");
    return;
  }
  in.Word("a number");
}

void ParseDoubleField(TextScanner& in, v1::ConstArg& arg) {
  const absl::string_view word = in.PeekWord();
  if (absl::StartsWith(word, "0x")) {
    arg.set_f(std::bit_cast<double>(in.Hex64("a double's bits")));
  } else if (const std::optional<double> f = ParseDouble(word); f.has_value()) {
    arg.set_f(*f);
    in.Word("a number");
  } else {
    in.Fail("a double");
  }
}

}  // namespace

std::string PrintConstValue(const v1::ConstArg& arg) {
  switch (arg.value_case()) {
    case v1::ConstArg::kB: return arg.b() ? "true" : "false";
    case v1::ConstArg::kI: return absl::StrCat(arg.i());
    case v1::ConstArg::kU: return absl::StrCat(arg.u(), "u");
    case v1::ConstArg::kF: {
      const uint64_t bits = std::bit_cast<uint64_t>(arg.f());
      return absl::StrCat("f(", ShortestDecimal(v1::FLOAT64, bits).value_or(HexText(bits)), ")");
    }
    case v1::ConstArg::kBits: return PrintBits(arg.dtype(), arg.bits());
    case v1::ConstArg::kDecimal: return absl::StrCat("decimal(\"", absl::Utf8SafeCEscape(arg.decimal()), "\")");
    case v1::ConstArg::kInvalid: return arg.invalid() ? "invalid" : "invalid(false)";
    case v1::ConstArg::VALUE_NOT_SET: break;
  }
  return "none";
}

void ParseConstValue(TextScanner& in, v1::ConstArg& arg) {
  if (in.Take("true")) {
    arg.set_b(true);
  } else if (in.Take("false")) {
    arg.set_b(false);
  } else if (in.Take("invalid")) {
    arg.set_invalid(true);
    if (in.Take("(")) {
      in.Expect("false");
      in.Expect(")");
      arg.set_invalid(false);
    }
  } else if (in.Take("none")) {
    return;
  } else if (in.Take("bits")) {
    in.Expect("(");
    arg.set_bits(in.Hex64("a bit pattern, 0x…"));
    in.Expect(")");
  } else if (in.Take("f")) {
    in.Expect("(");
    ParseDoubleField(in, arg);
    in.Expect(")");
  } else if (in.Take("decimal")) {
    in.Expect("(");
    arg.set_decimal(in.Quoted("an integer in quotes"));
    in.Expect(")");
  } else {
    ParseNumber(in, arg);
  }
}

}  // namespace kiln
