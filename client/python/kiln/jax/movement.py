"""What moves elements: shapes, slices, padding, and boxes at computed places."""

from __future__ import annotations

from typing import Any, Sequence, Tuple

from kiln import elementwise as ops, movement
from kiln.dtypes import int32
from kiln.jax.table import rule
from kiln.value import count, emit


@rule("reshape")
def reshape(e: Any, x: Any) -> Any:
    if e.params.get("dimensions") is not None:
        x = movement.transpose(x, tuple(e.params["dimensions"]))
    return movement.reshape(x, tuple(e.params["new_sizes"]))


@rule("transpose")
def transpose(e: Any, x: Any) -> Any:
    order = tuple(e.params["permutation"])
    return movement.transpose(x, order) if order else x


@rule("broadcast_in_dim")
def broadcast_in_dim(e: Any, x: Any) -> Any:
    shape, axes = tuple(e.params["shape"]), tuple(e.params["broadcast_dimensions"])
    kept = [1] * len(shape)
    for axis, size in zip(axes, x.shape):
        kept[axis] = size
    return movement.broadcast_to(movement.reshape(x, tuple(kept)), shape)


@rule("squeeze")
def squeeze(e: Any, x: Any) -> Any:
    gone = {axis % x.ndim for axis in e.params["dimensions"]}
    return movement.reshape(x, tuple(size for axis, size in enumerate(x.shape) if axis not in gone))


@rule("expand_dims")
def expand_dims(e: Any, x: Any) -> Any:
    return movement.reshape(x, e.shape)


@rule("rev")
def rev(e: Any, x: Any) -> Any:
    return movement.flip(x, tuple(e.params["dimensions"]))


@rule("tile")
def tile(e: Any, x: Any) -> Any:
    return movement.tile(x, tuple(map(int, e.params["reps"])))


def strided(x: Any, starts: Sequence[int], ends: Sequence[int], steps: Sequence[int]) -> Any:
    return (
        x[tuple(slice(int(start), int(end), int(step)) for start, end, step in zip(starts, ends, steps))]
        if x.ndim
        else x
    )


@rule("slice")
def sliced(e: Any, x: Any) -> Any:
    starts, ends = e.params["start_indices"], e.params["limit_indices"]
    return strided(x, starts, ends, e.params["strides"] or (1,) * x.ndim)


@rule("split")
def split(e: Any, x: Any) -> Any:
    axis, at, parts = e.params["axis"], 0, []
    for size in map(int, e.params["sizes"]):
        box = [(0, extent) for extent in x.shape]
        box[axis] = (at, at + size)
        parts.append(movement.shrink(x, box))
        at += size
    return parts


@rule("stack")
def stack(e: Any, *parts: Any) -> Any:
    return movement.stack(parts, e.params["axis"])


@rule("unstack")
def unstack(e: Any, x: Any) -> Any:
    return list(movement.moveaxis(x, e.params["axis"], 0))


@rule("concatenate")
def concatenate(e: Any, *parts: Any) -> Any:
    parts = tuple(part for part in parts if part.shape[e.params["dimension"]])
    if not parts:
        return e.graph.zeros(e.shape, e.dtype)
    if parts[0].dtype.is_float:  # a sum of padded parts would make 0 of -0
        bits = "int%d" % (8 * parts[0].dtype.itemsize)
        whole = movement.concatenate([ops.bitcast(part, bits) for part in parts], e.params["dimension"])
        return ops.bitcast(whole, parts[0].dtype) if len(parts) > 1 else parts[0]
    return movement.concatenate(parts, e.params["dimension"])


def inner_padded(x: Any, between: Sequence[int], value: Any) -> Any:
    """With `between` elements of `value` put between neighbours along each axis."""
    for axis, more in enumerate(between):
        if more and x.shape[axis] > 1:
            size = x.shape[axis]
            spread = movement.reshape(x, (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]))
            widths = [(0, 0)] * spread.ndim
            widths[axis + 1] = (0, more)
            spread = padded(spread, widths, value)
            spread = movement.reshape(spread, (*x.shape[:axis], size * (more + 1), *x.shape[axis + 1 :]))
            box = [(0, extent) for extent in spread.shape]
            box[axis] = (0, size * (more + 1) - more)
            x = movement.shrink(spread, box)
    return x


