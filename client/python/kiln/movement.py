"""Functions that move elements and compute none: reshape, transpose, pad, …

Sizes may be symbolic (dims.py): in shapes, in ranges and in what is padded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Sequence, Tuple

from kiln import dims, promotion
from kiln.dims import Dim, Size
from kiln.elementwise import add, meet
from kiln.errors import GraphError, ShapeError
from kiln.v1 import graph_pb2
from kiln.value import axes_of, axis_of, count, emit, shape_of

if TYPE_CHECKING:
    from kiln.tensor import Tensor


def _sized(op: str, x: "Tensor", *shapes: Tuple[Size, ...], **arg: Any) -> "Tensor":
    """An op whose sources are the tensor and shapes; the last is the result's."""
    return emit(op, (x,), x.dtype, shapes[-1], [x.graph.shape_node(shape) for shape in shapes], **arg)


def reshape(x: "Tensor", *shape: Any) -> "Tensor":
    """x's elements, row-major, in another shape; one size may be -1. ShapeError if it does not divide."""
    sizes = shape_of(shape[0] if len(shape) == 1 else shape)
    if any(size == -1 for size in sizes):
        at = sizes.index(-1)
        rest = count(sizes[:at] + sizes[at + 1 :])
        open_size = dims.divide(x.size, rest)
        if open_size is None or sizes.count(-1) > 1:
            raise ShapeError("reshape: %s does not divide into %s" % (x.shape, sizes))
        sizes = sizes[:at] + (open_size,) + sizes[at + 1 :]
    if count(sizes) != x.size or any(isinstance(size, int) and size < 0 for size in sizes):
        raise ShapeError("reshape: %s has %s elements, %s has %s" % (x.shape, x.size, sizes, count(sizes)))
    return x if sizes == x.shape else _sized("RESHAPE", x, sizes)


def transpose(x: "Tensor", *axes: Any) -> "Tensor":
    """Axes in another order; reversed without one. transpose(x, 1, 0) and transpose(x, (1, 0)) are the same."""
    given = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
    order = [axis_of("transpose", axis, x.ndim) for axis in given] if given else list(range(x.ndim))[::-1]
    if sorted(order) != list(range(x.ndim)):
        raise ShapeError("transpose: %s is no order of %d axes" % (given, x.ndim), code="BAD_ARGUMENT")
    if order == sorted(order):
        return x
    shape = tuple(x.shape[axis] for axis in order)
    return emit("PERMUTE", (x,), x.dtype, shape, axes=graph_pb2.AxesArg(axis=order))


permute = transpose


def swapaxes(x: "Tensor", a: int, b: int) -> "Tensor":
    """Two axes changed for each other."""
    order = list(range(x.ndim))
    a, b = axis_of("swapaxes", a, x.ndim), axis_of("swapaxes", b, x.ndim)
    order[a], order[b] = order[b], order[a]
    return transpose(x, order)


def moveaxis(x: "Tensor", source: int, target: int) -> "Tensor":
    a, b = axis_of("moveaxis", source, x.ndim), axis_of("moveaxis", target, x.ndim)
    order = [axis for axis in range(x.ndim) if axis != a]
    order.insert(b, a)
    return transpose(x, order)


def broadcast_to(x: "Tensor", shape: Any) -> "Tensor":
    """Repeats axes of size 1, and adds new ones in front. ShapeError if it does not fit."""
    sizes = shape_of(shape)
    extra = len(sizes) - x.ndim
    if extra < 0 or any(a != 1 and a != b for a, b in zip(x.shape, sizes[extra:])):
        raise ShapeError("broadcast_to: %s to %s: only axes of size 1 stretch" % (x.shape, sizes))
    x = reshape(x, (1,) * extra + x.shape)
    return x if sizes == x.shape else _sized("EXPAND", x, sizes)


def expand(x: "Tensor", *shape: Any) -> "Tensor":
    """As broadcast_to, where -1 keeps an axis."""
    sizes = shape_of(shape[0] if len(shape) == 1 else shape)
    extra = len(sizes) - x.ndim
    return broadcast_to(x, tuple(x.shape[axis - extra] if size == -1 else size for axis, size in enumerate(sizes)))


def pad(x: "Tensor", widths: Any, value: Any = 0) -> "Tensor":
    """Elements of `value` around: (before, after) for each axis, one pair for all, or one number."""
    if not isinstance(widths, (tuple, list)):
        widths = ((widths, widths),) * x.ndim
    elif widths and not isinstance(widths[0], (tuple, list)):
        widths = (tuple(widths),) * x.ndim
    if len(widths) != x.ndim or any(len(pair) != 2 or min(map(dims.greatest, pair)) < 0 for pair in widths):
        raise ShapeError("pad: %s for a tensor of %s" % (widths, x.shape), remedy="one pair of 0 or more an axis")
    if not any(before or after for before, after in widths):
        return x
    fill = graph_pb2.PadArg(fill=promotion.constant(value, x.dtype))
    sizes = tuple(size + (before + after) for size, (before, after) in zip(x.shape, widths))
    return _sized("PAD", x, tuple(before for before, _ in widths), sizes, pad=fill)


