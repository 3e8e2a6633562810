"""x[...]: numbers, slices, None, Ellipsis, and tensors or arrays of places.

Slices are movement ops. A tensor of places becomes an INDEX, which reads what it
names: no one-hot sums. Places count from the end if negative; a place outside reads 0,
where numpy raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Sequence, Tuple

import numpy as np

from kiln.dims import Dim, Size
from kiln.dtypes import int64, position
from kiln.elementwise import add, astype, lift, multiply, where
from kiln.errors import DTypeError, PlaceError, ShapeError
from kiln.movement import broadcast_to, flip, moveaxis, pad, reshape, shrink
from kiln.value import Value, axis_of, count, emit

if TYPE_CHECKING:
    from kiln.tensor import Tensor

# A place that is in no tensor.
_OUTSIDE = -(1 << 62)


def getitem(x: "Tensor", key: Any) -> "Tensor":
    """numpy's basic indexing, and tensors or arrays of places among it, which broadcast against each other; numpy's masks, too."""
    if is_truth(key):  # a mask without axes: all of x, or nothing
        return _box(reshape(x, (1, *x.shape)), 0, 0, int(key))
    keys = _without_ellipsis(unmasked(x.shape, key), x.ndim)
    # Numbers go with places; where these are not side by side, their axes come first.
    placed = [at for at, one in enumerate(keys) if one is not None and not isinstance(one, slice)]
    apart = len(placed) > 1 and placed[-1] - placed[0] >= len(placed)
    shape: List[Size] = []
    axis = 0
    taken: List[Tuple[int, Any]] = []
    for one in keys:
        if one is None:
            shape.append(1)
            continue
        if _is_places(one):
            taken.append((len(shape), one))
        elif not isinstance(one, slice):
            x = _row(x, axis, one)
            x = reshape(x, x.shape[:axis] + x.shape[axis + 1 :])
            continue
        else:
            x = _slice(x, axis, one)
        shape.append(x.shape[axis])
        axis += 1
    x = reshape(x, tuple(shape))
    if not taken:
        return x
    at = taken[0][0]
    if len(taken) > 1:
        return _take_several(x, [one for _, one in taken], [one for one, _ in taken], apart)
    result = take(x, taken[0][1], at)
    rank = result.ndim - x.ndim + 1
    return result.transpose([*range(at, at + rank), *range(at), *range(at + rank, result.ndim)]) if apart else result


def is_mask(key: Any) -> bool:
    return isinstance(key, np.ndarray) and key.dtype == np.bool_ and key.ndim > 0


def is_truth(key: Any) -> bool:
    return isinstance(key, (bool, np.bool_)) or isinstance(key, np.ndarray) and key.dtype == np.bool_ and not key.ndim


def fits(mask: Sequence[int], shape: Sequence[Size]) -> bool:
    """Whether a mask's sizes are those of the first axes, or 0, which chooses nothing."""
    return len(mask) <= len(shape) and all(size in (0, whole) for size, whole in zip(mask, shape))


def unmasked(shape: Sequence[Size], key: Any) -> List[Any]:
    """The keys, with places for what numpy's masks choose, and lists as arrays."""
    keys = [np.asarray(one, None if one else np.int64) if _is_plain(one) else one
            for one in (key if isinstance(key, tuple) else (key,))]  # fmt: skip
    truth = next((one for one in keys if is_truth(one)), None)
    if truth is not None:
        raise DTypeError("an index is an integer, not %r" % (truth,),
                         remedy="a bool chooses all or nothing where it is the only index")  # fmt: skip
    used = sum(one.ndim if is_mask(one) else one is not None and one is not Ellipsis for one in keys)
    axis, result = 0, []
    for one in keys:
        if not is_mask(one):
            result.append(one)
            axis += len(shape) - used if one is Ellipsis else one is not None
            continue
        if not fits(one.shape, shape[axis:]):
            raise PlaceError("a mask of %s for axes of %s" % (one.shape, tuple(shape[axis : axis + one.ndim])))
        result += np.nonzero(one)
        axis += one.ndim
    return result


def _is_plain(key: Any) -> bool:
    """A list of Python's alone."""
    return isinstance(key, list) and all(_is_plain(one) if isinstance(one, list) else isinstance(one, (int, np.generic)) for one in key)


def _take_several(x: "Tensor", places: List[Any], axes: List[int], apart: bool) -> "Tensor":
    """x's slices where each of several axes has the place that is named for it."""
    at = 0 if apart else axes[0]
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    x = x.transpose(rest[:at] + axes + rest[at:])
    linear, inside = None, None
    for axis, one in enumerate(places, at):
        size = x.shape[axis]
        ids = astype(_places(x, one, size), int64)
        fits = (ids >= 0) & (ids < size)
        linear = ids if linear is None else add(multiply(linear, size), ids)
        inside = fits if inside is None else inside & fits
    merged = reshape(x, x.shape[:at] + (count(x.shape[at : at + len(axes)]),) + x.shape[at + len(axes) :])
    return take(merged, where(inside, linear, _OUTSIDE), at)  # type: ignore[arg-type]


def _is_places(key: Any) -> bool:
    return isinstance(key, Value) or hasattr(key, "__array__") and getattr(key, "ndim", 0) > 0 or isinstance(key, list)


