"""Quotients, remainders, powers and rounding, of integers and of floats.

A remainder of floats is exact: the quotient is cut to a whole number, and what its product with the
divisor loses by rounding is computed too, from the halves of both (Dekker's product).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Tuple

from kiln import elementwise
from kiln.dtypes import bool_, float32
from kiln.elementwise import astype, bitwise_and, equal, less, meet, multiply, negative, not_equal, weak_of, where
from kiln.functions import ceil as _ceil, detach, floor as _floor, trunc as _trunc
from kiln.composed.operands import one
from kiln.composed.signs import copysign, isfinite, isinf, magnitude, masked_bits, signbit
from kiln.value import Value

if TYPE_CHECKING:
    from kiln.tensor import Tensor


def _lost(a: "Tensor", b: "Tensor", product: "Tensor") -> "Tensor":
    """What rounding took from `product` of a and b."""
    keep = 11 if a.dtype.itemsize == 4 else 26
    a_high, b_high = masked_bits(a, keep), masked_bits(b, keep)
    a_low, b_low = a - a_high, b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _whole_and_rest(a: "Tensor", b: "Tensor") -> "Tuple[Tensor, Tensor]":
    """(q, a - q·b) with q a whole number and the rest of b's sign, or 0; for finite a and b other than 0."""
    whole, rest = multiply(detach(a), 0.0), a
    # A quotient has no more digits than its dtype: what it leaves may be divided again. To the last place for
    # quotients below 2^69 in float32, below 2^104 in float64.
    for _ in range(3 if a.dtype.itemsize == 4 else 2):
        quotient = _floor(elementwise.divide(detach(rest), detach(b)))
        product = multiply(quotient, b)
        rest = rest - product - detach(_lost(quotient, b, product))
        whole = whole + quotient
    # The quotient was rounded: it may be one too much, or one too little.
    over = not_equal(rest, 0.0) & not_equal(less(rest, 0.0), less(b, 0.0))
    whole, rest = where(over, whole - 1, whole), where(over, rest + b, rest)
    under = where(less(b, 0.0), less(rest, b) | equal(rest, b), less(b, rest) | equal(rest, b))
    return where(under, whole + 1, whole), where(under, rest - b, rest)


def _floats(name: str, a: Any, b: Any) -> "Optional[Tuple[Tensor, Tensor, Any]]":
    """Both as floats of float32 or wider, and the dtype of the result; None of integers."""
    x, y = meet(name, a, b)
    if x.dtype is bool_ or x.dtype.is_integer:
        return None
    wide = float32 if x.dtype.itemsize < 4 else x.dtype
    return astype(x, wide), astype(y, wide), x.dtype


def floor_divide(x1: Any, x2: Any, /) -> "Tensor":
    """The greatest whole number that is not above the quotient. Of integers, x // 0 is 0."""
    floats = _floats("floor_divide", x1, x2)
    if floats is None:
        return elementwise.floor_divide(x1, x2)
    x, y, kind = floats
    plain = isfinite(x) & isfinite(y) & not_equal(y, 0.0)
    whole, _ = _whole_and_rest(where(plain, x, 0.0), where(plain, y, 1.0))
    quotient = elementwise.divide(x, y)
    whole = where(equal(whole, 0.0), copysign(0.0 * whole, quotient), whole)
    otherwise = where(isinf(x), where(isinf(y), float("nan"), quotient), _floor(quotient))
    # A finite number by an infinite one of the other sign: just below 0.
    below = isfinite(x) & isinf(y) & not_equal(x, 0.0) & not_equal(signbit(x), signbit(y))
    return weak_of(astype(where(plain, whole, where(below, -1.0, otherwise)), kind), x1, x2)