def padded(x: Any, widths: Sequence[Tuple[int, int]], value: Any) -> Any:
    """Elements of `value`, a number or a tensor of shape (), around x; then negative widths take elements away."""
    grown = [(max(0, before), max(0, after)) for before, after in widths]
    if not any(map(any, grown)):
        pass
    elif isinstance(value, (bool, int, float)):
        x = movement.pad(x, grown, value)
    else:
        inside = movement.pad(x.graph.full(x.shape, True, "bool"), grown, False)
        x = ops.where(inside, movement.pad(x, grown), value)
    cut = [(max(0, -before), size - max(0, -after)) for size, (before, after) in zip(x.shape, widths)]
    return movement.shrink(x, [(first, max(first, end)) for first, end in cut])


def number_of(value: Any) -> Any:
    """Python's number of a known one; a tensor as it is."""
    return value.item() if hasattr(value, "item") and not hasattr(value, "node") else value


@rule("pad", raw=True)
def pad(e: Any, x: Any, value: Any) -> Any:
    from kiln.jax.table import Keys

    if isinstance(x, Keys):
        raise e.refuse("of keys")
    x, config = e.run.lift(x), e.params["padding_config"]
    value = number_of(value) if getattr(value, "dtype", None) is not None and value.ndim == 0 else value
    x = inner_padded(x, [int(row[2]) for row in config], value)
    return padded(x, [(int(row[0]), int(row[1])) for row in config], value)


@rule("iota")
def iota(e: Any) -> Any:
    axis, shape, kind = e.params["dimension"], e.shape, e.dtype
    wide = kind if kind.kind in "iu" and shape[axis] <= (1 << 7) else int32
    numbers = ops.astype(e.graph.arange(shape[axis], wide), kind)
    return movement.broadcast_to(
        movement.reshape(numbers, tuple(size if at == axis else 1 for at, size in enumerate(shape))), shape
    )


@rule("empty", "empty2")
def empty(e: Any) -> Any:
    return e.graph.zeros(e.shape, e.dtype)


# -- boxes at computed places


def along(x: Any, axis: int, rank: int) -> Any:
    """A tensor of one axis as `axis` of `rank`."""
    return movement.reshape(x, tuple(x.size if at == axis else 1 for at in range(rank)))


def integers(x: Any) -> Any:
    """Places as int32 or int64, which hold any axis' extent; those beyond int64 are its greatest."""
    if x.dtype.itemsize < 4:
        return ops.astype(x, int32)
    if x.dtype.kind == "u":
        return ops.astype(ops.minimum(x, 2**63 - 1) if x.dtype.itemsize == 8 else x, "int64")
    return x


def started(start: Any, size: int, extent: int) -> Any:
    """A box's first place along an axis, moved so that it is inside; int32."""
    start = integers(start)
    return ops.astype(ops.minimum(ops.maximum(start, 0), extent - size), int32)


def looked_up(x: Any, places: Sequence[Any], shape: Sequence[int]) -> Any:
    """x[places[0], places[1], …]: each of one axis of x, and of shapes that broadcast to `shape`."""
    linear = None
    for axis, place in enumerate(places):
        if x.shape[axis] == 1:
            continue
        step = count(x.shape[axis + 1 :])
        place = ops.astype(place, int32 if count(x.shape) < 2**31 else "int64")
        term = place * step if step != 1 else place
        linear = term if linear is None else linear + term
    if linear is None:
        return movement.broadcast_to(movement.reshape(x, (1,) * len(shape)), tuple(shape))
    flat = movement.reshape(movement.broadcast_to(linear, tuple(shape)), (count(shape),))
    return movement.reshape(emit("INDEX", (movement.reshape(x, (x.size,)), flat), x.dtype, flat.shape), tuple(shape))


@rule("dynamic_slice")
def dynamic_slice(e: Any, x: Any, *starts: Any) -> Any:
    sizes = tuple(e.params["slice_sizes"])
    places = []
    for axis, (start, size) in enumerate(zip(starts, sizes)):
        offsets = along(e.arange(size, int32), axis, x.ndim)
        places.append(offsets if size == x.shape[axis] else offsets + started(start, size, x.shape[axis]))
    return looked_up(x, places, sizes) if x.ndim else x


@rule("dynamic_update_slice")
def dynamic_update_slice(e: Any, x: Any, update: Any, *starts: Any) -> Any:
    inside, places = None, []
    for axis, (start, size) in enumerate(zip(starts, update.shape)):
        place = along(e.arange(x.shape[axis], int32), axis, x.ndim)
        if size != x.shape[axis]:
            place = place - started(start, size, x.shape[axis])
            fits = (place >= 0) & (place < size)
            inside = fits if inside is None else inside & fits
            place = ops.where(fits, place, 0)
        places.append(place)
    if inside is None:
        return update
    return ops.where(inside, looked_up(update, places, x.shape), x)
