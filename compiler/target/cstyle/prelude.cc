#include "compiler/target/cstyle/prelude.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/check.h"
#include "compiler/target/cstyle/literal.h"

namespace kiln::compiler {
namespace {

constexpr const char* kNames[] = {"div", "mod",        "floordiv",    "floormod", "shl",         "shr",
                                  "max", "from_float", "from_double", "odd_from", "bfloat_from", "from_bfloat"};

// $T is the type, $U the unsigned one of its size, $W its width in bits, $min and
// $max its ends, $0 ... the helpers it calls.
std::string Body(Helper helper, bool is_signed) {
  switch (helper) {
    case Helper::kQuotient:
      return is_signed ? "$T $n($T a, $T b) { return b == 0 ? 0 : b == -1 ? ($T)(0-($U)a) : ($T)(a/b); }"
                       : "$T $n($T a, $T b) { return b == 0 ? 0 : ($T)(a/b); }";
    case Helper::kRemainder:
      return is_signed ? "$T $n($T a, $T b) { return b == 0 ? a : b == -1 ? 0 : ($T)(a%b); }"
                       : "$T $n($T a, $T b) { return b == 0 ? a : ($T)(a%b); }";
    case Helper::kFloorQuotient:
      return "$T $n($T a, $T b) { $T q = $0(a, b); return b != 0 && $1(a, b) != 0 && (a < 0) != (b < 0) ? ($T)(q-1) : "
             "q; }";
    case Helper::kFloorRemainder:
      return "$T $n($T a, $T b) { $T r = $1(a, b); return b != 0 && r != 0 && (a < 0) != (b < 0) ? ($T)(r+b) : r; }";
    case Helper::kShiftLeft: return "$T $n($T a, $T b) { return ($U)b >= $W ? 0 : ($T)(($U)a << ($U)b); }";
    case Helper::kShiftRight:
      return is_signed ? "$T $n($T a, $T b) { return ($U)b >= $W ? (a < 0 ? -1 : 0) : ($T)(a >> b); }"
                       : "$T $n($T a, $T b) { return b >= $W ? 0 : ($T)(a >> b); }";
    case Helper::kMax: return "$T $n($T a, $T b) { return a != a ? a : b != b ? b : a > b ? a : b; }";
    case Helper::kFromFloat:
      return "$T $n(float x) { return x != x ? 0 : x <= (float)$min ? $min : x >= (float)$max ? $max : ($T)x; }";
    case Helper::kFromDouble:
      return "$T $n(double x) { return x != x ? 0 : x <= (double)$min ? $min : x >= (double)$max ? $max : ($T)x; }";
    // Twenty-four bits of the magnitude, the last of them saying whether any below it was set.
    case Helper::kToOdd:
      return is_signed
                 ? "float $n($T x) { $U m = x < 0 ? 0-($U)x : ($U)x; int s = 0; while ((m >> s) >> 24) s++; $U q = "
                   "m >> s; if (q << s != m) q |= 1; float f = (float)(q << s); return x < 0 ? -f : f; }"
                 : "float $n($T m) { int s = 0; while ((m >> s) >> 24) s++; $T q = m >> s; if (q << s != m) q |= 1; "
                   "return (float)(q << s); }";
    case Helper::kToBfloat:
      return "$H $n(float x) { $I u = $bits_of_x; return x != x ? ($H)(u >> 16 | 64) : ($H)((u + 32767 + (u >> 16 & "
             "1)) "
             ">> 16); }";
    case Helper::kFromBfloat: return "float $n($H h) { $I u = ($I)h << 16; return $float_of_u; }";
  }
  return "";
}

// A float from a double; toward zero and then odd, unless exact.
constexpr char kDoubleToOdd[] =
    "float $n(double x) { float x0 = (float)x; if (x != x || (double)x0 == x) return x0; $I u = $bits_of_x0; if "
    "((x0 < 0 ? -(double)x0 : (double)x0) > (x < 0 ? -x : x)) u--; u |= 1; return $float_of_u; }";

uint64_t Least(DType dtype) { return IsSigned(dtype) ? ~uint64_t{0} << (Bits(dtype) - 1) : 0; }
uint64_t Greatest(DType dtype) {
  const int bits = Bits(dtype) - (IsSigned(dtype) ? 1 : 0);
  return bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
}

}  // namespace

std::string Prelude::Type(DType dtype) {
  const TypeRow* row = dialect_.TypeOf(dtype);
  KILN_CHECK(row != nullptr);
  const std::string needs(row->needs);
  if (!needs.empty() && std::find(lines_.begin(), lines_.end(), needs) == lines_.end()) lines_.push_back(needs);
  return std::string(row->name);
}

std::string Prelude::Bitcast(DType dtype, absl::string_view variable) {
  return absl::StrReplaceAll(dialect_.bitcast, {{"$T", Type(dtype)}, {"$x", variable}});
}

std::string Prelude::Use(Helper helper, DType dtype) {
  const std::string name = absl::StrCat("kiln_", kNames[static_cast<int>(helper)], "_", Name(dtype));
  if (defined_.insert(name).second) {
    // In two steps: what the function calls is defined while its text is made.
    const std::string text = Define(helper, dtype, name);
    absl::StrAppend(&functions_, dialect_.function_prefix, text, "\n");
  }
  return name;
}

std::string Prelude::Define(Helper helper, DType dtype, const std::string& name) {
  const bool integer = IsInt(dtype);
  const bool floors = helper == Helper::kFloorQuotient || helper == Helper::kFloorRemainder;
  std::string body = Body(helper, IsSigned(dtype));
  if (helper == Helper::kToOdd && dtype == DType::kFloat64) body = kDoubleToOdd;
  if (helper == Helper::kMax && integer) body = "$T $n($T a, $T b) { return a > b ? a : b; }";
  const auto used = [&](const char* mark, const auto& text) {
    if (absl::StrContains(body, mark)) body = absl::StrReplaceAll(body, {{mark, text()}});
  };
  if (integer) {
    used("$min", [&] { return LiteralText(*this, dtype, Least(dtype)); });
    used("$max", [&] { return LiteralText(*this, dtype, Greatest(dtype)); });
    used("$U", [&] { return Type(UnsignedOfSize(ItemSize(dtype))); });
    used("$W", [&] { return absl::StrCat(Bits(dtype)); });
  }
  if (floors) {
    used("$0", [&] { return Use(Helper::kQuotient, dtype); });
    used("$1", [&] { return Use(Helper::kRemainder, dtype); });
  }
  used("$bits_of_x0", [&] { return Bitcast(DType::kUint32, "x0"); });
  used("$bits_of_x", [&] { return Bitcast(DType::kUint32, "x"); });
  used("$float_of_u", [&] { return Bitcast(DType::kFloat32, "u"); });
  used("$I", [&] { return Type(DType::kUint32); });
  used("$H", [&] { return Type(DType::kUint16); });
  used("$T", [&] { return Type(dtype); });
  used("$n", [&] { return name; });
  return body;
}

std::string Prelude::Text() const {
  std::string text(dialect_.header);
  for (const std::string& line : lines_) text += line;
  return text + functions_;
}

}  // namespace kiln::compiler
