// Elementwise ops on known values.
//
// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include <algorithm>
#include <cmath>

#include "base/float_bits.h"
#include "models/onnx/known_ops.h"

namespace kiln::onnx {
namespace {

using client::Size;
using Integer = std::optional<Size>;
using Real = std::optional<double>;

// The place in a source of each element of `shape`, by broadcasting.
std::vector<int64_t> Places(const client::Shape& from, const client::Shape& shape) {
  const int64_t count = client::ElementCount(shape).value_or(0);
  std::vector<int64_t> places(static_cast<size_t>(count), 0);
  int64_t stride = 1, inner = 1;
  for (size_t back = 1; back <= shape.size(); ++back) {
    const int64_t size = shape[shape.size() - back];
    const int64_t own = back <= from.size() ? from[from.size() - back] : 1;
    if (own > 1) {
      for (int64_t i = 0; i < count; ++i) places[i] += i / inner % size * stride;
    }
    stride *= own;
    inner *= size;
  }
  return places;
}

int64_t Floor(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }
bool Divides(int64_t a, int64_t b) { return b != 0 && b != -1; }

// Of numbers alone.
Integer Numbers(v1::Op op, v1::DType dtype, int64_t a, int64_t b) {
  const auto unsigned_a = static_cast<uint64_t>(a), unsigned_b = static_cast<uint64_t>(b);
  const bool below = dtype == v1::UINT64 ? unsigned_a < unsigned_b : a < b;
  if (dtype == v1::UINT64 && (op == v1::FLOORDIV || op == v1::CDIV)) {
    return static_cast<int64_t>(b == 0 ? 0 : unsigned_a / unsigned_b);
  }
  if (dtype == v1::UINT64 && (op == v1::FLOORMOD || op == v1::CMOD)) {
    return static_cast<int64_t>(b == 0 ? unsigned_a : unsigned_a % unsigned_b);
  }
  switch (op) {
    case v1::ADD: return static_cast<int64_t>(unsigned_a + unsigned_b);
    case v1::SUB: return static_cast<int64_t>(unsigned_a - unsigned_b);
    case v1::MUL: return static_cast<int64_t>(unsigned_a * unsigned_b);
    case v1::MAX: return below ? b : a;
    case v1::FLOORDIV: return b == -1 ? static_cast<int64_t>(-unsigned_a) : Divides(a, b) ? Floor(a, b) : 0;
    case v1::FLOORMOD: return b == -1 ? 0 : Divides(a, b) ? a - Floor(a, b) * b : a;
    case v1::CDIV: return b == -1 ? static_cast<int64_t>(-unsigned_a) : Divides(a, b) ? a / b : 0;
    case v1::CMOD: return b == -1 ? 0 : Divides(a, b) ? a % b : a;
    case v1::AND: return a & b;
    case v1::OR: return a | b;
    case v1::XOR: return a ^ b;
    case v1::CMPLT: return below;
    case v1::CMPGT: return a != b && !below;
    case v1::CMPLE: return below || a == b;
    case v1::CMPGE: return !below;
    case v1::CMPEQ: return a == b;
    case v1::CMPNE: return a != b;
    default: return std::nullopt;
  }
}

// Bool, whose arithmetic is docs/ir.md's own.
Integer Bools(v1::Op op, bool a, bool b) {
  switch (op) {
    case v1::ADD:
    case v1::MAX:
    case v1::OR: return a || b;
    case v1::MUL:
    case v1::AND: return a && b;
    case v1::XOR:
    case v1::CMPNE: return a != b;
    case v1::CMPEQ: return a == b;
    case v1::CMPLT: return !a && b;
    default: return std::nullopt;
  }
}

// Of sizes that depend on variables: what can be said for all of their values.
Integer OfSizes(v1::Op op, const Size& a, const Size& b) {
  const bool below = a.greatest()<b.least(), above = a.least()> b.greatest();
  switch (op) {
    case v1::ADD: return a + b;
    case v1::SUB: return a - b;
    case v1::MUL: return a * b;
    case v1::MAX:
      if (a.least() >= b.greatest()) return a;
      if (b.least() >= a.greatest()) return b;
      return std::nullopt;
    case v1::FLOORDIV:
    case v1::CDIV: return a.DividedBy(b);
    case v1::FLOORMOD:
    case v1::CMOD: return a.DividedBy(b) ? Integer(Size(0)) : std::nullopt;
    case v1::CMPLT: return below ? Integer(1) : a.least() >= b.greatest() ? Integer(0) : std::nullopt;
    case v1::CMPGT: return above ? Integer(1) : a.greatest() <= b.least() ? Integer(0) : std::nullopt;
    case v1::CMPLE: return a.greatest() <= b.least() ? Integer(1) : above ? Integer(0) : std::nullopt;
    case v1::CMPGE: return a.least() >= b.greatest() ? Integer(1) : below ? Integer(0) : std::nullopt;
    case v1::CMPEQ: return a == b ? Integer(1) : below || above ? Integer(0) : std::nullopt;
    case v1::CMPNE: return a == b ? Integer(0) : below || above ? Integer(1) : std::nullopt;
    default: return std::nullopt;
  }
}

Integer Integers(v1::Op op, v1::DType dtype, const Size& a, const Size& b) {
  const auto x = a.number(), y = b.number();
  if (!x || !y) return OfSizes(op, a, b);
  return dtype == v1::BOOL ? Bools(op, *x != 0, *y != 0) : Numbers(op, dtype, *x, *y);
}

Real Reals(v1::Op op, double a, double b) {
  switch (op) {
    case v1::ADD: return a + b;
    case v1::SUB: return a - b;
    case v1::MUL: return a * b;
    case v1::FDIV: return a / b;
    case v1::MAX: return std::isnan(a) || a > b ? a : b;
    case v1::POW: return std::pow(a, b);
    default: return std::nullopt;
  }
}

Integer Compared(v1::Op op, double a, double b) {
  switch (op) {
    case v1::CMPLT: return a < b;
    case v1::CMPGT: return a > b;
    case v1::CMPLE: return a <= b;
    case v1::CMPGE: return a >= b;
    case v1::CMPEQ: return a == b;
    case v1::CMPNE: return a != b;
    default: return std::nullopt;
  }
}

Real RealUnary(v1::Op op, double x) {
  switch (op) {
    case v1::NEG: return -x;
    case v1::RECIPROCAL: return 1 / x;
    case v1::TRUNC: return std::trunc(x);
    case v1::SQRT: return std::sqrt(x);
    case v1::EXP2: return std::exp2(x);
    case v1::LOG2: return std::log2(x);
    case v1::SIN: return std::sin(x);
    default: return std::nullopt;
  }
}

// Toward zero, saturating, NaN to 0.
int64_t ToInteger(v1::DType dtype, double x) {
  if (std::isnan(x)) return 0;
  const bool is_signed = client::IsSigned(dtype);
  const double most = std::ldexp(1.0, static_cast<int>(8 * client::DTypeSize(dtype)) - (is_signed ? 1 : 0));
  const auto greatest = static_cast<int64_t>(client::GreatestInteger(dtype));
  if (x >= most) return greatest;
  if (is_signed && x <= -most) return -greatest - 1;
  if (!is_signed && x <= 0) return 0;
  return dtype == v1::UINT64 ? static_cast<int64_t>(static_cast<uint64_t>(x)) : static_cast<int64_t>(x);
}

bool Cast(const Known& from, int64_t i, Known& to) {
  if (from.IsReal()) {
    const double x = from.reals[i];
    if (to.IsReal()) {
      to.reals.push_back(Rounded(to.dtype, x));
    } else {
      to.integers.push_back(to.dtype == v1::BOOL ? int64_t{x != 0} : ToInteger(to.dtype, x));
    }
    return true;
  }
  const Size& value = from.integers[i];
  if (!to.IsReal() && to.dtype != v1::BOOL) {
    const Integer wrapped = Wrapped(to.dtype, value);
    if (wrapped) to.integers.push_back(*wrapped);
    return wrapped.has_value();
  }
  const auto number = value.number();
  if (to.dtype == v1::BOOL) {
    if (!number && value.least() <= 0) return false;
    to.integers.push_back(number ? int64_t{*number != 0} : int64_t{1});
    return true;
  }
  if (!number) return false;
  const bool huge = from.dtype == v1::UINT64 && *number < 0;
  to.reals.push_back(
      Rounded(to.dtype, huge ? static_cast<double>(static_cast<uint64_t>(*number)) : static_cast<double>(*number)));
  return true;
}

// The same bits as another dtype of that size.
bool Bits(const Known& from, int64_t i, Known& to) {
  if (client::DTypeSize(from.dtype) != client::DTypeSize(to.dtype)) return false;
  const auto number = from.IsReal() ? std::nullopt : from.integers[i].number();
  if (!from.IsReal() && !number) return false;
  const uint64_t bits = from.IsReal() ? FloatToBits(from.dtype, from.reals[i]) : static_cast<uint64_t>(*number);
  if (to.IsReal()) {
    to.reals.push_back(BitsToFloat(to.dtype, bits));
    return true;
  }
  const Integer wrapped = Wrapped(to.dtype, static_cast<int64_t>(bits));
  if (wrapped) to.integers.push_back(*wrapped);
  return wrapped.has_value();
}

}  // namespace

Integer Wrapped(v1::DType dtype, const Size& value) {
  if (!value.valid()) return std::nullopt;
  const int64_t size = client::DTypeSize(dtype);
  if (dtype == v1::WEAKINT || size >= 8) return value;
  if (dtype == v1::BOOL) return value;
  const auto most = static_cast<int64_t>(client::GreatestInteger(dtype));
  const int64_t least = client::IsSigned(dtype) ? -most - 1 : 0;
  if (value.least() >= least && value.greatest() <= most) return value;
  if (!value.number()) return std::nullopt;
  const int shift = static_cast<int>(64 - 8 * size);
  const uint64_t bits = static_cast<uint64_t>(*value.number()) << shift;
  return client::IsSigned(dtype) ? static_cast<int64_t>(bits) >> shift : static_cast<int64_t>(bits >> shift);
}

double Rounded(v1::DType dtype, double value) {
  return IsFloatDType(dtype) ? BitsToFloat(dtype, FloatToBits(dtype, value)) : value;
}

std::optional<Known> KnownElementwise(const v1::UOp& uop, const std::vector<const Known*>& sources, v1::DType dtype,
                                      const client::Shape& shape) {
  const v1::Op op = uop.op();
  if (sources.empty() || sources.size() > 3 || (sources.size() == 3 && op != v1::WHERE)) return std::nullopt;
  Known result{dtype, shape, {}, {}};
  const int64_t count = client::ElementCount(shape).value_or(0);
  std::vector<std::vector<int64_t>> places;
  for (const Known* source : sources) places.push_back(Places(source->shape, shape));
  const Known &a = *sources[0], &b = *sources[sources.size() > 1 ? 1 : 0];
  for (int64_t i = 0; i < count; ++i) {
    if (op == v1::CAST) {
      if (!Cast(a, places[0][i], result)) return std::nullopt;
      continue;
    }
    if (op == v1::BITCAST) {
      if (!Bits(a, places[0][i], result)) return std::nullopt;
      continue;
    }
    if (op == v1::WHERE) {
      const auto chosen = a.integers[places[0][i]].number();
      if (!chosen) return std::nullopt;
      const size_t from = *chosen != 0 ? 1 : 2;
      if (result.IsReal()) {
        result.reals.push_back(sources[from]->reals[places[from][i]]);
      } else {
        result.integers.push_back(sources[from]->integers[places[from][i]]);
      }
      continue;
    }
    Integer integer;
    Real real;
    if (sources.size() == 1) {
      if (a.IsReal()) real = RealUnary(op, a.reals[places[0][i]]);
      if (!a.IsReal() && op == v1::NEG) integer = Integers(v1::SUB, a.dtype, Size(0), a.integers[places[0][i]]);
    } else if (a.IsReal()) {
      const double x = a.reals[places[0][i]], y = b.reals[places[1][i]];
      if (result.IsReal()) real = Reals(op, x, y);
      if (!result.IsReal()) integer = Compared(op, x, y);
    } else if (!result.IsReal()) {
      integer = Integers(op, a.dtype, a.integers[places[0][i]], b.integers[places[1][i]]);
    }
    if (integer) integer = Wrapped(dtype, *integer);
    if (real) {
      result.reals.push_back(Rounded(dtype, *real));
    } else if (integer) {
      result.integers.push_back(*integer);
    } else {
      return std::nullopt;
    }
  }
  return result;
}

}  // namespace kiln::onnx
