"""exp, log, sin and their like: the builder's, and compositions for those that it has not.

What is seldom used and would lose digits by cancellation is computed in float64 and rounded once.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Callable, Sequence

import numpy as np

from kiln import elementwise as ops, functions, movement, reduce
from kiln.composed import nn, special
from kiln.composed import trigonometric
from kiln.dtypes import float32, float64
from kiln.jax.table import rule

_INFINITY = float("inf")
# erfinv(x) / x by w = -log(1 - x²): for w up to 5 of (w - 2.5) / 2.5, beyond of sqrt(w) over its own range.
# Fitted to scipy.special.erfinv at Chebyshev's points; within 1e-7.
_NEAR = (
    1.5014093597051428, 0.616600696068196, -0.026108677963069333, -0.01957383165188507, 0.008529136194843601,
    -0.00048565133556466864, -0.0008454817051320785, 0.0002858074788124531, 3.549926768767274e-05,
    -3.410878786101247e-05,
)  # fmt: skip
_FAR = (
    3.001526703147987, 0.9359686384832395, 0.005566138981836558, -0.003770976252705431, 0.002452959586851591,
    -0.001652127638375891, 0.0008201800424190841, -7.970534793728849e-05, -8.720516785932808e-05,
)  # fmt: skip
_FAR_FROM, _FAR_TO = math.sqrt(5), 4.1


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    total = x * coefficients[-1] + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        total = total * x + coefficient
    return total


def of_one(*names: str, wide: bool = False) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Rules of one float: narrow ones in float32, or with `wide` all in float64, rounded once."""

    def put(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(function)
        def apply(e: Any, x: Any) -> Any:
            inner = float64 if wide else float32 if x.dtype.itemsize < 4 else x.dtype
            return ops.astype(function(ops.astype(x, inner)), x.dtype)

        rule(*names)(apply)
        return function

    return put


for _name, _function in {
    "exp": functions.exp, "exp2": functions.exp2, "log": functions.log, "sqrt": functions.sqrt,
    "sin": functions.sin, "cos": functions.cos, "tan": trigonometric.tan, "tanh": special.tanh, "erf": special.erf,
    "logistic": nn.sigmoid, "rsqrt": functions.rsqrt,
}.items():  # fmt: skip
    of_one(_name)(_function)


@of_one("log1p")
def log1p(x: Any) -> Any:
    """log(u) for u = 1 + x rounded, times by how much x is more than u - 1."""
    u = 1 + x
    exact = ops.equal(u, 1) | ops.equal(u, _INFINITY)
    return ops.where(exact, x, functions.log(u) * (x / ops.where(exact, 1, u - 1)))


@of_one("expm1")
def expm1(x: Any) -> Any:
    """(u - 1) x / log(u) for u = exp(x) rounded."""
    u = functions.exp(x)
    plain = (u < 0.5) | (u > 2)
    inner = ops.where(plain, 2, u)
    near = ops.where(
        ops.equal(inner, 1), x, (inner - 1) * (x / ops.where(ops.equal(inner, 1), 1, functions.log(inner)))
    )
    return ops.where(plain | ops.isnan(x), u - 1, near)


@of_one("cbrt", wide=True)
def cbrt(x: Any) -> Any:
    a = functions.absolute(x)
    root = functions.exp2(functions.log2(a) / 3)
    root = ops.where((a > 0) & (a < _INFINITY), root, a)
    return ops.where(x < 0, ops.negative(root), root)


@of_one("sinh", wide=True)
def sinh(x: Any) -> Any:
    power = functions.exp(x)
    return ops.where(functions.absolute(x) < 0.01, x * (1 + x * x * (1 / 6 + x * x / 120)), 0.5 * power - 0.5 / power)


@of_one("cosh", wide=True)
def cosh(x: Any) -> Any:
    power = functions.exp(x)
    return 0.5 * power + 0.5 / power


@of_one("asinh", wide=True)
def asinh(x: Any) -> Any:
    a = functions.absolute(x)
    far = functions.log(a + functions.sqrt(a * a + 1))
    near = a * (1 - a * a * (1 / 6 - a * a * (3 / 40)))
    value = ops.where(a < 0.01, near, far)
    return ops.where(x < 0, ops.negative(value), value)


@of_one("acosh", wide=True)
def acosh(x: Any) -> Any:
    return ops.where(x < 1, float("nan"), functions.log(x + functions.sqrt((x - 1) * (x + 1))))


@of_one("atanh", wide=True)
def atanh(x: Any) -> Any:
    near = x * (1 + x * x * (1 / 3 + x * x / 5))
    return ops.where(functions.absolute(x) < 0.01, near, 0.5 * functions.log((1 + x) / (1 - x)))


# -- angles


def _atan_positive(x: Any) -> Any:
    """Of x >= 0: of 1 / x beyond 1, and twice by half the angle; then its series."""
    far = x > 1
    t = ops.where(far, 1 / ops.where(far, x, 1), x)
    for _ in range(2):
        t = t / (1 + functions.sqrt(1 + t * t))
    terms = 14 if x.dtype is float64 else 6
    angle = 4 * t * polynomial(t * t, [(-1) ** n / (2 * n + 1) for n in range(terms)])
    return ops.where(far, math.pi / 2 - angle, angle)


@of_one("atan")
def atan(x: Any) -> Any:
    angle = _atan_positive(functions.absolute(x))
    return ops.where(x < 0, ops.negative(angle), angle)


def _is_negative(x: Any) -> Any:
    """Whether the sign is set, of -0 as well."""
    return ops.less(ops.bitcast(x, "int%d" % (8 * x.dtype.itemsize)), 0)


def angle_of(y: Any, x: Any) -> Any:
    """atan2 by the lesser of the two over the greater."""
    a, b = functions.absolute(x), functions.absolute(y)
    greater, lesser = ops.maximum(a, b), ops.minimum(a, b)
    level = ops.astype(greater > 0, x.dtype)  # of two infinities 1, of two zeros 0
    ratio = ops.where(ops.equal(greater, lesser), level, lesser / ops.where(ops.equal(greater, 0), 1, greater))
    angle = _atan_positive(ratio)
    angle = ops.where(b > a, math.pi / 2 - angle, angle)
    angle = ops.where(_is_negative(x), math.pi - angle, angle)
    angle = ops.where(_is_negative(y), ops.negative(angle), angle)
    return ops.where(ops.isnan(x) | ops.isnan(y), x + y, angle)


@rule("atan2")
def atan2(e: Any, y: Any, x: Any) -> Any:
    y, x = ops.meet("atan2", y, x)
    return (
        angle_of(y, x) if y.dtype.itemsize >= 4 else ops.astype(angle_of(y.astype(float32), x.astype(float32)), e.dtype)
    )


@of_one("asin")
def asin(x: Any) -> Any:
    angle = _atan_positive(functions.absolute(x) / functions.sqrt((1 - x) * (1 + x)))
    angle = ops.where(ops.equal(functions.absolute(x), 1), math.pi / 2, angle)
    return ops.where(x < 0, ops.negative(angle), angle)


@of_one("acos")
def acos(x: Any) -> Any:
    a = functions.absolute(x)
    angle = 2 * _atan_positive(functions.sqrt((1 - a) / (1 + a)))
    return ops.where(x < 0, math.pi - angle, angle)


# -- of probability


@of_one("erfc")
def erfc(x: Any) -> Any:
    """1 - erf near 0, and the small rest itself farther out."""
    double = x.dtype is float64
    a = functions.absolute(x)
    most = 27 if double else 10.5
    within = ops.where(a > most, most, a)
    if double:
        tail = 1 - special.erf(within)
    else:  # in float64, of which erf leaves enough digits down to 1e-9 only
        tail = _erfc_far(within)
    far = ops.where(x < 0, 2 - tail, tail)
    return ops.where(a < 1, 1 - special.erf(x), far)


def _erfc_far(x: Any) -> Any:
    """exp(-x²) / (x √π) by a continued fraction, for x of 1 or more."""
    below = x
    for n in range(40, 0, -1):
        below = x + (n / 2) / below
    wide = ops.astype(x, float64)
    return ops.astype(functions.exp(ops.negative(wide * wide)), float32) / (below * math.sqrt(math.pi))


@of_one("erf_inv")
def erf_inv(x: Any) -> Any:
    w = ops.negative(functions.log((1 - x) * (1 + x)))
    root = functions.sqrt(ops.where(w > 5, w, 5))
    near = polynomial((w - 2.5) * 0.4, _NEAR)
    far = polynomial((root - (_FAR_FROM + _FAR_TO) / 2) * (2 / (_FAR_TO - _FAR_FROM)), _FAR)
    y = x * ops.where(w > 5, far, near)
    if x.dtype is float64:
        for _ in range(2):  # Newton's steps
            y = y - (special.erf(y) - x) * (math.sqrt(math.pi) / 2) * functions.exp(y * y)
    return ops.where(ops.equal(functions.absolute(x), 1), x * _INFINITY, y)


# Points on half a circle, over which Bessel's integrals are sums: within float32's rounding up to 2,000. Beyond
# 1,000 their series in 1 / x is.
_POINTS, _FAR_BESSEL = 128, 1000
_SERIES = ((1, 1 / 8, 9 / 128, 75 / 1024), (1, -3 / 8, -15 / 128, -105 / 1024))  # of I0 and I1


def _bessel(x: Any, order: int) -> Any:
    """I0 or I1 times exp(-|x|): the mean over a circle of exp(|x| (cos - 1)), times cos for I1."""
    a = ops.astype(functions.absolute(x), float64)
    cosines = np.cos((np.arange(_POINTS) + 0.5) * (np.pi / _POINTS))
    terms = functions.exp(movement.expand_dims(a, a.ndim) * (cosines - 1))
    terms = terms * cosines if order else terms
    far = a > _FAR_BESSEL
    beyond = ops.where(far, a, 1)
    series = polynomial(1 / beyond, _SERIES[order]) / functions.sqrt(2 * math.pi * beyond)
    value = ops.astype(ops.where(far, series, reduce.mean(terms, terms.ndim - 1)), x.dtype)
    return ops.where(x < 0, ops.negative(value), value) if order else value


@of_one("bessel_i0e")
def bessel_i0e(x: Any) -> Any:
    return _bessel(x, 0)


@of_one("bessel_i1e")
def bessel_i1e(x: Any) -> Any:
    return _bessel(x, 1)


_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680)
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132)


