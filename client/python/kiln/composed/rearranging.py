"""Functions that move elements beyond what movement.py has: roll, repeat, split, pad modes, …"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, List, Sequence, Tuple

import numpy as np

from kiln import movement
from kiln.composed.operands import one
from kiln.dtypes import bool_, int64, integer
from kiln.elementwise import equal, less, lift, where
from kiln.errors import InvalidArgument, ShapeError
from kiln.indexing import take
from kiln.movement import broadcast_to, concatenate, flip, reshape, shrink
from kiln.value import axes_of, axis_of, broadcast, shape_of

if TYPE_CHECKING:
    from kiln.tensor import Tensor


def concat(arrays: "Sequence[Tensor]", /, axis: Any = 0) -> "Tensor":
    """Arrays one behind the other along an axis, or with axis=None flattened."""
    if axis is not None:
        return concatenate(arrays, axis)
    return concatenate([reshape(x, (x.size,)) for x in lift("concat", *arrays)], 0)


def stack(arrays: "Sequence[Tensor]", /, axis: int = 0) -> "Tensor":
    return movement.stack(arrays, axis)


def unstack(x: "Tensor", /, axis: int = 0) -> "Tuple[Tensor, ...]":
    """The parts of x along an axis, without it."""
    x = one("unstack", x)
    at = axis_of("unstack", axis, x.ndim)
    rest = x.shape[:at] + x.shape[at + 1 :]
    return tuple(reshape(_part(x, at, row, row + 1), rest) for row in range(x.shape[at]))  # type: ignore[arg-type]


def _part(x: "Tensor", axis: int, begin: Any, end: Any) -> "Tensor":
    return shrink(x, [(begin, end) if at == axis else (0, size) for at, size in enumerate(x.shape)])


def broadcast_arrays(*arrays: "Tensor") -> "List[Tensor]":
    values = lift("broadcast_arrays", *arrays)
    shape = broadcast("broadcast_arrays", *(x.shape for x in values))
    return [broadcast_to(x, shape) for x in values]


def expand_dims(x: "Tensor", /, axis: Any = 0) -> "Tensor":
    x = one("expand_dims", x)
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    rank = x.ndim + len(given)
    places = axes_of("expand_dims", tuple(given), rank)
    sizes = iter(x.shape)
    return reshape(x, tuple(1 if at in places else next(sizes) for at in range(rank)))


def moveaxis(x: "Tensor", source: Any, destination: Any, /) -> "Tensor":
    x = one("moveaxis", x)
    a, b = ([axis_of("moveaxis", axis, x.ndim) for axis in (given if isinstance(given, (tuple, list)) else (given,))]
            for given in (source, destination))  # fmt: skip
    if len(a) != len(b) or len(set(a)) != len(a) or len(set(b)) != len(b):
        raise ShapeError("moveaxis: from %s to %s" % (source, destination), code="BAD_ARGUMENT")
    order = [axis for axis in range(x.ndim) if axis not in a]
    for target, axis in sorted(zip(b, a)):
        order.insert(target, axis)
    return movement.transpose(x, tuple(order)) if order else x


def permute_dims(x: "Tensor", /, axes: Any) -> "Tensor":
    x = one("permute_dims", x)
    if len(axes) != x.ndim:
        raise ShapeError("permute_dims: %s is no order of %d axes" % (tuple(axes), x.ndim), code="BAD_ARGUMENT")
    return movement.transpose(x, tuple(axes)) if axes else x


def matrix_transpose(x: "Tensor", /) -> "Tensor":
    x = one("matrix_transpose", x)
    if x.ndim < 2:
        raise ShapeError("matrix_transpose: of a tensor of rank %d" % x.ndim, code="BAD_ARGUMENT")
    return movement.swapaxes(x, -1, -2)


def reshape_(x: "Tensor", /, shape: Any, *, copy: Any = None) -> "Tensor":
    return reshape(one("reshape", x), shape)


reshape_.__name__ = "reshape"


def flip_(x: "Tensor", /, axis: Any = None) -> "Tensor":
    return flip(one("flip", x), axis)


flip_.__name__ = "flip"


def squeeze(x: "Tensor", /, axis: Any = None) -> "Tensor":
    return movement.squeeze(one("squeeze", x), axis)


def ravel(x: "Tensor", /) -> "Tensor":
    return movement.flatten(one("ravel", x))


def swapaxes(x: "Tensor", axis1: int, axis2: int, /) -> "Tensor":
    return movement.swapaxes(one("swapaxes", x), axis1, axis2)


def roll(x: "Tensor", /, shift: Any, axis: Any = None) -> "Tensor":
    """Elements moved on by `shift`, those that leave at the end coming in at the beginning."""
    x = one("roll", x)
    if axis is None:
        total = sum(shift) if isinstance(shift, (tuple, list)) else shift
        return reshape(roll(reshape(x, (x.size,)), total, axis=0), x.shape)
    shifts, axes = (list(given) if isinstance(given, (tuple, list)) else [given] for given in (shift, axis))
    if len(shifts) == 1:
        shifts *= len(axes)
    if len(axes) == 1:
        axes *= len(shifts)
    if len(shifts) != len(axes):
        raise InvalidArgument("roll: %d shifts along %d axes" % (len(shifts), len(axes)), code="BAD_ARGUMENT")
    for by, along in zip(shifts, axes):
        at = axis_of("roll", along, x.ndim)
        size: Any = x.shape[at]
        cut = -integer(by, "roll: a shift") % size if size else 0
        if cut:
            x = concatenate([_part(x, at, cut, size), _part(x, at, 0, cut)], at)
    return x


def repeat_places(repeats: Any, size: int) -> np.ndarray:
    """Which element stands at each place, where element i is repeated repeats[i] times."""
    counts = np.broadcast_to(np.asarray(repeats, None if np.size(repeats) else np.int64), (size,))
    if counts.dtype.kind not in "iu" or (counts < 0).any():
        raise InvalidArgument("repeat: %s are no numbers of times" % (repeats,), code="BAD_ARGUMENT")
    return np.repeat(np.arange(size), counts)


def repeat(x: "Tensor", repeats: Any, /, axis: Any = None) -> "Tensor":
    """Each element, or part along an axis, as many times as `repeats` says: a number, or one of each."""
    x = one("repeat", x)
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    at = axis_of("repeat", axis, x.ndim)
    size: Any = x.shape[at]
    if isinstance(repeats, (int, np.integer)):
        if repeats < 0:
            raise InvalidArgument("repeat: %d times" % repeats, code="BAD_ARGUMENT")
        parts = reshape(x, (*x.shape[: at + 1], 1, *x.shape[at + 1 :]))
        parts = broadcast_to(parts, (*x.shape[: at + 1], int(repeats), *x.shape[at + 1 :]))
        return reshape(parts, (*x.shape[:at], size * int(repeats), *x.shape[at + 1 :]))
    return take(x, repeat_places(repeats, size), at)


def tile(x: "Tensor", repetitions: Any, /) -> "Tensor":
    """x repeated along each axis; it gets axes in front, or counts of 1, as numpy gives them."""
    x = one("tile", x)
    counts = tuple(repetitions) if isinstance(repetitions, (tuple, list)) else (repetitions,)
    counts = (1,) * (x.ndim - len(counts)) + counts
    x = reshape(x, (1,) * (len(counts) - x.ndim) + x.shape)
    return movement.tile(x, counts)


def split(x: "Tensor", sections: Any, /, axis: int = 0) -> "List[Tensor]":
    """x cut into so many equal parts, or before the places that are listed."""
    size: Any = x.shape[axis_of("split", axis, x.ndim)]
    if not isinstance(sections, (tuple, list)) and size % integer(sections, "split: sections"):
        raise ShapeError(
            "split: an axis of %d into %d equal parts" % (size, sections), remedy="array_split cuts unequal ones"
        )
    return array_split(x, sections, axis)


def array_split(x: "Tensor", sections: Any, /, axis: int = 0) -> "List[Tensor]":
    x = one("array_split", x)
    at = axis_of("array_split", axis, x.ndim)
    size: Any = x.shape[at]
    if isinstance(sections, (tuple, list)):
        ends = [slice(None, int(place)).indices(size)[1] for place in sections]
    else:
        each, more = divmod(size, integer(sections, "array_split: sections"))
        ends = [each * part + min(part, more) for part in range(1, sections)]
    bounds = list(zip([0, *ends], [*ends, size]))
    return [_part(x, at, min(begin, size), max(min(begin, size), end)) for begin, end in bounds]


def tril(x: "Tensor", /, k: int = 0) -> "Tensor":
    """x with zeros above the k-th diagonal."""
    return _triangle("tril", x, k, True)


def triu(x: "Tensor", /, k: int = 0) -> "Tensor":
    """x with zeros below the k-th diagonal."""
    return _triangle("triu", x, k - 1, False)


def _triangle(name: str, x: "Tensor", k: int, lower: bool) -> "Tensor":
    x = one(name, x)
    if x.ndim < 2:
        raise ShapeError("%s: of a tensor of rank %d" % (name, x.ndim), code="BAD_ARGUMENT")
    k = max(-x.shape[-2] - 1, min(k, x.shape[-1] + 1))  # type: ignore[operator,type-var]
    kept = _below(x, k) if lower else equal(_below(x, k), False)
    return where(kept, x, x.graph.scalar(0, x.dtype))


def _below(x: "Tensor", k: int) -> "Tensor":
    """Whether an element of the last two axes is on the k-th diagonal, or below it."""
    rows, columns = _grid(x)
    return less(columns, rows + (k + 1))


def _grid(x: "Tensor") -> "Tuple[Tensor, Tensor]":
    rows, columns = x.shape[-2:]
    down, across = x.graph.arange(rows, int64), x.graph.arange(columns, int64)  # type: ignore[arg-type]
    return reshape(down, (rows, 1)), reshape(across, (1, columns))


def diagonal(x: "Tensor", /, *, offset: int = 0) -> "Tensor":
    """The diagonal of the last two axes, as the last."""
    x = one("diagonal", x)
    if x.ndim < 2:
        raise ShapeError("diagonal: of a tensor of rank %d" % x.ndim, code="BAD_ARGUMENT")
    rows, columns = x.shape[-2:]
    first = max(-offset, 0) * columns + max(offset, 0)
    count = max(0, min(rows - max(-offset, 0), columns - max(offset, 0)))  # type: ignore[type-var]
    flat = reshape(x, (*x.shape[:-2], rows * columns))
    return take(flat, np.arange(count) * (columns + 1) + first, -1) if count else _part(flat, flat.ndim - 1, 0, 0)


def meshgrid(*arrays: "Tensor", indexing: str = "xy") -> "List[Tensor]":
    """Each of several axes' values over the grid of all; "xy" has the second axis in front."""
    if indexing not in ("xy", "ij"):
        raise InvalidArgument("meshgrid: indexing is 'xy' or 'ij', not %r" % (indexing,), code="BAD_ARGUMENT")
    values = lift("meshgrid", *arrays)
    rank = len(values)
    made = [reshape(x, tuple(x.size if axis == at else 1 for axis in range(rank))) for at, x in enumerate(values)]
    made = [broadcast_to(x, broadcast("meshgrid", *(other.shape for other in made))) for x in made]
    return [movement.swapaxes(x, 0, 1) for x in made] if indexing == "xy" and rank > 1 else made