def _without_ellipsis(keys: List[Any], rank: int) -> List[Any]:
    """One key for each axis, and None for each new one."""
    used = sum(one is not None and one is not Ellipsis for one in keys)
    if used > rank:
        raise PlaceError("%d indices into a tensor of rank %d" % (used, rank))
    dots = [at for at, one in enumerate(keys) if one is Ellipsis]
    if len(dots) > 1:
        raise PlaceError("an index has one ellipsis at most", code="BAD_ARGUMENT")
    at = dots[0] if dots else len(keys)
    return keys[:at] + [slice(None)] * (rank - used) + keys[at + 1 :]


def _row(x: "Tensor", axis: int, key: Any) -> "Tensor":
    at, size = position(key, "an index"), x.shape[axis]
    if isinstance(size, int) and not -size <= at < size:
        raise PlaceError("index %d is outside an axis of %d" % (at, size), code="OUT_OF_BOUNDS")
    begin = at + size if at < 0 else at
    return _box(x, axis, begin, begin + 1)


def _slice(x: "Tensor", axis: int, key: slice) -> "Tensor":
    size = x.shape[axis]
    if key == slice(None):
        return x
    if isinstance(size, Dim) or isinstance(key.start, Dim) or isinstance(key.stop, Dim):
        if key.step not in (None, 1):
            raise ShapeError("a slice of symbolic size has step 1, not %s" % key.step, code="BAD_ARGUMENT")
        return _box(x, axis, _end(key.start, size, 0), _end(key.stop, size, size))
    begin, end, step = key.indices(size)
    length = len(range(begin, end, step))
    if step < 0:  # from the flipped axis, forwards
        x, begin, step = flip(x, axis), size - 1 - begin, -step
    if length == 0:
        return _box(x, axis, 0, 0)
    x = _box(x, axis, begin, begin + (length - 1) * step + 1)
    if step == 1:
        return x
    # Every step-th element is the first column of a (length, step) matrix.
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, step - 1)
    x = pad(x, widths)
    x = reshape(x, x.shape[:axis] + (length, step) + x.shape[axis + 1 :])
    x = _box(x, axis + 1, 0, 1)
    return reshape(x, x.shape[: axis + 1] + x.shape[axis + 2 :])


def _end(given: Any, size: Size, default: Size) -> Size:
    if given is None:
        return default
    return given + size if isinstance(given, int) and given < 0 else given


def _box(x: "Tensor", axis: int, begin: Size, end: Size) -> "Tensor":
    ranges: List[Tuple[Any, Size]] = [(0, size) for size in x.shape]
    ranges[axis] = (begin, end)
    return shrink(x, ranges)


def _places(x: "Tensor", places: Any, size: Size) -> "Tensor":
    """A tensor of places with the negative ones counted from the end."""
    (_, ids) = lift("take", x, places)
    if not isinstance(ids, Value):
        ids = x.graph.scalar(ids, int64)
    if not ids.dtype.is_integer:
        raise DTypeError("a place is an integer, not %s" % ids.dtype.name,
                         remedy="the shape of x[mask] is known only when it is read: use kiln.where, or a mask of numpy's" if ids.dtype.kind == "b" else "")  # fmt: skip
    if ids.dtype.kind == "u":
        return ids
    extent = x.graph.dim(size) if isinstance(size, Dim) else size
    ids = astype(ids, int64)
    return where(ids < 0, add(ids, extent), ids)


def take(x: "Tensor", places: Any, axis: Any = None) -> "Tensor":
    """x's slices at `places` along an axis; of the flattened tensor without one."""
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    at = axis_of("take", axis, x.ndim)
    ids = _places(x, places, x.shape[at])
    front = moveaxis(x, at, 0)
    flat = reshape(ids, (ids.size,))
    result = emit("INDEX", (front, flat), x.dtype, flat.shape + front.shape[1:])
    # The places' axes are in front; they belong where the axis was.
    result = reshape(moveaxis(result, 0, at), x.shape[:at] + ids.shape + x.shape[at + 1 :])
    return result


def take_along_axis(x: "Tensor", places: Any, axis: int) -> "Tensor":
    """result[.., j, ..] = x[.., places[.., j, ..], ..]: `places` has x's rank, and but for `axis` its shape."""
    at = axis_of("take_along_axis", axis, x.ndim)
    ids = _places(x, places, x.shape[at])
    if ids.ndim != x.ndim or ids.shape[:at] + ids.shape[at + 1 :] != x.shape[:at] + x.shape[at + 1 :]:
        raise ShapeError("take_along_axis: places of %s in a tensor of %s" % (ids.shape, x.shape))
    if any(isinstance(size, Dim) for size in x.shape + ids.shape):
        raise ShapeError("take_along_axis: %s has a symbolic size" % (x.shape,))
    # Where an id is outside its row, so is the place in the flattened tensor.
    inside = (ids >= 0) & (ids < x.shape[at])
    linear = where(inside, multiply(ids, count(x.shape[at + 1 :])), _OUTSIDE)
    for other in range(x.ndim):
        if other != at:
            along = tuple(x.shape[other] if axis == other else 1 for axis in range(x.ndim))
            extent: Any = x.shape[other]
            steps = multiply(x.graph.arange(extent, dtype=int64), count(x.shape[other + 1 :]))
            linear = add(linear, broadcast_to(reshape(steps, along), ids.shape))
    flat = reshape(linear, (linear.size,))
    return reshape(emit("INDEX", (reshape(x, (x.size,)), flat), x.dtype, flat.shape), ids.shape)
