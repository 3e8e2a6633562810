"""Random numbers of keys: the same key gives the same numbers, on every device, in and out of a jit.

    key = kiln.numpy.random.key(7)
    first, second = kiln.numpy.random.split(key)
    x = kiln.numpy.random.normal(first, (3, 4))

A key is 64 bits, and its numbers are Threefry's cipher (kiln/made.py) of 0, 1, 2, … under it. Use a key once,
for numbers or for split; what split and fold_in encrypt no numbers are made of.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as _np

from kiln.composed.ordering import argsort as _argsort
from kiln.composed.operands import one
from kiln.dtypes import DType, dtype as dtype_of, float32, float64, int64, integer, uint64
from kiln.elementwise import add, astype, bitwise_and, less, lift, multiply, right_shift, threefry
from kiln.errors import DTypeError, InvalidArgument
from kiln.functional.array import Array
from kiln.functional.eager import dispatched as _dispatched
from kiln.functional.making import array as _array
from kiln.functions import cos, log, sqrt
from kiln.indexing import take
from kiln.movement import reshape
from kiln.promotion import limits
from kiln.value import count, shape_of

if TYPE_CHECKING:
    from kiln.tensor import Tensor

_DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
# The upper halves of the counters that split and fold_in encrypt; numbers count from 0.
_SPLIT, _FOLD = 1 << 63, 1 << 62


def key(seed: int) -> Array:
    """The key of a number from 0 to 2**64 - 1."""
    number = integer(seed, "a seed")
    if not 0 <= number < 1 << 64:
        raise InvalidArgument("a seed is a uint64, not %d" % number, code="BAD_ARGUMENT")
    return _array(_np.uint64(number))


def _key(x: Any) -> "Tensor":
    value = one("a key", x)
    if value.dtype is not uint64 or value.ndim:
        raise DTypeError("a key is a uint64 without axes, not %s of %s" % (value.dtype.name, value.shape),
                         remedy="kiln.numpy.random.key, split or fold_in make keys")  # fmt: skip
    return value


def _bits(key: Any, shape: Any) -> "Tensor":
    value, sizes = _key(key), shape_of(shape)
    total = count(sizes)
    return reshape(threefry(value.graph.arange(total, uint64), value), sizes)  # type: ignore[arg-type]


def _split(key: Any, /, count: int = 2) -> "Tensor":
    value = _key(key)
    return threefry(add(value.graph.arange(count, uint64), value.graph.scalar(_SPLIT, uint64)), value)


def _folded(key: Any, data: Any) -> "Tensor":
    value, number = lift("fold_in", _key(key), data)
    return threefry(add(bitwise_and(astype(number, uint64), _FOLD - 1), value.graph.scalar(_FOLD, uint64)), value)


def _fractions(name: str, key: Any, shape: Any, kind: DType) -> "Tensor":
    """Evenly in [0, 1), with all digits of the dtype, in float64."""
    digits = _DIGITS.get(kind.name)
    if digits is None:
        raise DTypeError(
            "%s: no numbers of %s" % (name, kind.name), code="BAD_ARGUMENT", remedy="one of %s" % ", ".join(_DIGITS)
        )
    return multiply(astype(right_shift(_bits(key, shape), 64 - digits), float64), 2.0**-digits)


def _uniform(key: Any, /, shape: Any = (), dtype: Any = float32, low: Any = 0.0, high: Any = 1.0) -> "Tensor":
    kind = dtype_of(dtype)
    fraction = _fractions("uniform", key, shape, kind)
    plain = not hasattr(low, "graph") and not hasattr(high, "graph") and low == 0.0 and high == 1.0
    return astype(fraction if plain else add(low, multiply(fraction, high - low)), kind)


def _normal(key: Any, /, shape: Any = (), dtype: Any = float32) -> "Tensor":
    kind, sizes = dtype_of(dtype), shape_of(shape)
    if kind.name not in _DIGITS:
        raise DTypeError(
            "normal: no numbers of %s" % kind.name, code="BAD_ARGUMENT", remedy="one of %s" % ", ".join(_DIGITS)
        )
    wide = float64 if kind is float64 else float32
    both = _fractions("normal", key, (2, *sizes), wide)
    # Box and Muller's: a radius and an angle. 1 less a fraction is never 0.
    radius, angle = (astype(part, wide) for part in (1.0 - both[0], both[1]))
    return astype(multiply(sqrt(log(radius) * -2.0), cos(angle * (2 * math.pi))), kind)


def _randint(key: Any, /, shape: Any, low: int, high: int, dtype: Any = int64) -> "Tensor":
    kind = dtype_of(dtype)
    span = integer(high, "high") - integer(low, "low")
    if span < 1 or not kind.is_integer or low < limits(kind)[0] or high - 1 > limits(kind)[1] or span > 1 << 63:
        raise InvalidArgument("randint: from %d to %d there is no %s" % (low, high, kind.name), code="BAD_ARGUMENT")
    rest = _bits(key, shape) % span
    return add(astype(rest, kind), low) if kind.kind == "i" else astype(add(rest, low), kind)


def _bernoulli(key: Any, /, p: Any = 0.5, shape: Any = ()) -> "Tensor":
    return less(_fractions("bernoulli", key, shape, float64), p)


def _permutation(key: Any, /, x: Any) -> "Tensor":
    rows = x if hasattr(x, "graph") else _key(key).graph.arange(integer(x, "permutation: a number"), int64)
    return take(rows, _argsort(_bits(key, rows.shape[0])), 0)


def _named(raw: Any, name: str) -> Any:
    raw.__name__ = raw.__qualname__ = name
    return _dispatched(raw)


split = _named(_split, "split")
_fold_in = _named(_folded, "fold_in")


def fold_in(key: Any, /, data: Any) -> Array:
    """The key of a key and of a number, as of a step; the number comes with the call: one program for all."""
    if isinstance(data, _np.generic) or not hasattr(data, "dtype"):
        number = integer(data, "data")
        if not 0 <= number < 1 << 64:
            raise InvalidArgument("data is a uint64, not %d" % number, code="BAD_ARGUMENT")
        data = _np.asarray(number, _np.uint64)
    return _fold_in(key, data)


uniform = _named(_uniform, "uniform")
normal = _named(_normal, "normal")
randint = _named(_randint, "randint")
bernoulli = _named(_bernoulli, "bernoulli")
permutation = _named(_permutation, "permutation")
__all__ = ["key", "split", "fold_in", "uniform", "normal", "randint", "bernoulli", "permutation"]


def __dir__() -> "list[str]":
    return sorted(__all__)