# -- padding by what is there

# For a row of n elements, which of them stands at place i, counted from the first: i may be below 0 or beyond n - 1.
_MODES = {
    "edge": lambda i, n: np.clip(i, 0, n - 1),
    "wrap": lambda i, n: i % n,
    "reflect": lambda i, n: n - 1 - np.abs(n - 1 - i % max(2 * n - 2, 1)),
    "symmetric": lambda i, n: np.minimum(i % (2 * n), 2 * n - 1 - i % (2 * n)),
}


def pad(x: "Tensor", pad_width: Any, /, mode: str = "constant", *, constant_values: Any = 0) -> "Tensor":
    """Elements around x: of one value, or by mode "edge", "wrap", "reflect" or "symmetric" of its own."""
    x = one("pad", x)
    widths = [tuple(map(int, pair)) for pair in np.broadcast_to(np.asarray(pad_width), (x.ndim, 2))]
    if mode == "constant":
        value = bool(constant_values) if x.dtype is bool_ else constant_values
        return movement.pad(x, widths, value)
    if mode not in _MODES:
        raise InvalidArgument("pad: no mode %r" % (mode,), code="BAD_ARGUMENT", remedy="constant, " + ", ".join(_MODES))
    for axis, (before, after) in enumerate(widths):
        size: Any = x.shape[axis]
        if before < 0 or after < 0 or not size and before + after:
            raise ShapeError("pad: %s for an axis of %s" % ((before, after), size))
        if before or after:
            x = take(x, _MODES[mode](np.arange(-before, size + after), size), axis)
    return x


