"""Exponentials, logarithms and hyperbolic functions that the IR has no op for.

Each is a composition that stays precise where the plain formula loses its digits: near 0, and
near the ends of what the dtype holds. Narrow floats are computed in float32 and rounded once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kiln.elementwise import add, divide, equal, less, maximum, negative, not_equal, subtract, where
from kiln.functions import detach, exp, in_float32, log, log2, reciprocal, sqrt
from kiln.composed.operands import in_floats
from kiln.composed.signs import magnitude
from kiln.composed.special import tanh

if TYPE_CHECKING:
    from kiln.tensor import Tensor

_LOG10_2 = 0.30102999566398119521
_LN_2 = 0.6931471805599453


@in_float32
def log10(x: "Tensor", /) -> "Tensor":
    return log2(x) * _LOG10_2


@in_float32
def expm1(x: "Tensor", /) -> "Tensor":
    """exp(x) - 1; near 0 by the tangent of half of x, which keeps all digits there."""
    small = less(magnitude(x), 1.0)
    half = tanh(where(small, 0.5 * x, 0.0))  # what is not taken is finite: else its gradient were NaN
    near = 2 * half * reciprocal(1 - half)
    return where(small, where(equal(x, 0.0), x, near), exp(x) - 1)


@in_float32
def log1p(x: "Tensor", /) -> "Tensor":
    """log(1 + x); near 0 the rounding of 1 + x is divided out again."""
    total = 1 + x
    exact = equal(total, 1.0)
    # By how much the logarithm of the rounded sum is to be corrected: a number near 1.
    ratio = x * reciprocal(where(exact, 1.0, total - 1))
    small, near = less(magnitude(x), 0.5), log(total)
    return where(exact, x, near + where(small, detach(near * (ratio - 1)), 0.0))  # the slope needs no correction


@in_floats
def logaddexp(x: "Tensor", y: "Tensor") -> "Tensor":
    """log(exp(x) + exp(y))"""
    apart = where(equal(x, y), 0.0, magnitude(subtract(x, y)))  # also of two infinities
    return add(maximum(x, y), log1p(exp(negative(apart))))


@in_floats
def logaddexp2(x: "Tensor", y: "Tensor") -> "Tensor":
    """log2(2**x + 2**y)"""
    apart = where(equal(x, y), 0.0, magnitude(subtract(x, y)))
    return add(maximum(x, y), log1p(exp(apart * -_LN_2)) * (1 / _LN_2))


def _sign_of(x: "Tensor", result: "Tensor") -> "Tensor":
    """An odd function, from what it is of |x|; of 0 it is x itself."""
    return where(equal(x, 0.0), x, where(less(x, 0.0), negative(result), result))


@in_float32
def sinh(x: "Tensor", /) -> "Tensor":
    a = magnitude(x)
    small = less(a, 1.0)
    less_one = expm1(where(small, a, 0.0))
    root = exp(0.5 * a)  # whose square may be too large, and half of that not
    far = 0.5 * root * root - 0.5 * reciprocal(root * root)
    near = 0.5 * (less_one + less_one * reciprocal(1 + less_one))
    return _sign_of(x, where(small, near, far))


@in_float32
def cosh(x: "Tensor", /) -> "Tensor":
    root = exp(0.5 * magnitude(x))
    return 0.5 * root * root + 0.5 * reciprocal(root * root)


# Beyond it the square of a number may be too large, and 1 is nothing beside it.
_LARGE = 1e9


@in_float32
def asinh(x: "Tensor", /) -> "Tensor":
    a = magnitude(x)
    large = less(_LARGE, a)
    within = where(large, 1.0, a)
    square = within * within
    near = log1p(within + square * reciprocal(1 + sqrt(1 + square)))
    return _sign_of(x, where(large, log(where(large, a, 1.0)) + _LN_2, near))


@in_float32
def acosh(x: "Tensor", /) -> "Tensor":
    """NaN below 1."""
    large = less(_LARGE, x)
    over = where(large, 1.0, x) - 1
    over = where(less(x, 1.0), float("nan"), over)
    return where(large, log(where(large, x, 1.0)) + _LN_2, log1p(over + sqrt(2 * over + over * over)))


@in_float32
def atanh(x: "Tensor", /) -> "Tensor":
    """NaN beyond 1."""
    a = magnitude(x)
    return _sign_of(x, 0.5 * log1p(2 * a * reciprocal(1 - a)))


@in_floats
def hypot(x: "Tensor", y: "Tensor") -> "Tensor":
    """sqrt(x² + y²), where the squares may be too large or too small."""
    a, b = magnitude(x), magnitude(y)
    longer = maximum(a, b)
    shorter = subtract(add(a, b), longer)
    shorter = where(less(a, b), a, where(less(b, a), b, shorter))
    ratio = divide(shorter, where(equal(longer, 0.0), 1.0, longer))
    infinite = equal(a, float("inf")) | equal(b, float("inf"))
    return where(
        infinite, float("inf"), where(equal(a, b) & not_equal(a, 0.0), a * 2**0.5, longer * sqrt(1 + ratio * ratio))
    )
