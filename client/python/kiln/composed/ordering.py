"""Sorting, and searching in what is sorted.

Elements are compared by integer keys of the same order, in which NaN is the greatest and the two zeros are equal.
Short rows are sorted by counting how many come before each element; long ones by Batcher's bitonic network, whose
steps compare elements at equal distances: no element's value decides where anything is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Tuple

from kiln.composed.operands import one
from kiln.composed.signs import signbit
from kiln.dims import Dim
from kiln.dtypes import BY_NAME, bool_, float64, int64, uint8
from kiln.elementwise import add, astype, bitcast, bitwise_and, equal, isnan, less, meet, where
from kiln.errors import InvalidArgument, ShapeError
from kiln.functions import detach
from kiln.indexing import take, take_along_axis
from kiln.movement import flip, moveaxis, reshape, shrink
from kiln.promotion import limits
from kiln.reduce import any as any_of, mean, reduce
from kiln.value import axes_of, axis_of, count, emit

if TYPE_CHECKING:
    from kiln.tensor import Tensor

# Rows up to this size are sorted by counting, which takes as many comparisons as the square of it.
_SHORT = 64


def _keys(x: "Tensor", descending: bool) -> "Tensor":
    """Integers in the order of x's elements, NaN behind all others; or in the reversed order, NaN first."""
    if x.dtype is bool_:
        x = astype(x, uint8)
    if x.dtype.is_float:
        kind = BY_NAME["int%d" % (8 * x.dtype.itemsize)]
        least, greatest = limits(kind)
        x = where(equal(x, 0.0), 0.0, detach(x))
        bits = bitcast(x, kind)
        # Of two negative floats the one with more bits is the lesser.
        x = where(isnan(x), greatest, where(signbit(x), bits ^ greatest, bits))
    if not descending:
        return x
    return limits(x.dtype)[1] - x if x.dtype.kind == "u" else x ^ -1


def _along(name: str, x: "Tensor", axis: Any) -> "Tuple[Tensor, int, int]":
    """(rows, the axis, its size), with the axis moved to the end."""
    at = axis_of(name, axis, x.ndim)
    size = x.shape[at]
    if isinstance(size, Dim):
        raise ShapeError("%s: along an axis of symbolic size %s" % (name, size))
    return moveaxis(x, at, x.ndim - 1), at, size


def _order_by_counting(keys: "Tensor", size: int) -> "Tensor":
    """For each place which element belongs there."""
    places = keys.graph.arange(size, int64)
    mine, other = reshape(keys, (*keys.shape, 1)), reshape(keys, (*keys.shape[:-1], 1, size))
    before = less(other, mine) | equal(other, mine) & less(reshape(places, (1, size)), reshape(places, (size, 1)))
    last = before.ndim - 1
    rank = reduce("ADD", astype(before, int64), (last,), False)
    # The rank says where an element goes; wanted is what comes to each place.
    here = equal(reshape(rank, (*keys.shape, 1)), reshape(places, (1, size)))
    return reduce("ADD", where(here, reshape(places, (size, 1)), 0), (last - 1,), False)


