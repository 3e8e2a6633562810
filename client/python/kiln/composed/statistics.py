"""Sums, means and what goes with them, by the array API standard's names of their arguments."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Optional

from kiln import promotion, reduce
from kiln.composed.operands import kind_of, one
from kiln.composed.windows import windows
from kiln.dims import Dim
from kiln.dtypes import bool_, dtype as dtype_of, float64, int64
from kiln.elementwise import add, astype, bitwise_xor, common, isnan, lift, meet, multiply, not_equal, subtract, where
from kiln.errors import InvalidArgument, ShapeError
from kiln.functions import sqrt
from kiln.movement import broadcast_to, concatenate, moveaxis, pad, reshape, shrink
from kiln.value import axis_of, emit

if TYPE_CHECKING:
    from kiln.tensor import Tensor


def var(
    x: "Tensor", /, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False, ddof: Optional[float] = None
) -> "Tensor":
    """The mean of squared deviations, over count - correction; numpy calls that ddof."""
    return reduce.var(one("var", x), axis, keepdims=keepdims, ddof=correction if ddof is None else ddof)  # type: ignore[arg-type]


def std(
    x: "Tensor", /, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False, ddof: Optional[float] = None
) -> "Tensor":
    return sqrt(var(x, axis, correction=correction, keepdims=keepdims, ddof=ddof))


def sum(x: "Tensor", /, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> "Tensor":
    return reduce.sum(one("sum", x), axis, dtype=dtype, keepdims=keepdims)


def prod(x: "Tensor", /, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> "Tensor":
    return reduce.prod(one("prod", x), axis, dtype=dtype, keepdims=keepdims)


def mean(x: "Tensor", /, axis: Any = None, *, keepdims: bool = False, dtype: Any = None) -> "Tensor":
    x = one("mean", x)
    return reduce.mean(x if dtype is None else astype(x, dtype), axis, keepdims=keepdims)


def ptp(x: "Tensor", /, axis: Any = None, *, keepdims: bool = False) -> "Tensor":
    """From the least to the greatest."""
    return subtract(reduce.max(x, axis, keepdims=keepdims), reduce.min(x, axis, keepdims=keepdims))


def count_nonzero(x: "Tensor", /, axis: Any = None, *, keepdims: bool = False) -> "Tensor":
    x = one("count_nonzero", x)
    return reduce.sum(astype(not_equal(x, 0) if x.dtype is not bool_ else x, int64), axis, keepdims=keepdims)


def average(x: "Tensor", /, axis: Any = None, weights: Any = None, *, keepdims: bool = False) -> "Tensor":
    """The mean, in which each element counts as much as its weight says; weights of the axes' sizes are along these."""
    if weights is None:
        return reduce.mean(x, axis, keepdims=keepdims)
    x, share = lift("average", x, weights)
    kind = common((x, share))
    x, share = meet("average", x, share, kind=kind if x.dtype.is_float else promotion.promote(kind, float64))
    if 0 < share.ndim < x.ndim:
        if axis is None:
            raise ShapeError("average: weights of %s for %s need an axis" % (share.shape, x.shape), code="BAD_ARGUMENT")
        given = [axis_of("average", at, x.ndim) for at in (axis if isinstance(axis, (tuple, list)) else (axis,))]
        if share.shape != tuple(x.shape[at] for at in given):
            raise ShapeError("average: weights of %s along the axes %s of %s" % (share.shape, tuple(given), x.shape))
        share = share.transpose(sorted(range(share.ndim), key=given.__getitem__))
        share = reshape(share, tuple(size if at in given else 1 for at, size in enumerate(x.shape)))
    share = broadcast_to(share, x.shape)
    return reduce.sum(multiply(x, share), axis, keepdims=keepdims) / reduce.sum(share, axis, keepdims=keepdims)


def _without_nan(x: "Tensor", instead: float) -> "Tensor":
    return where(isnan(x), instead, x) if x.dtype.is_float else x


def nansum(x: "Tensor", /, axis: Any = None, *, keepdims: bool = False) -> "Tensor":
    return reduce.sum(_without_nan(x, 0.0), axis, keepdims=keepdims)


def nanmean(x: "Tensor", /, axis: Any = None, *, keepdims: bool = False) -> "Tensor":
    counted = reduce.sum(astype(bitwise_xor(isnan(x), True), int64), axis, keepdims=keepdims)
    total = nansum(x, axis, keepdims=keepdims)
    return total / astype(counted, total.dtype) if total.dtype.is_float else total / counted


def _or_nan(x: "Tensor", axis: Any, keepdims: bool, found: "Tensor") -> "Tensor":
    return where(reduce.all(isnan(x), axis, keepdims=keepdims), math.nan, found) if x.dtype.is_float else found


