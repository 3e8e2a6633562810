"""tan and the functions that give an angle, of which the IR has none.

asin and atan are x times a polynomial of x² where that is small, and elsewhere lead back there.
The coefficients are Chebyshev interpolations of (f(x) / x - 1) / x², good to the dtype's digits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Sequence

from kiln.dtypes import float64
from kiln.elementwise import divide, equal, less, maximum, minimum, multiply, negative, where
from kiln.functions import in_float32, reciprocal, sin, sqrt
from kiln.composed.operands import in_floats
from kiln.composed.signs import magnitude, signbit

if TYPE_CHECKING:
    from kiln.tensor import Tensor

# fmt: off
_ATAN_FLOAT32 = (-0.3333333175381697, 0.1999953879477192, -0.14263897112598675, 0.1074309966767457, -0.06449835224591496)
_ATAN_FLOAT64 = (
    -0.3333333333333333, 0.19999999999999993, -0.1428571428571149, 0.11111111110751482, -0.0909090906681608,
    0.07692306729194896, -0.06666641869131183, 0.058819230561140225, -0.05258020272656758, 0.04719259188242093,
    -0.04103887546862687, 0.030622995553735516, -0.013905374533113234,
)
_ASIN_FLOAT32 = (
    0.1666666633654049, 0.07500094761172901, 0.04459931916287114, 0.031101727829067168, 0.017143716819253568,
    0.03370072632136513,
)
_ASIN_FLOAT64 = (
    0.16666666666666666, 0.07500000000000001, 0.044642857142854896, 0.030381944444744974, 0.022372159069840483,
    0.017352765313989122, 0.013964819093904957, 0.011552270675713022, 0.009755249440263935, 0.00845263412545028,
    0.006868000082946958, 0.008747626096338083, -0.002737354191448013, 0.026534461476702038, -0.029340857521207755,
    0.03210298956952057,
)
# fmt: on


def _series(x: "Tensor", coefficients: Sequence[float]) -> "Tensor":
    """x + x³ · (c[0] + c[1] · x² + …)"""
    square = multiply(x, x)
    total = square * coefficients[-1] + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        total = total * square + coefficient
    return x + x * (square * total)


# Twice as much as this is more than the dtype holds.
_LARGE = {"float32": 1e38, "float64": 8e307}


@in_float32
def tan(x: "Tensor", /) -> "Tensor":
    """2 sin(x)² / sin(2x): doubling loses nothing, and each sine has all its digits, also near 0."""
    large = less(_LARGE[x.dtype.name], magnitude(x))
    none = equal(x, 0.0)
    sine = sin(x)
    other = sin(where(none, 1.0, where(large, 0.5 * x, 2 * x)))
    usual = 2 * sine * divide(sine, other)
    return where(none, x, where(large, divide(sine, 1 - 2 * other * other), usual))


def _asin_within(x: "Tensor") -> "Tensor":
    """For x in [0, 1/2]."""
    return _series(x, _ASIN_FLOAT64 if x.dtype is float64 else _ASIN_FLOAT32)


@in_float32
def asin(x: "Tensor", /) -> "Tensor":
    """NaN beyond 1."""
    a = magnitude(x)
    far = less(0.5, a)
    inner = _asin_within(where(far, sqrt(where(far, 0.5 - 0.5 * a, 0.25)), a))
    angle = where(far, math.pi / 2 - 2 * inner, inner)
    return where(signbit(x), negative(angle), angle)


@in_float32
def acos(x: "Tensor", /) -> "Tensor":
    """NaN beyond 1."""
    a = magnitude(x)
    far = less(0.5, a)
    inner = _asin_within(where(far, sqrt(where(far, 0.5 - 0.5 * a, 0.25)), a))
    below = less(x, 0.0)
    near = math.pi / 2 - where(below, negative(inner), inner)
    return where(far, where(below, math.pi - 2 * inner, 2 * inner), near)


def _atan_positive(a: "Tensor") -> "Tensor":
    """For a >= 0: beyond tan(π/8) by the angle that is left to π/4 or π/2."""
    steep, middle = less(2.414213562373095, a), less(0.41421356237309503, a)
    safe = where(steep, a, 1.0)
    reduced = where(steep, negative(reciprocal(safe)), where(middle, (a - 1) * reciprocal(a + 1), a))
    reduced = where(equal(a, float("inf")), 0.0, reduced)
    base = where(steep, math.pi / 2, where(middle, math.pi / 4, a.graph.scalar(0.0, a.dtype)))
    return base + _series(reduced, _ATAN_FLOAT64 if a.dtype is float64 else _ATAN_FLOAT32)


@in_float32
def atan(x: "Tensor", /) -> "Tensor":
    angle = _atan_positive(magnitude(x))
    return where(signbit(x), negative(angle), angle)


@in_floats
def atan2(y: "Tensor", x: "Tensor") -> "Tensor":
    """The angle of the point (x, y), from -π to π."""
    a, b = magnitude(y), magnitude(x)
    same = equal(a, b)
    ratio = divide(minimum(a, b), where(equal(maximum(a, b), 0.0), 1.0, maximum(a, b)))
    ratio = where(same, where(equal(a, 0.0), a, 1.0), ratio)  # of two infinities, too
    angle = _atan_positive(ratio)
    angle = where(less(b, a), math.pi / 2 - angle, angle)
    angle = where(signbit(x), math.pi - angle, angle)
    angle = where(same | less(a, b) | less(b, a), angle, a + b)  # NaN, if one of them is
    return where(signbit(y), negative(angle), angle)


@in_float32
def degrees(x: "Tensor", /) -> "Tensor":
    return x * (180 / math.pi)


@in_float32
def radians(x: "Tensor", /) -> "Tensor":
    return x * (math.pi / 180)
