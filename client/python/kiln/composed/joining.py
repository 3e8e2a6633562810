"""numpy's older ways of joining arrays, and of a matrix's diagonals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Sequence

from kiln.composed import rearranging
from kiln.composed.operands import one
from kiln.composed.rearranging import atleast, concat
from kiln.dtypes import int64
from kiln.elementwise import astype, equal, lift, where
from kiln.errors import ShapeError
from kiln.movement import moveaxis, reshape
from kiln.promotion import float_of
from kiln.reduce import sum as sum_of
from kiln.value import axis_of

if TYPE_CHECKING:
    from kiln.tensor import Tensor


def _of_rank(name: str, arrays: Any, rank: int) -> "List[Tensor]":
    return [atleast(rank, x) for x in lift(name, *arrays)]


def vstack(arrays: "Sequence[Tensor]", /) -> "Tensor":
    """Arrays one below the other; one of a single axis is a row."""
    return concat(_of_rank("vstack", arrays, 2), 0)


def hstack(arrays: "Sequence[Tensor]", /) -> "Tensor":
    """Arrays side by side, along the second axis; those of a single axis along it."""
    parts = _of_rank("hstack", arrays, 1)
    return concat(parts, 0 if parts[0].ndim == 1 else 1)


def dstack(arrays: "Sequence[Tensor]", /) -> "Tensor":
    """Arrays one behind the other, along a third axis."""
    return concat(_of_rank("dstack", arrays, 3), 2)


def column_stack(arrays: "Sequence[Tensor]", /) -> "Tensor":
    """Arrays side by side; one of a single axis is a column."""
    return concat([reshape(x, (x.size, 1)) if x.ndim < 2 else x for x in lift("column_stack", *arrays)], 1)


def append(arr: "Tensor", values: "Tensor", /, axis: Any = None) -> "Tensor":
    """The array with further values behind it; without an axis both are flattened."""
    return concat(lift("append", arr, values), axis)


def atleast_1d(x: "Tensor", /) -> "Tensor":
    return atleast(1, one("atleast_1d", x))


def atleast_2d(x: "Tensor", /) -> "Tensor":
    return atleast(2, one("atleast_2d", x))


def atleast_3d(x: "Tensor", /) -> "Tensor":
    return atleast(3, one("atleast_3d", x))


def diagonal(x: "Tensor", /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> "Tensor":
    """The diagonal of two axes, as the last axis; offset counts to the right, or below 0 down."""
    x = one("diagonal", x)
    if x.ndim < 2:
        raise ShapeError("diagonal: of a tensor of rank %d" % x.ndim, code="BAD_ARGUMENT")
    first, second = axis_of("diagonal", axis1, x.ndim), axis_of("diagonal", axis2, x.ndim)
    if first == second:
        raise ShapeError("diagonal: of axis %d and itself" % first, code="BAD_ARGUMENT")
    return rearranging.diagonal(rearranging.moveaxis(x, (first, second), (-2, -1)), offset=offset)


def trace(x: "Tensor", /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> "Tensor":
    """The sum of the diagonal."""
    return sum_of(diagonal(x, offset, axis1, axis2), -1)


def diag(v: "Tensor", /, k: int = 0) -> "Tensor":
    """A matrix with v on its k-th diagonal and zeros beside it; of a matrix, its k-th diagonal."""
    v = one("diag", v)
    if v.ndim == 2:
        return diagonal(v, k)
    if v.ndim != 1:
        raise ShapeError("diag: of a tensor of rank %d" % v.ndim, code="BAD_ARGUMENT", remedy="diagonal takes any")
    size: Any = v.shape[0] + abs(k)
    # Row by row, where in v the element of a row's diagonal is.
    rows, columns = v.graph.arange(size, int64), v.graph.arange(size, int64)
    there = equal(reshape(rows, (size, 1)) + k, reshape(columns, (1, size)))
    around = v.pad([(0, k)] if k >= 0 else [(-k, 0)])
    return where(there, reshape(around, (size, 1)), v.graph.scalar(0, v.dtype))


def diagflat(v: "Tensor", /, k: int = 0) -> "Tensor":
    """A matrix with all elements of v on its k-th diagonal."""
    v = one("diagflat", v)
    return diag(reshape(v, (v.size,)), k)


def gradient(f: "Tensor", /, *spacing: Any, axis: Any = None) -> Any:
    """How fast f changes along each axis: by both neighbours, at the ends by one.

    `spacing` is a number for all axes, or one for each. Of one axis it is an array, of several a list of them.
    """
    f = one("gradient", f)
    f = astype(f, float_of(f.dtype))
    given = range(f.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [axis_of("gradient", at, f.ndim) for at in given]
    steps = list(spacing or (1.0,)) * (len(axes) if len(spacing) < 2 else 1)
    if len(steps) != len(axes) or any(not isinstance(step, (int, float)) for step in steps):
        raise TypeError("gradient: a spacing is one number, or one for each of %d axes" % len(axes))
    found = []
    for at, step in zip(axes, steps):
        size: Any = f.shape[at]
        if size < 2:
            raise ShapeError("gradient: along an axis of %s" % size, code="BAD_ARGUMENT", remedy="two elements or more")
        rows = moveaxis(f, at, 0)
        inner = (rows[2:] - rows[:-2]) / (2.0 * step)
        whole = concat([(rows[1:2] - rows[:1]) / step, inner, (rows[-1:] - rows[-2:-1]) / step], 0)
        found.append(moveaxis(whole, 0, at))
    return found[0] if len(found) == 1 else found