def shrink(x: "Tensor", ranges: Sequence[Tuple[int, Size]]) -> "Tensor":
    """The box [begin, end) of each axis. ShapeError if it is not inside."""
    if len(ranges) != x.ndim:
        raise ShapeError("shrink: %d ranges for a tensor of %s" % (len(ranges), x.shape))
    for (begin, end), size in zip(ranges, x.shape):
        inside = isinstance(end, Dim) or isinstance(begin, Dim) or begin <= end
        if not inside or dims.greatest(end) > dims.greatest(size) or isinstance(begin, int) and begin < 0:
            raise ShapeError("shrink: [%s, %s) is no part of an axis of %s" % (begin, end, size))
    sizes = tuple(end - begin for begin, end in ranges)
    return x if sizes == x.shape else _sized("SHRINK", x, tuple(begin for begin, _ in ranges), sizes)


def flip(x: "Tensor", axis: Any = None) -> "Tensor":
    """The order of elements reversed along axes (all)."""
    axes = axes_of("flip", axis, x.ndim)
    if not axes:
        return x
    flags = graph_pb2.FlipArg(axis=[at in axes for at in range(x.ndim)])
    return emit("FLIP", (x,), x.dtype, x.shape, flip=flags)


def squeeze(x: "Tensor", axis: Any = None) -> "Tensor":
    """Without axes of size 1 (all such)."""
    ones = tuple(at for at, size in enumerate(x.shape) if size == 1)
    axes = ones if axis is None else axes_of("squeeze", axis, x.ndim)
    if not set(axes) <= set(ones):
        raise ShapeError("squeeze: %s has no size 1 at axis %s" % (x.shape, axis))
    return reshape(x, tuple(size for at, size in enumerate(x.shape) if at not in axes))


def expand_dims(x: "Tensor", axis: int) -> "Tensor":
    at = axis_of("expand_dims", axis, x.ndim + 1)
    return reshape(x, x.shape[:at] + (1,) + x.shape[at:])


def flatten(x: "Tensor") -> "Tensor":
    """All elements along one axis, row-major."""
    return reshape(x, (x.size,))


def tile(x: "Tensor", counts: Sequence[int]) -> "Tensor":
    """x repeated `counts` times along each axis."""
    if len(counts) != x.ndim or any(times < 0 for times in counts):
        raise ShapeError("tile: %s for a tensor of %s" % (tuple(counts), x.shape), remedy="one count of 0 or more an axis")
    split: List[Size] = []
    stretched: List[Size] = []
    for size, times in zip(x.shape, counts):
        split += [1, size]
        stretched += [times, size]
    tiled = broadcast_to(reshape(x, tuple(split)), tuple(stretched))
    return reshape(tiled, tuple(size * times for size, times in zip(x.shape, counts)))


def stack(tensors: Sequence["Tensor"], axis: int = 0) -> "Tensor":
    """Tensors of one shape along a new axis."""
    given = _several("stack", tensors)
    if any(x.shape != given[0].shape for x in given):
        raise ShapeError("stack: shapes %s" % ", ".join(str(x.shape) for x in given))
    stacked = emit("STACK", given, given[0].dtype, (len(given),) + given[0].shape)
    return moveaxis(stacked, 0, axis_of("stack", axis, stacked.ndim))


def concatenate(tensors: Sequence["Tensor"], axis: int = 0) -> "Tensor":
    """Tensors one behind the other along an axis; all else of their shapes is equal."""
    given = _several("concatenate", tensors)
    at = axis_of("concatenate", axis, given[0].ndim)
    if any(x.ndim != given[0].ndim or x.shape[:at] + x.shape[at + 1 :] != given[0].shape[:at] + given[0].shape[at + 1 :]
           for x in given):  # fmt: skip
        raise ShapeError("concatenate: %s differ in more than axis %d" % (", ".join(str(x.shape) for x in given), at))
    before: Size = 0
    total: Size = 0
    result = None
    for x in given:
        total = total + x.shape[at]
    for x in given:
        widths: List[Any] = [(0, 0)] * x.ndim
        widths[at] = (before, total - before - x.shape[at])
        part = pad(x, widths, -0.0 if x.dtype.is_float else 0)  # whose sum with -0.0 is that
        result = part if result is None else add(result, part)
        before += x.shape[at]
    assert result is not None
    return result


def _several(function: str, tensors: Sequence["Tensor"]) -> List["Tensor"]:
    if not tensors:
        raise GraphError("%s of no tensors" % function, code="BAD_ARGUMENT")
    return meet(function, *tensors)