def _shifted(x: Any) -> Any:
    """(whether x is below 8, what is large enough for Stirling's series)."""
    small = x < 8
    return small, ops.where(small, x + 8, x)


def _lgamma_positive(x: Any) -> Any:
    small, z = _shifted(x)
    square = 1 / (z * z)
    series = (z - 0.5) * functions.log(z) - z + 0.5 * math.log(2 * math.pi) + polynomial(square, _STIRLING) / z
    product, base = None, ops.where(small, x, 1)
    for n in range(8):
        product = base + n if product is None else product * (base + n)
    return ops.where(small, series - functions.log(product), series)


@of_one("lgamma", wide=True)
def lgamma(x: Any) -> Any:
    low = x < 0.5
    value = _lgamma_positive(ops.where(low, 1 - x, x))
    mirrored = (
        math.log(math.pi) - functions.log(functions.absolute(functions.sin(math.pi * (x - functions.floor(x))))) - value
    )
    value = ops.where(low, mirrored, value)
    pole = (x <= 0) & ops.equal(x, functions.floor(x)) | ops.equal(functions.absolute(x), _INFINITY)
    return ops.where(pole, _INFINITY, value)


@of_one("digamma", wide=True)
def digamma(x: Any) -> Any:
    low = x < 0.5
    y = ops.where(low, 1 - x, x)
    small, z = _shifted(y)
    square = 1 / (z * z)
    value = functions.log(z) - 0.5 / z - square * polynomial(square, _DIGAMMA)
    base, below = ops.where(small, y, 1), None
    for n in range(8):
        below = 1 / (base + n) if below is None else below + 1 / (base + n)
    value = ops.where(small, value - below, value)
    turn = math.pi * (x - functions.floor(x))
    value = ops.where(low, value - math.pi * functions.cos(turn) / functions.sin(turn), value)
    return ops.where((x <= 0) & ops.equal(x, functions.floor(x)), float("nan"), value)
