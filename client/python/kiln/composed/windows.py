"""Convolutions and pools: sums, or the greatest, over windows that move along axes.

A window is an axis more: windows(x)[.., o, .., j] = x[.., o·stride + j·dilation]. It is a view, made by repeating the
axis with one element too many a row, so that nothing is copied; what is summed over it is summed in one go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Sequence, Tuple

from kiln.dtypes import float32, integer
from kiln.elementwise import add, astype, meet, multiply
from kiln.composed.operands import one
from kiln.errors import ShapeError
from kiln.movement import moveaxis, pad, reshape, shrink, tile
from kiln.promotion import limits
from kiln.reduce import mean, reduce

if TYPE_CHECKING:
    from kiln.tensor import Tensor


def windows(x: "Tensor", axis: int, length: int, stride: int = 1, dilation: int = 1) -> "Tensor":
    """The axis becomes the windows' number, and a new last axis what is in each."""
    size: Any = x.shape[axis]
    reach = dilation * (length - 1) + 1
    if length < 1 or stride < 1 or dilation < 1 or size < reach:
        raise ShapeError("a window of %d, %d apart, every %d, along an axis of %d" % (length, dilation, stride, size))
    count = (size - reach) // stride + 1
    x = moveaxis(x, axis, x.ndim - 1)
    lead = x.shape[:-1]
    box: List[Any] = [(0, extent) for extent in lead]
    row = size + dilation
    repeated = tile(x, [1] * len(lead) + [-(-length * row // size)])
    rows = reshape(shrink(repeated, [*box, (0, length * row)]), (*lead, length, row))
    used = shrink(rows, [*box, (0, length), (0, (count - 1) * stride + 1)])
    if stride > 1:
        used = pad(used, [(0, 0)] * (len(lead) + 1) + [(0, stride - 1)])
        used = reshape(used, (*lead, length, count, stride))
        used = reshape(shrink(used, [*box, (0, length), (0, count), (0, 1)]), (*lead, length, count))
    return moveaxis(used, x.ndim, axis)  # the count to where the axis was; the length is last


def _each(name: str, given: Any, rank: int) -> Tuple[int, ...]:
    numbers = tuple(given) if isinstance(given, (tuple, list)) else (given,) * rank
    if len(numbers) != rank:
        raise ShapeError("%s: %s for %d axes" % (name, numbers, rank), code="BAD_ARGUMENT")
    return tuple(integer(number, "%s: a size" % name) for number in numbers)


def _paddings(name: str, given: Any, rank: int) -> List[Tuple[int, int]]:
    if not isinstance(given, (tuple, list)):
        given = (given,) * rank
    return [tuple(pair) if isinstance(pair, (tuple, list)) else (pair, pair) for pair in given]  # type: ignore[misc]


def conv(
    x: Any, weights: Any, bias: Any = None, /, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> "Tensor":
    """A convolution as neural networks have it (the kernel is not turned round), over any number of axes.

    x is (batch, channels, *sizes), weights (results, channels / groups, *kernel), the result (batch, results, *counts).
    Stride, padding (a number, or one pair (before, after) an axis) and dilation are one number, or one an axis.
    """
    x, w = meet("conv", x, weights)
    rank = x.ndim - 2
    if rank < 1 or w.ndim != x.ndim or x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:  # type: ignore[operator]
        raise ShapeError("conv: of %s with weights of %s in %d groups" % (x.shape, w.shape, groups),
                         remedy="(batch, channels, *sizes) and (results, channels / groups, *kernel)")  # fmt: skip
    kind = x.dtype
    wide = float32 if kind.is_float and kind.itemsize < 4 else kind
    view = pad(astype(x, wide), [(0, 0), (0, 0), *_paddings("conv", padding, rank)])
    steps, apart = _each("conv", stride, rank), _each("conv", dilation, rank)
    for axis in range(rank):
        view = windows(view, 2 + axis, w.shape[2 + axis], steps[axis], apart[axis])  # type: ignore[arg-type]
    counts, kernel = view.shape[2 : 2 + rank], w.shape[2:]
    batch, channels, results = x.shape[0], w.shape[1], w.shape[0] // groups  # type: ignore[operator]
    # (batch, groups, results, *counts, channels, *kernel), of which the last are summed over.
    view = reshape(view, (batch, groups, 1, channels, *counts, *kernel))
    view = moveaxis(view, 3, 3 + rank)
    w = reshape(astype(w, wide), (1, groups, results, *(1,) * rank, channels, *kernel))
    product = multiply(view, w)
    summed = reduce("ADD", product, tuple(range(3 + rank, product.ndim)), False)
    result = reshape(astype(summed, kind), (batch, groups * results, *counts))
    return result if bias is None else add(result, reshape(one("conv", bias) if hasattr(bias, "graph") else
                                                           x.graph.constant(bias), (-1, *(1,) * rank)))  # fmt: skip


def _pooled(name: str, x: "Tensor", size: Any, stride: Any, padding: Any, value: Any) -> "Tuple[Tensor, Sequence[int]]":
    x = one(name, x)
    rank = x.ndim - 2
    if rank < 1:
        raise ShapeError("%s: of %s" % (name, x.shape), remedy="(batch, channels, *sizes)")
    lengths = _each(name, size, rank)
    steps = lengths if stride is None else _each(name, stride, rank)
    view = pad(x, [(0, 0), (0, 0), *_paddings(name, padding, rank)], value)
    for axis in range(rank):
        view = windows(view, 2 + axis, lengths[axis], steps[axis])
    return view, tuple(range(2 + rank, view.ndim))


def max_pool(x: "Tensor", size: Any, /, *, stride: Any = None, padding: Any = 0) -> "Tensor":
    """The greatest of each window of x, which is (batch, channels, *sizes); each beside the last without a stride."""
    least = float("-inf") if x.dtype.is_float else limits(x.dtype)[0] if x.dtype.is_integer else False
    view, axes = _pooled("max_pool", x, size, stride, padding, least)
    return reduce("MAX", view, tuple(axes), False)


def avg_pool(x: "Tensor", size: Any, /, *, stride: Any = None, padding: Any = 0) -> "Tensor":
    """The mean of each window; what is padded counts as 0."""
    view, axes = _pooled("avg_pool", x, size, stride, padding, 0)
    return mean(view, tuple(axes))
