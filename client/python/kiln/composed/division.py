"""Quotients, remainders, powers and rounding, of integers and of floats.

Remainders of floats are numpy's: that of the magnitudes is exact, as each step takes so few digits of the quotient that
their products with the divisor's halves do not round, fused with the difference or not; where the signs differ, the
divisor is added once, which rounds once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Tuple

from kiln import elementwise
from kiln.dtypes import bool_, float32, int8
from kiln.elementwise import astype, bitwise_and, equal, less, meet, multiply, negative, not_equal, weak_of, where
from kiln.functions import ceil as _ceil, detach, floor as _floor, trunc as _trunc
from kiln.composed.operands import one
from kiln.composed.signs import (
    copysign, isfinite, isinf, magnitude, masked_bits, signbit, with_sign_of, without_sign,
)  # fmt: skip
from kiln.promotion import limits
from kiln.value import Value

if TYPE_CHECKING:
    from kiln.tensor import Tensor


def _whole_and_rest(a: "Tensor", b: "Tensor") -> "Tuple[Tensor, Tensor]":
    """(q, a - q·b) with q a whole number and the rest in [0, b); for finite a >= 0 and b > 0. No gradient flows."""
    digits, steps = (11, 6) if a.dtype.itemsize == 4 else (25, 4)  # after the first one; what a step leaves has no more
    rest, b = detach(a), detach(b)
    whole, high = multiply(rest, 0.0), masked_bits(b, digits)
    low = b - high
    for _ in range(steps):
        quotient = masked_bits(_trunc(elementwise.divide(rest, b)), digits)
        rest = rest - multiply(quotient, high) - multiply(quotient, low)
        whole = whole + quotient
    # The quotient was rounded: it may be one too much, or one too little.
    over = less(rest, 0.0)
    whole, rest = where(over, whole - 1, whole), where(over, rest + b, rest)
    under = less(b, rest) | equal(rest, b)
    return where(under, whole + 1, whole), where(under, rest - b, rest)


def _divided(x: "Tensor", y: "Tensor") -> "Tuple[Tensor, Tensor]":
    """(the greatest whole number not above x / y, the rest of y's sign or 0), of finite x and y other than 0."""
    whole, rest = _whole_and_rest(magnitude(x), magnitude(y))
    apart = not_equal(less(x, 0.0), less(y, 0.0))
    whole, rest = where(apart, negative(whole), whole), where(less(x, 0.0), negative(rest), rest)
    short = apart & not_equal(rest, 0.0)
    whole, rest = where(short, whole - 1, whole), where(short, rest + detach(y), rest)
    # Nothing is added but the gradient of x - whole * y.
    return whole, rest + ((x - detach(x)) - whole * (y - detach(y)))


def _floats(name: str, a: Any, b: Any) -> "Optional[Tuple[Tensor, Tensor, Any]]":
    """Both as floats of float32 or wider, and the dtype of the result; None of integers."""
    x, y = meet(name, a, b)
    if x.dtype is bool_ or x.dtype.is_integer:
        return None
    wide = float32 if x.dtype.itemsize < 4 else x.dtype
    return astype(x, wide), astype(y, wide), x.dtype


def _integers(name: str, a: Any, b: Any) -> "Tuple[Any, Any]":
    """The operands; two bools are integers of 8 bits, as to numpy."""
    x, y = meet(name, a, b)
    return (astype(x, int8), astype(y, int8)) if x.dtype is bool_ else (a, b)


def floor_divide(x1: Any, x2: Any, /) -> "Tensor":
    """The greatest whole number that is not above the quotient. Of integers, x // 0 is 0."""
    floats = _floats("floor_divide", x1, x2)
    if floats is None:
        return elementwise.floor_divide(*_integers("floor_divide", x1, x2))
    x, y, kind = floats
    plain = isfinite(x) & isfinite(y) & not_equal(y, 0.0)
    whole, _ = _divided(where(plain, x, 0.0), where(plain, y, 1.0))
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
        return elementwise.remainder(*_integers("remainder", x1, x2))
    x, y, kind = floats
    plain = isfinite(x) & isfinite(y) & not_equal(y, 0.0)
    _, rest = _divided(where(plain, x, 0.0), where(plain, y, 1.0))
    rest = where(equal(rest, 0.0), copysign(where(plain, rest, 0.0), y), rest)
    beside = where(equal(x, 0.0), copysign(x, y), where(equal(signbit(x), signbit(y)), x, y))
    missing = elementwise.isnan(x) | elementwise.isnan(y) | isinf(x) | equal(y, 0.0)
    return weak_of(astype(where(plain, rest, where(missing, float("nan"), beside)), kind), x1, x2)


mod = remainder


def fmod(x1: Any, x2: Any, /) -> "Tensor":
    """What the quotient leaves when it is cut: with x1's sign."""
    x, y = meet("fmod", *_integers("fmod", x1, x2))
    if x.dtype.is_float:
        rest = remainder(magnitude(x), magnitude(y))
        return copysign(rest, x)
    if x.dtype.kind == "u":
        return elementwise.remainder(x, y)
    rest = elementwise.remainder(x, y)  # with y's sign
    return where(not_equal(rest, 0) & not_equal(less(rest, 0), less(x, 0)), rest - y, rest)


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
        if unit > limits(x.dtype)[1]:
            return x.graph.full(x.shape, 0, x.dtype)
        whole = elementwise.floor_divide(x, unit)
        rest = x - whole * unit
        other = unit - rest  # to the next above
        up = less(other, rest) | equal(other, rest) & not_equal(bitwise_and(whole, 1), 0)
        return (whole + astype(up, x.dtype)) * unit
    if decimals:
        scale = 10.0 ** max(decimals, -decimals)
        return round(x * scale) / scale if decimals > 0 else round(x / scale) * scale
    return weak_of(to_even(x), x)


def to_even(x: "Tensor") -> "Tensor":
    """A float's nearest whole number. No gradient flows.

    Beside so great a number there is no room for digits after the point: adding it rounds to the nearest, halves to
    the even one. What is as great itself is whole.
    """
    wide = astype(detach(x), float32) if x.dtype.itemsize < 4 else detach(x)
    size = without_sign(wide)
    great = 2.0 ** (52 if wide.dtype.itemsize == 8 else 23)
    return astype(with_sign_of(where(less(size, great), size + great - great, size), wide), x.dtype)


around = round


def floor(x: "Tensor", /) -> "Tensor":
    return _floor(one("floor", x))


def ceil(x: "Tensor", /) -> "Tensor":
    return _ceil(one("ceil", x))


def trunc(x: "Tensor", /) -> "Tensor":
    return _trunc(one("trunc", x))


fix = trunc
