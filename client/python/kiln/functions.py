"""Functions of one operand, by numpy's names: exp, sqrt, floor, …

Integers become the float dtype in which numpy computes them. exp, log and their like are
compositions over EXP2, LOG2 and SIN; narrow floats are computed in float32 and rounded once.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable

from kiln import promotion
from kiln.dtypes import float32
from kiln.elementwise import astype, check, greater, isnan, less, lift, maximum, multiply, negative, not_equal, where
from kiln.value import emit

if TYPE_CHECKING:
    from kiln.tensor import Tensor

_LOG2_E = 1.4426950408889634
_LN_2 = 0.6931471805599453
# π/2 in two parts, of float64 and of float32.
_HALF_PI = ((1.5707963267948966, 6.123233995736766e-17), (1.5707963705062866, -4.3711390063094764e-08))


def _float(name: str, x: Any) -> "Tensor":
    (value,) = lift(name, x)
    return astype(value, promotion.float_of(value.dtype))


# -- ops of the IR


def _unary(op: str) -> Callable[["Tensor"], "Tensor"]:
    def function(x: "Tensor") -> "Tensor":
        value = _float(op.lower(), x)
        return emit(op, (value,), value.dtype, value.shape)

    function.__name__ = function.__qualname__ = op.lower()
    return function


reciprocal = _unary("RECIPROCAL")
exp2 = _unary("EXP2")
log2 = _unary("LOG2")
sin = _unary("SIN")
sqrt = _unary("SQRT")


def in_float32(function: Callable[["Tensor"], "Tensor"]) -> Callable[["Tensor"], "Tensor"]:
    """Computes narrow floats in float32 and rounds once."""

    @functools.wraps(function)
    def widened(x: "Tensor") -> "Tensor":
        value = _float(function.__name__, x)
        if value.dtype.itemsize < 4:
            return astype(function(astype(value, float32)), value.dtype)
        return function(value)

    return widened


@in_float32
def exp(x: "Tensor") -> "Tensor":
    return exp2(x * _LOG2_E)


@in_float32
def log(x: "Tensor") -> "Tensor":
    return log2(x) * _LN_2


@in_float32
def cos(x: "Tensor") -> "Tensor":
    """Up to 3 the sine of π/2 - |x|, exact there but for π's last digits; beyond it 1 - 2 sin(x/2)², as halving loses nothing."""
    a = absolute(x)
    near = less(a, 3.0)
    high, low = _HALF_PI[x.dtype is float32]
    sine = sin(where(near, (high - a) + low, 0.5 * a))
    return where(near, sine, 1 - 2 * sine * sine)


@in_float32
def rsqrt(x: "Tensor") -> "Tensor":
    return reciprocal(sqrt(x))


def square(x: "Tensor") -> "Tensor":
    return multiply(x, x)


def absolute(x: "Tensor") -> "Tensor":
    return x if x.dtype.kind in "bu" else maximum(x, negative(x))


def sign(x: "Tensor") -> "Tensor":
    check("sign", x, "iuf")
    zero, one = x.graph.scalar(0, x.dtype), x.graph.scalar(1, x.dtype)
    if x.dtype.kind == "u":
        return where(not_equal(x, zero), one, zero)
    result = where(less(x, zero), -1, where(greater(x, zero), one, zero))
    return where(isnan(x), x, result) if x.dtype.is_float else result


def trunc(x: "Tensor") -> "Tensor":
    return emit("TRUNC", (x,), x.dtype, x.shape) if x.dtype.is_float else x


def floor(x: "Tensor") -> "Tensor":
    whole = trunc(x)
    return where(less(x, whole), whole - 1, whole) if x.dtype.is_float else whole


def ceil(x: "Tensor") -> "Tensor":
    whole = trunc(x)
    return where(less(whole, x), whole + 1, whole) if x.dtype.is_float else whole


def detach(x: "Tensor") -> "Tensor":
    """x itself, through which no gradient flows."""
    return emit("DETACH", (x,), x.dtype, x.shape)