def _order_by_network(keys: "Tensor", size: int) -> "Tensor":
    """The same by a bitonic network, of keys with their places, so that equal ones stay in order."""
    lead = keys.shape[:-1]
    whole = 1 << (size - 1).bit_length()
    places = keys.graph.arange(whole, int64)
    narrow = keys.dtype.itemsize < 8  # then key and place are one number
    if narrow:
        keys = astype(keys, int64) - (1 << 31 if keys.dtype.kind == "u" else 0)
    keys = keys.pad([(0, 0)] * len(lead) + [(0, whole - size)])
    keys = where(less(places, size), keys, (1 << 31) - 1 if narrow else limits(keys.dtype)[1])  # what is added is last
    parts = [keys * (1 << 32) + places] if narrow else [keys, places.broadcast_to((*lead, whole))]
    length = 2
    while length <= whole:
        distance = length // 2
        while distance:
            parts = _step(parts, (*lead, whole // (2 * distance), 2, distance), length)
            distance //= 2
        length *= 2
    order = bitwise_and(parts[0], (1 << 32) - 1) if narrow else parts[1]
    return shrink(order, [(0, extent) for extent in lead] + [(0, size)])


def _step(parts: "List[Tensor]", pairs: Tuple[Any, ...], length: int) -> "List[Tensor]":
    """Of each pair the lesser comes first where the run of `length` that it is in is to rise, else last."""
    whole = parts[0].shape
    mine = [reshape(part, pairs) for part in parts]
    other = [flip(part, -2) for part in mine]
    before = less(mine[-1], other[-1])
    if len(mine) > 1:
        before = less(mine[0], other[0]) | equal(mine[0], other[0]) & before
    graph = before.graph
    first = equal(reshape(graph.arange(2, int64), (2, 1)), 0)
    block = reshape(graph.arange(pairs[-3], int64), (pairs[-3], 1, 1))
    rising = equal(bitwise_and(block * (2 * pairs[-1]), length), 0)
    kept = equal(before, equal(first, rising))
    # Held in memory: else each step would compute the one before it twice.
    return [
        emit("CONTIGUOUS", (reshape(where(kept, one, two), whole),), one.dtype, whole) for one, two in zip(mine, other)
    ]


def argsort(x: "Tensor", /, axis: Any = -1, *, descending: bool = False, stable: bool = True) -> "Tensor":
    """The places of the elements in their order; equal ones stay as they are."""
    x = one("argsort", x)
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    rows, at, size = _along("argsort", x, axis)
    keys = _keys(rows, descending)
    if size <= 1:
        return x.graph.full(x.shape, 0, int64)
    order = _order_by_counting(keys, size) if size <= _SHORT else _order_by_network(keys, size)
    return moveaxis(order, x.ndim - 1, at)


def sort(x: "Tensor", /, axis: Any = -1, *, descending: bool = False, stable: bool = True) -> "Tensor":
    """NaN is last, or first where the order is descending."""
    x = one("sort", x)
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    return take_along_axis(x, argsort(x, axis, descending=descending), axis)


def top_k(x: "Tensor", k: int, /, axis: Any = -1, *, largest: bool = True) -> "Tuple[Tensor, Tensor]":
    """(the k greatest, or least, elements in order, their places)"""
    at = axis_of("top_k", axis, x.ndim)
    if not 0 <= k <= x.shape[at]:
        raise InvalidArgument("top_k: %d of %s elements" % (k, x.shape[at]), code="BAD_ARGUMENT")
    order = argsort(x, at, descending=largest)
    box = [(0, k if place == at else size) for place, size in enumerate(x.shape)]
    places = shrink(order, box)
    return take_along_axis(x, places, at), places


def searchsorted(x1: "Tensor", x2: Any, /, side: str = "left", sorter: Any = None) -> "Tensor":
    """Where in the sorted x1 each element of x2 belongs: before its equals, or behind them with side="right"."""
    if side not in ("left", "right"):
        raise InvalidArgument("searchsorted: a side is 'left' or 'right', not %r" % (side,), code="BAD_ARGUMENT")
    x, values = meet("searchsorted", x1, x2)
    if x.ndim != 1 or isinstance(x.shape[0], Dim):
        raise ShapeError("searchsorted: in a tensor of %s" % (x.shape,), remedy="one axis, of a size that is known")
    x = x if sorter is None else take(x, sorter, 0)
    size = x.shape[0]
    keys, wanted = _keys(x, False), _keys(values, False)
    place = x.graph.full(values.shape, 0, int64)
    step = 1 << size.bit_length()
    while step > 1 and size:
        step //= 2
        ahead = add(place, step)
        there = take(keys, where(less(size, ahead), size - 1, ahead - 1), 0)
        passed = less(there, wanted) if side == "left" else less(there, wanted) | equal(there, wanted)
        place = where(passed & less(ahead, size + 1), ahead, place)
    return place


def median(x: "Tensor", /, axis: Any = None, *, keepdims: bool = False) -> "Tensor":
    """The middle element, or the mean of the two in the middle. NaN, if one is among them, or of nothing."""
    x = one("median", x)
    axes = axes_of("median", axis, x.ndim)
    others = [at for at in range(x.ndim) if at not in axes]
    size: Any = count([x.shape[at] for at in axes])
    rows = reshape(x.transpose([*others, *axes]), (*(x.shape[at] for at in others), size))
    last = len(others)
    if size == 0:
        middle = x.graph.full(rows.shape[:-1], float("nan"), x.dtype if x.dtype.is_float else float64)
    else:
        box: List[Any] = [(0, extent) for extent in rows.shape]
        box[last] = ((size - 1) // 2, size // 2 + 1)
        middle = mean(shrink(sort(rows, last), box), last)
        if x.dtype.is_float:
            middle = where(any_of(isnan(rows), last), float("nan"), middle)
    kept = tuple(1 if at in axes else extent for at, extent in enumerate(x.shape))
    return reshape(middle, kept) if keepdims else middle