def atleast(rank: int, x: "Tensor") -> "Tensor":
    """Axes of size 1 as numpy's atleast_1d and so on put them."""
    shape = shape_of(x.shape)
    if len(shape) >= rank:
        return x
    shape = {
        1: (1,),
        2: (1,) * (2 - len(shape)) + shape,
        3: {0: (1, 1, 1), 1: (1, *shape, 1), 2: (*shape, 1)}.get(len(shape), shape),
    }[rank]
    return reshape(x, shape)


def rot90(x: "Tensor", /, k: int = 1, axes: Any = (0, 1)) -> "Tensor":
    a, b = (axis_of("rot90", axis, x.ndim) for axis in axes)
    turns = k % 4
    if turns == 2:
        return flip(x, (a, b))
    if turns == 1:
        return movement.swapaxes(flip(x, b), a, b)
    return flip(movement.swapaxes(x, a, b), b) if turns else x


def fftshift(x: "Tensor", axes: Any = None) -> "Tensor":
    """numpy.fft's: what is at place 0 of each axis (all) moved to its middle, size // 2."""
    return _shifted("fftshift", x, axes, lambda size: size // 2)


def ifftshift(x: "Tensor", axes: Any = None) -> "Tensor":
    """What fftshift moved, moved back."""
    return _shifted("ifftshift", x, axes, lambda size: -(size // 2))


def _shifted(name: str, x: "Tensor", axes: Any, by: Callable[[Any], Any]) -> "Tensor":
    x = one(name, x)
    along = axes_of(name, axes, x.ndim)
    return roll(x, [by(x.shape[at]) for at in along], axis=along)
