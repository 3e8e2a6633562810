"""What floats are made of: signs, neighbours, and which of them are numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kiln import elementwise
from kiln.dtypes import BY_NAME, bool_
from kiln.elementwise import (
    astype, bitcast, bitwise_and, bitwise_or, equal, less, lift, meet, negative, not_equal, weak_of, where,
)  # fmt: skip
from kiln.errors import DTypeError
from kiln.functions import detach
from kiln.composed.operands import floats, one

if TYPE_CHECKING:
    from kiln.tensor import Tensor


def _bits(x: "Tensor") -> "Tensor":
    """Through which no gradient flows."""
    return bitcast(detach(x), BY_NAME["int%d" % (8 * x.dtype.itemsize)])


def signbit(x: "Tensor", /) -> "Tensor":
    """Whether the sign is minus; -0.0 has one, and so may NaN have."""
    x = one("signbit", x)
    return less(_bits(x), 0) if x.dtype.is_float else less(x, 0)


def magnitude(x: "Tensor") -> "Tensor":
    """|x| of a float, for functions that mirror themselves at 0: its slope there is 1, or -1 at -0.0."""
    return where(signbit(x), negative(x), x)


def abs(x: "Tensor", /) -> "Tensor":
    x = one("abs", x)
    if x.dtype.is_float:  # whose slope at 0 is 0
        return weak_of(where(equal(x, 0.0), 0.0, where(less(x, 0.0), negative(x), x)), x)
    return x if x.dtype.kind in "bu" else weak_of(where(less(x, 0), negative(x), x), x)


def copysign(x1: Any, x2: Any, /) -> "Tensor":
    """x1 with the sign of x2."""
    x, y = floats("copysign", x1, x2)
    return where(equal(signbit(x), signbit(y)), x, negative(x))


def nextafter(x1: Any, x2: Any, /) -> "Tensor":
    """The next number of the dtype from x1 on towards x2. No gradient flows through it."""
    x, y = meet("nextafter", x1, x2)
    if not x.dtype.is_float:
        raise DTypeError("nextafter takes floats, not %s" % x.dtype.name, remedy="convert with astype")
    bits = _bits(x)
    least = where(signbit(y), x.graph.scalar(-(1 << 8 * x.dtype.itemsize - 1), bits.dtype) + 1, 1)
    outwards = equal(less(x, y), less(0.0, x))  # away from 0: one bit more, whatever the sign
    stepped = bitcast(where(equal(x, 0.0), least, where(outwards, bits + 1, bits - 1)), x.dtype)
    missing = elementwise.isnan(x) | elementwise.isnan(y)
    return where(missing, x + y, where(equal(x, y), y, stepped))


def isnan(x: "Tensor", /) -> "Tensor":
    x = one("isnan", x)
    return not_equal(x, x) if x.dtype.is_float else x.graph.full(x.shape, False, bool_)


def isinf(x: "Tensor", /) -> "Tensor":
    x = one("isinf", x)
    return equal(magnitude(x), float("inf")) if x.dtype.is_float else x.graph.full(x.shape, False, bool_)


def isfinite(x: "Tensor", /) -> "Tensor":
    x = one("isfinite", x)
    return less(magnitude(x), float("inf")) if x.dtype.is_float else x.graph.full(x.shape, True, bool_)


def positive(x: "Tensor", /) -> "Tensor":
    return one("positive", x)


def real(x: "Tensor", /) -> "Tensor":
    """x: Kiln has no complex numbers."""
    return one("real", x)


conj = conjugate = real


def imag(x: "Tensor", /) -> "Tensor":
    """0: Kiln has no complex numbers."""
    x = one("imag", x)
    return x.graph.full(x.shape, 0, x.dtype)


def logical_xor(x1: Any, x2: Any, /) -> "Tensor":
    a, b = lift("logical_xor", x1, x2)
    return not_equal(*(astype(value, bool_) if hasattr(value, "graph") else bool(value) for value in (a, b)))


def heaviside(x1: Any, x2: Any, /) -> "Tensor":
    """0 below 0, 1 above, x2 at 0."""
    x, y = floats("heaviside", x1, x2)
    return where(
        elementwise.isnan(x), x, where(equal(x, 0.0), y, where(less(x, 0.0), 0.0, x.graph.scalar(1.0, x.dtype)))
    )


def masked_bits(x: "Tensor", keep: int) -> "Tensor":
    """A float with only the first `keep` bits of its significand."""
    digits = {4: 23, 8: 52}[x.dtype.itemsize]
    return bitcast(bitwise_and(_bits(x), -(1 << (digits - keep))), x.dtype)


def without_sign(x: "Tensor") -> "Tensor":
    """|x|, bit by bit. No gradient flows."""
    return bitcast(bitwise_and(_bits(x), (1 << (8 * x.dtype.itemsize - 1)) - 1), x.dtype)


def with_sign_of(x: "Tensor", y: "Tensor") -> "Tensor":
    """x, which has no sign, with that of y. No gradient flows."""
    sign = bitwise_and(_bits(y), -(1 << (8 * y.dtype.itemsize - 1)))
    return bitcast(bitwise_or(_bits(x), sign), x.dtype)
