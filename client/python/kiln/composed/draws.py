"""Random numbers of keys, as compositions: bits, and what is made of them by a function of one or two fractions.

The bits of a key are Threefry's cipher (kiln/made.py) of 0, 1, 2, … under it; what split encrypts no numbers are made
of. What is in the tails matters, so that which goes through a logarithm has all digits of float64, and is rounded once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Optional, Tuple

import numpy as np

from kiln import reduce
from kiln.composed.operands import one
from kiln.composed.ordering import argsort, searchsorted
from kiln.composed.statistics import cumulative_sum
from kiln.dtypes import DType, dtype as dtype_of, float32, float64, int64, integer, uint64
from kiln.elementwise import add, astype, bitwise_and, less, lift, multiply, right_shift, threefry, where
from kiln.errors import DTypeError, InvalidArgument, ShapeError
from kiln.functions import cos, log, sqrt
from kiln.indexing import take
from kiln.movement import broadcast_to, moveaxis, reshape
from kiln.promotion import limits
from kiln.value import axis_of, broadcast, count, shape_of

if TYPE_CHECKING:
    from kiln.tensor import Tensor

DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
# The upper halves of the counters that split and fold_in encrypt; numbers count from 0.
_SPLIT, _FOLD = 1 << 63, 1 << 62


def key_of(x: Any) -> "Tensor":
    value = one("a key", x)
    if value.dtype is not uint64 or value.ndim:
        raise DTypeError("a key is a uint64 without axes, not %s of %s" % (value.dtype.name, value.shape),
                         remedy="kiln.numpy.random.key, split or fold_in make keys")  # fmt: skip
    return value


def split(key: Any, /, count: int = 2) -> "Tensor":
    value = key_of(key)
    return threefry(add(value.graph.arange(count, uint64), value.graph.scalar(_SPLIT, uint64)), value)


def fold_in(key: Any, data: Any) -> "Tensor":
    value, number = lift("fold_in", key_of(key), data)
    return threefry(add(bitwise_and(astype(number, uint64), _FOLD - 1), value.graph.scalar(_FOLD, uint64)), value)


def bits(key: Any, shape: Any) -> "Tensor":
    value, sizes = key_of(key), shape_of(shape)
    total = count(sizes)
    return reshape(threefry(value.graph.arange(total, uint64), value), sizes)  # type: ignore[arg-type]


def float_kind(name: str, dtype: Any) -> DType:
    """DTypeError for a dtype that there are no numbers of."""
    kind = dtype_of(dtype)
    if kind.name not in DIGITS:
        raise DTypeError(
            "%s: no numbers of %s" % (name, kind.name), code="BAD_ARGUMENT", remedy="one of %s" % ", ".join(DIGITS)
        )
    return kind


def fractions(name: str, key: Any, shape: Any, kind: DType) -> "Tensor":
    """Evenly in [0, 1), with all digits of the dtype, in float64."""
    digits = DIGITS[float_kind(name, kind).name]
    return multiply(astype(right_shift(bits(key, shape), 64 - digits), float64), 2.0**-digits)


def between(key: Any, shape: Any) -> "Tensor":
    """Evenly in (0, 1), neither 0 nor 1, and 1 less of each as likely; float64."""
    return multiply(add(astype(right_shift(bits(key, shape), 12), float64), 0.5), 2.0**-52)


def beside(name: str, key: Any, x: Any) -> "Tensor":
    """A parameter as a tensor of the key's graph: a traced value, an array, a list or a number."""
    key = key_of(key)
    x = np.asarray(x) if isinstance(x, (list, tuple)) else x
    value: Any = lift(name, key, x)[1]
    return value if hasattr(value, "graph") else key.graph.scalar(value, float64)  # type: ignore[no-any-return]


def spread(name: str, key: Any, shape: Any, *operands: Any) -> "Tuple[Any, ...]":
    """(the shape of the result, operands as float64 of that shape); None is the shape that they have together."""
    values = [astype(beside(name, key, x), float64) for x in operands]
    together = broadcast(name, *(value.shape for value in values))
    sizes = together if shape is None else shape_of(shape)
    if broadcast(name, together, sizes) != sizes:
        raise ShapeError("%s: a shape of %s for parameters of %s" % (name, sizes, together),
                         remedy="to which they broadcast")  # fmt: skip
    return (sizes, *(broadcast_to(value, sizes) for value in values))


# -- evenly


def uniform(key: Any, /, shape: Any = (), dtype: Any = float32, low: Any = 0.0, high: Any = 1.0) -> "Tensor":
    kind = dtype_of(dtype)
    fraction = fractions("uniform", key, shape, kind)
    plain = not hasattr(low, "graph") and not hasattr(high, "graph") and low == 0.0 and high == 1.0
    return astype(fraction if plain else add(low, multiply(fraction, high - low)), kind)