def nanmax(x: "Tensor", /, axis: Any = None, *, keepdims: bool = False) -> "Tensor":
    """NaN where there is nothing else."""
    return _or_nan(x, axis, keepdims, reduce.max(_without_nan(x, -math.inf), axis, keepdims=keepdims))


def nanmin(x: "Tensor", /, axis: Any = None, *, keepdims: bool = False) -> "Tensor":
    return _or_nan(x, axis, keepdims, reduce.min(_without_nan(x, math.inf), axis, keepdims=keepdims))


# -- sums and products so far


# Rows up to this size are summed at once: each element's sum from the beginning, which takes the square of it.
_SHORT = 128


def _so_far(name: str, x: "Tensor", axis: Any, kind: Any, include_initial: bool, op: str, nothing: int) -> "Tensor":
    """Long rows in log2(n) steps, each of which takes in twice as many elements before one as the last."""
    if axis is None:
        if x.ndim != 1:
            raise ShapeError("%s: a tensor of rank %d needs an axis" % (name, x.ndim), code="BAD_ARGUMENT")
        axis = 0
    at = axis_of(name, axis, x.ndim)
    size = x.shape[at]
    if isinstance(size, Dim):
        raise ShapeError("%s: along an axis of symbolic size %s" % (name, size))
    wide = dtype_of("float32") if kind.is_float and kind.itemsize < 4 else kind
    rows = moveaxis(astype(x, wide), at, x.ndim - 1)
    step, none = 1, [(0, 0)] * (x.ndim - 1)
    if 1 < size <= _SHORT:
        before = windows(pad(rows, none + [(size - 1, 0)], nothing), x.ndim - 1, size)
        rows, step = reduce.reduce(op, before, (x.ndim,), False), size
    while step < size:
        whole = [(0, length) for length in rows.shape[:-1]]
        before = pad(shrink(rows, whole + [(0, size - step)]), none + [(step, 0)], nothing)
        # Held in memory: else each step would compute the one before it twice.
        rows = emit("CONTIGUOUS", (add(rows, before) if op == "ADD" else multiply(rows, before),), wide, rows.shape)
        step *= 2
    if include_initial:
        rows = pad(rows, none + [(1, 0)], nothing)
    return astype(moveaxis(rows, x.ndim - 1, at), kind)


def cumulative_sum(x: "Tensor", /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> "Tensor":
    """Sums of the elements so far, with include_initial after a 0."""
    x = one("cumulative_sum", x)
    return _so_far("cumulative_sum", x, axis, kind_of(dtype, promotion.sum_of(x.dtype)), include_initial, "ADD", 0)


def cumulative_prod(x: "Tensor", /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> "Tensor":
    """Products of the elements so far, with include_initial after a 1."""
    x = one("cumulative_prod", x)
    return _so_far("cumulative_prod", x, axis, kind_of(dtype, promotion.sum_of(x.dtype)), include_initial, "MUL", 1)


def cumsum(x: "Tensor", /, axis: Any = None, dtype: Any = None) -> "Tensor":
    """As numpy's: without an axis, of the flattened tensor."""
    return cumulative_sum(x if axis is not None else reshape(x, (x.size,)), axis=axis, dtype=dtype)


def cumprod(x: "Tensor", /, axis: Any = None, dtype: Any = None) -> "Tensor":
    """As numpy's: without an axis, of the flattened tensor."""
    return cumulative_prod(x if axis is not None else reshape(x, (x.size,)), axis=axis, dtype=dtype)


def diff(x: "Tensor", /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> "Tensor":
    """What each element is more than the one before, n times."""
    if n < 0:
        raise InvalidArgument("diff: n is %d, and no number of times" % n, code="BAD_ARGUMENT")
    at = axis_of("diff", axis, x.ndim)
    around = [part for part in (prepend, x, append) if part is not None]
    if len(around) > 1:
        shape = tuple(1 if place == at else size for place, size in enumerate(x.shape))
        around = [part if getattr(part, "ndim", 0) else part.broadcast_to(shape) if hasattr(part, "graph")
                  else x.graph.full(shape, part, promotion.with_scalar(x.dtype, part)) for part in around]  # fmt: skip
        x = concatenate(around, at)
    for _ in range(n):
        size: Any = x.shape[at]
        whole = [(0, length) for length in x.shape]
        upper, lower = list(whole), list(whole)
        upper[at], lower[at] = (min(1, size), size), (0, max(size - 1, 0))
        a, b = shrink(x, upper), shrink(x, lower)
        x = not_equal(a, b) if x.dtype is bool_ else subtract(a, b)
    return x