def remainder(x1: Any, x2: Any, /) -> "Tensor":
    """What floor_divide leaves, with x2's sign. Of integers, x % 0 is x; of floats it is NaN."""
    floats = _floats("remainder", x1, x2)
    if floats is None:
        return elementwise.remainder(x1, x2)
    x, y, kind = floats
    plain = isfinite(x) & isfinite(y) & not_equal(y, 0.0)
    _, rest = _whole_and_rest(where(plain, x, 0.0), where(plain, y, 1.0))
    rest = where(equal(rest, 0.0), copysign(where(plain, rest, 0.0), y), rest)
    beside = where(equal(x, 0.0), copysign(x, y), where(equal(signbit(x), signbit(y)), x, y))
    missing = elementwise.isnan(x) | elementwise.isnan(y) | isinf(x) | equal(y, 0.0)
    return weak_of(astype(where(plain, rest, where(missing, float("nan"), beside)), kind), x1, x2)


mod = remainder


def fmod(x1: Any, x2: Any, /) -> "Tensor":
    """What the quotient leaves when it is cut: with x1's sign."""
    x, y = meet("fmod", x1, x2)
    if x.dtype.is_float:
        rest = remainder(magnitude(x), magnitude(y))
        return copysign(rest, x)
    if x.dtype.kind == "u":
        return elementwise.remainder(x, y)
    negated = less(x, 0)
    rest = elementwise.remainder(where(negated, negative(x), x), where(less(y, 0), negative(y), y))
    return where(negated, negative(rest), rest)


def divmod(x1: Any, x2: Any, /) -> "Tuple[Tensor, Tensor]":
    return floor_divide(x1, x2), remainder(x1, x2)


def pow(x1: Any, x2: Any, /) -> "Tensor":
    """Of integers by repeated squares: they wrap, and a negative power of one is 0 unless it is 1 or -1."""
    if isinstance(x2, int) and not isinstance(x2, bool) and isinstance(x1, Value):
        if x1.dtype.is_float or x2 >= 0:
            return elementwise.power(x1, x2)
    x, y = meet("pow", x1, x2)
    if x.dtype.is_float:
        return weak_of(elementwise.power(x, y), x1, x2)
    result, square = x.graph.full((), 1, x.dtype), x
    for bit in range(8 * x.dtype.itemsize - (x.dtype.kind == "i")):
        result = where(not_equal(bitwise_and(y, 1 << bit), 0), multiply(result, square), result)
        square = multiply(square, square)
    if x.dtype.kind == "u":
        return weak_of(result, x1, x2)
    odd = not_equal(bitwise_and(y, 1), 0)
    unit = where(equal(x, 1), 1, where(equal(x, -1), where(odd, -1, x.graph.scalar(1, x.dtype)), 0))
    return weak_of(where(less(y, 0), unit, result), x1, x2)


def round(x: "Tensor", /, decimals: int = 0) -> "Tensor":
    """To the nearest whole number, halves to the even one; to as many decimals as given."""
    x = one("round", x)
    if not x.dtype.is_float:
        if decimals >= 0:
            return x
        unit = 10**-decimals
        whole = elementwise.floor_divide(x, unit)
        twice = (x - whole * unit) * 2
        up = less(unit, twice) | equal(twice, unit) & not_equal(bitwise_and(whole, 1), 0)
        return (whole + astype(up, x.dtype)) * unit
    if decimals:
        scale = 10.0 ** max(decimals, -decimals)
        return round(x * scale) / scale if decimals > 0 else round(x / scale) * scale
    below = _floor(x)
    over = x - below
    half = below * 0.5
    odd = not_equal(_floor(half), half)
    return copysign(where(less(0.5, over) | equal(over, 0.5) & odd, below + 1, below), x)


around = round


def floor(x: "Tensor", /) -> "Tensor":
    return _floor(one("floor", x))


def ceil(x: "Tensor", /) -> "Tensor":
    return _ceil(one("ceil", x))


def trunc(x: "Tensor", /) -> "Tensor":
    return _trunc(one("trunc", x))


fix = trunc