def randint(key: Any, /, shape: Any, low: int, high: int, dtype: Any = int64) -> "Tensor":
    kind = dtype_of(dtype)
    span = integer(high, "high") - integer(low, "low")
    if span < 1 or not kind.is_integer or low < limits(kind)[0] or high - 1 > limits(kind)[1] or span > 1 << 63:
        raise InvalidArgument("randint: from %d to %d there is no %s" % (low, high, kind.name), code="BAD_ARGUMENT")
    rest = bits(key, shape) % span
    return add(astype(rest, kind), low) if kind.kind == "i" else astype(add(rest, low), kind)


def bernoulli(key: Any, /, p: Any = 0.5, shape: Any = ()) -> "Tensor":
    return less(fractions("bernoulli", key, shape, float64), p)


def permutation(key: Any, /, x: Any) -> "Tensor":
    rows = x if hasattr(x, "graph") else key_of(key).graph.arange(integer(x, "permutation: a number"), int64)
    return take(rows, argsort(bits(key, rows.shape[0])), 0)


def shuffle(key: Any, /, x: Any, axis: int = 0) -> "Tensor":
    """x with its parts along an axis in another order; x itself stays as it is."""
    x = beside("shuffle", key, x)
    at = axis_of("shuffle", axis, x.ndim)
    return take(x, argsort(bits(key, x.shape[at])), at)


# -- by a function of a fraction


def normal(key: Any, /, shape: Any = (), dtype: Any = float32) -> "Tensor":
    kind, sizes = float_kind("normal", dtype), shape_of(shape)
    wide = float64 if kind is float64 else float32
    both = fractions("normal", key, (2, *sizes), wide)
    # Box and Muller's: a radius and an angle. 1 less a fraction is never 0.
    radius, angle = (astype(part, wide) for part in (1.0 - both[0], both[1]))
    return astype(multiply(sqrt(log(radius) * -2.0), cos(angle * (2 * math.pi))), kind)


def exponential(key: Any, /, shape: Any = (), dtype: Any = float32) -> "Tensor":
    """Of rate 1, above 0."""
    kind = float_kind("exponential", dtype)
    return astype(-log(between(key, shape)), kind)


def _gumbel(key: Any, shape: Any) -> "Tensor":
    return -log(-log(between(key, shape)))


def gumbel(key: Any, /, shape: Any = (), dtype: Any = float32) -> "Tensor":
    """Of place 0 and scale 1: -log(-log(u))."""
    kind = float_kind("gumbel", dtype)
    return astype(_gumbel(key, shape), kind)


def laplace(key: Any, /, shape: Any = (), dtype: Any = float32) -> "Tensor":
    """Of place 0 and scale 1: exponential, to either side."""
    kind = float_kind("laplace", dtype)
    u = between(key, shape)
    low = less(u, 0.5)
    size = log(2 * where(low, u, 1 - u))
    return astype(where(low, size, -size), kind)


def categorical(key: Any, /, logits: Any, axis: int = -1, shape: Any = None) -> "Tensor":
    """Numbers 0, 1, …, each as likely as exp of its logit says: the greatest of logits and a gumbel each."""
    x = beside("categorical", key, logits)
    x = moveaxis(astype(x, float64), axis_of("categorical", axis, x.ndim), x.ndim - 1)
    sizes = x.shape[:-1] if shape is None else shape_of(shape)
    if broadcast("categorical", sizes, x.shape[:-1]) != sizes:
        raise ShapeError("categorical: a shape of %s for logits of %s" % (sizes, x.shape),
                         remedy="to which the logits' other axes broadcast")  # fmt: skip
    if x.shape[-1] == 0:
        raise InvalidArgument("categorical: of no logits", code="BAD_ARGUMENT")
    return astype(reduce.argmax(x + _gumbel(key, (*sizes, x.shape[-1])), -1), int64)


# -- of several


def chosen(key: Any, size: int, shape: Any, replace: bool, p: "Optional[Tensor]") -> "Tensor":
    """Which of `size` elements are chosen, as places of the shape; with `p`, in proportion to it."""
    sizes = shape_of(shape)
    wanted: Any = count(sizes)
    p = None if p is None else astype(beside("choice", key, p), float64)
    if p is None:
        return randint(key, sizes, 0, size) if replace else reshape(permutation(key, size)[:wanted], sizes)
    if not replace:
        # As if one after the other were drawn of what is left: the first to come, each at a rate of its own.
        waits = -log(between(key, (size,)))
        waits = where(less(0.0, p), waits / where(less(0.0, p), p, 1.0), math.inf)
        return reshape(argsort(waits)[:wanted], sizes)
    return _by_weight(key, sizes, p)


def _by_weight(key: Any, sizes: Any, p: "Tensor") -> "Tensor":
    """By sums of whole numbers, 2**53 in all or a little less: these are exact, and of what has 0 nothing is drawn."""
    whole = astype(p / reduce.sum(p) * 2.0**53, int64)
    sums = cumulative_sum(whole)
    last: Any = sums.shape[0]
    drawn = multiply(fractions("choice", key, sizes, float64), astype(sums[last - 1], float64))
    return searchsorted(sums, astype(drawn, int64), side="right")


def taken(a: Any, places: Any, axis: int) -> "Tensor":
    """What `chosen` says, of a tensor along an axis."""
    a, places = lift("choice", a, places)
    return take(a, places, axis)
