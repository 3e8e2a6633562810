#include "compiler/rules/emulate_dtype.h"

#include <cmath>
#include <iterator>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "compiler/rules/transcendental/float_parts.h"

namespace kiln::compiler {
namespace {

// A sign, then the exponent, then `mantissa` bits.
struct Format {
  DType dtype;
  int mantissa;
  int bias;
  double most;   // the greatest finite value
  int infinity;  // pattern; 0: there is none
  int nan;       // the pattern that NaN becomes
  bool fnuz;     // no -0: its pattern is the one NaN
};

constexpr Format kFormats[] = {
    {DType::kFloat8E4m3, 3, 7, 448, 0, 0x7F, false},
    {DType::kFloat8E5m2, 2, 15, 57344, 0x7C, 0x7E, false},
    {DType::kFloat8E4m3Fnuz, 3, 8, 240, 0, 0x80, true},
    {DType::kFloat8E5m2Fnuz, 2, 16, 57344, 0, 0x80, true},
};

const Format* FormatOf(DType dtype) {
  for (const Format& format : kFormats) {
    if (format.dtype == dtype) return &format;
  }
  return nullptr;
}

// The exponent and mantissa are put where float32 has them; what is left is to
// make up for the other bias. A denormal is one of float32's then, so that the
// product is exact for it, too.
Formula Widen(Formula x) {
  const Format& format = *FormatOf(x.dtype());
  const Formula bits = x.BitsAs(DType::kUint8).As(DType::kUint32);
  const Formula magnitude = bits & 0x7F;
  Formula value = (magnitude << (23 - format.mantissa)).BitsAs(DType::kFloat32) * std::ldexp(1, 127 - format.bias);
  Formula is_nan = IsEqual(bits, 0x80);
  if (!format.fnuz) {
    const int first_nan = format.infinity != 0 ? format.infinity + 1 : format.nan;
    is_nan = magnitude.Like(first_nan - 1) < magnitude;
  }
  if (format.infinity != 0) value = Where(IsEqual(magnitude, format.infinity), Infinity(value), value);
  return WithSign(Where(is_nan, NotANumber(value), value), (bits & 0x80) << 24);
}

// Of float32 or float64. Beside a power of two that is `wide - mantissa` places
// up, x has as many bits as the format: the addition rounds, and the difference
// of the patterns counts units in the last place.
Formula Narrow(Formula x, const Format& format) {
  const FloatLayout& wide = LayoutOf(x.dtype());
  const Formula magnitude = Abs(x);
  const Formula within = Where(magnitude.Like(format.most) < magnitude, x.Like(format.most), magnitude);
  // The exponent, at least that of the least normal: denormals share it.
  const Formula field = within.BitsAs(wide.unsigned_bits) >> wide.mantissa;
  const Formula least = field.Like(wide.bias + 1 - format.bias);
  const Formula exponent = Where(field < least, least, field);
  const Formula big = (exponent + (wide.mantissa - format.mantissa)) << wide.mantissa;
  const Formula units = (within + big.BitsAs(wide.dtype)).BitsAs(wide.unsigned_bits) - big;
  // A normal's units hold its implicit one, which is 1 in the exponent; so does a
  // carry out of rounding.
  const Formula pattern = ((exponent - least) << format.mantissa) + units;
  const Formula sign = SignBit(x) >> (8 * ItemSize(wide.dtype) - 8);
  Formula result = pattern | sign;
  if (format.fnuz) result = Where(pattern != 0, result, pattern);
  const Formula infinite = IsEqual(magnitude, Infinity(x));
  Formula is_nan = x != x;
  if (format.infinity != 0) {
    result = Where(infinite, sign | format.infinity, result);
  } else {
    is_nan = is_nan | infinite;
  }
  return Where(is_nan, pattern.Like(format.nan), result).As(DType::kUint8).BitsAs(format.dtype);
}

bool FromFloat8(const UOp* uop) { return IsFloat8(uop->src(0)->dtype()); }
bool ToFloat8(const UOp* uop) { return IsFloat8(uop->dtype()); }

UOp* CastFrom(const Match& m, Graph& graph) { return Widen({graph, m.root()->src(0)}).As(m.root()->dtype()).uop(); }

// What is neither float32 nor float64 fits float32, or is past every float8 in
// both.
UOp* CastTo(const Match& m, Graph& graph) {
  const Formula x(graph, m.root()->src(0));
  const bool direct = x.dtype() == DType::kFloat32 || x.dtype() == DType::kFloat64;
  return Narrow(direct ? x : x.As(DType::kFloat32), *FormatOf(m.root()->dtype())).uop();
}

Arg AsByte(const Arg& arg) {
  Arg changed = arg;
  if (auto* dtype = std::get_if<DType>(&changed); dtype != nullptr && IsFloat8(*dtype)) *dtype = DType::kUint8;
  if (auto* value = std::get_if<ConstArg>(&changed); value != nullptr && IsFloat8(value->dtype))
    value->dtype = DType::kUint8;
  if (auto* buffer = std::get_if<BufferArg>(&changed); buffer != nullptr && IsFloat8(buffer->dtype))
    buffer->dtype = DType::kUint8;
  return changed;
}

}  // namespace

bool IsFloat8(DType dtype) { return FormatOf(dtype) != nullptr; }

std::vector<Rule> Float8CastRules() {
  return {
      RULE("cast(float8 x) -> float32 from its pattern", Pattern::Any(Op::CAST).If(FromFloat8), CastFrom),
      RULE("cast(x) to float8 -> its pattern, rounded once", Pattern::Any(Op::CAST).If(ToFloat8), CastTo),
  };
}

UOp* StoreFloat8AsBytes(Graph& graph, UOp* sink) {
  const std::vector<UOp*> order = Toposort(sink);
  bool any = false;
  for (const UOp* uop : order) any = any || IsFloat8(uop->dtype());
  if (!any) return sink;
  absl::flat_hash_map<UOp*, UOp*> done;
  std::vector<UOp*> src;
  for (UOp* uop : order) {
    src.clear();
    for (UOp* source : uop->src()) src.push_back(done.at(source));
    const Arg arg = AsByte(uop->arg());
    const bool same = uop->op() == Op::BITCAST && src[0]->dtype() == std::get<DType>(arg);
    done[uop] = same ? src[0] : graph.Make(uop->op(), src, arg);
  }
  return done.at(sink);
}

}  // namespace kiln::compiler
