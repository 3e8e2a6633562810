"""gather, and the scatters.

A gather reads each element at a place that is computed: INDEX of the operand, flat. A scatter is written from the
side of what it writes to: each element takes together the updates whose place is its own (a sum over a one-hot
mask, which is a product of matrices where rows are scattered), or the last of them.
"""

from __future__ import annotations

from typing import Any, List, Optional

from kiln import elementwise as ops, movement, reduce as reductions
from kiln.dtypes import int32
from kiln.jax.movement import along, integers, looked_up
from kiln.jax.reductions import least_of, wide
from kiln.jax.table import rule
from kiln.promotion import limits
from kiln.value import count


def fill_of(kind: Any) -> Any:
    """What jax puts where a place is outside."""
    return float("nan") if kind.is_float else True if kind.kind == "b" else limits(kind)[kind.kind == "u"]


def mode_of(e: Any) -> str:
    """clip or fill; where jax promises that all is inside, clip."""
    mode = str(e.params["mode"]).rsplit(".", 1)[-1].upper()
    return "fill" if "FILL" in mode else "clip"


@rule("gather")
def gather(e: Any, x: Any, indices: Any) -> Any:
    d, shape, sizes = e.params["dimension_numbers"], e.shape, tuple(map(int, e.params["slice_sizes"]))
    indices = integers(indices)
    batch_out = [axis for axis in range(len(shape)) if axis not in d.offset_dims]
    window_in = [axis for axis in range(x.ndim) if axis not in (*d.collapsed_slice_dims, *d.operand_batching_dims)]
    if x.size == 0 or count(shape) == 0:
        return x.graph.zeros(shape, x.dtype)

    def of_batch(one: Any) -> Any:
        """A tensor of the indices' batch, where the result has these axes."""
        kept = [1] * len(shape)
        for axis, size in zip(batch_out, indices.shape[:-1]):
            kept[axis] = size
        return movement.reshape(one, tuple(kept))

    clip = mode_of(e) == "clip"
    places: List[Any] = [None] * x.ndim
    inside = None
    for number, axis in enumerate(d.start_index_map):
        start, most = of_batch(indices[..., number]), x.shape[axis] - sizes[axis]
        if not clip:
            fits = (start >= 0) & (start <= most)
            inside = fits if inside is None else inside & fits
        places[axis] = ops.minimum(ops.maximum(start, 0), most)
    for axis, of in zip(d.operand_batching_dims, d.start_indices_batching_dims):
        places[axis] = of_batch(
            movement.broadcast_to(along(e.arange(x.shape[axis], int32), of, indices.ndim - 1), indices.shape[:-1])
        )
    for axis, out in zip(window_in, d.offset_dims):
        if sizes[axis] > 1:
            offset = along(e.arange(sizes[axis], int32), out, len(shape))
            places[axis] = offset if places[axis] is None else places[axis] + ops.astype(offset, places[axis].dtype)
    zero = x.graph.full((1,) * len(shape), 0, int32)
    places = [zero if place is None else place for place in places]
    if e.run.several and d.operand_batching_dims and all(sizes[axis] == 1 for axis in d.start_index_map):
        found = _by_masks(e, x, places, batch_out, window_in)
    else:
        found = looked_up(x, places, shape)
    if inside is None:
        return found
    fill = e.params.get("fill_value")
    if fill is None:
        fill = fill_of(x.dtype)
    return ops.where(inside, found, x.graph.scalar(fill, x.dtype))


def _by_masks(e: Any, x: Any, places: List[Any], batch_out: List[int], window_in: List[int]) -> Any:
    """A gather within each row of a batch, by sums over masks: on several devices no index may reach into all."""
    d, shape = e.params["dimension_numbers"], e.shape
    at_out = {axis: batch_out[of] for axis, of in zip(d.operand_batching_dims, d.start_indices_batching_dims)}
    at_out.update(zip(window_in, d.offset_dims))
    chosen = [axis for axis in range(x.ndim) if axis not in at_out]
    linear = None
    for axis in chosen:
        place = ops.astype(places[axis], int32)
        linear = place if linear is None else linear * x.shape[axis] + place
    kept = sorted(at_out, key=lambda axis: at_out[axis])
    rows = movement.transpose(x, [*kept, *chosen])
    aligned = [1] * len(shape)
    for axis, out in at_out.items():
        aligned[out] = x.shape[axis]
    many = count([x.shape[axis] for axis in chosen])
    rows = movement.reshape(rows, (*aligned, many))
    hits = ops.equal(movement.expand_dims(linear, len(shape)), e.arange(many, int32))  # type: ignore[arg-type]
    taken = ops.where(hits, rows, x.graph.scalar(0, x.dtype))
    found = reductions.reduce("MAX" if x.dtype.kind == "b" else "ADD", taken, (len(shape),), False)
    return movement.broadcast_to(found, shape)


class Scattered:
    """A scatter, its operand as (batch, places, rest), and its updates as (batch, updates, rest).

    `target` of (batch, updates) is each update's place, -1 for none.
    """

    def __init__(self, e: Any, x: Any, indices: Any, updates: Any):
        d = e.params["dimension_numbers"]
        indices = integers(indices)
        window_in = [axis for axis in range(x.ndim) if axis not in (*d.inserted_window_dims, *d.operand_batching_dims)]
        window_of = dict(zip(window_in, d.update_window_dims))  # by axis of the operand: that of the updates
        size_of = {axis: updates.shape[at] for axis, at in window_of.items()}
        still = [axis for axis in window_in if axis not in d.scatter_dims_to_operand_dims]
        rest = [axis for axis in still if size_of[axis] == x.shape[axis]]
        batch = list(d.operand_batching_dims)
        moved = [axis for axis in range(x.ndim) if axis not in rest and axis not in batch]
        batch_of = [
            axis for axis in range(updates.ndim) if axis not in d.update_window_dims
        ]  # as the indices have them
        self.order = [*batch, *moved, *rest]
        self.sizes = [x.shape[axis] for axis in self.order]
        self.shape = tuple(count([x.shape[axis] for axis in axes]) for axes in (batch, moved, rest))
        fronts = [batch_of[at] for at in d.scatter_indices_batching_dims]
        backs = [window_of[axis] for axis in rest]
        middle = [axis for axis in range(updates.ndim) if axis not in fronts and axis not in backs]
        target = self._targets(e, x, indices, updates, batch_of, window_of, moved)
        kept = tuple(1 if axis in backs else size for axis, size in enumerate(updates.shape))
        target = movement.broadcast_to(target, kept)
        order = [*fronts, *middle, *backs]
        target = movement.transpose(target, order) if order else target
        count_of = count([updates.shape[at] for at in middle])
        self.target = movement.reshape(target, (self.shape[0], count_of))
        self.x = movement.reshape(movement.transpose(x, self.order) if x.ndim else x, self.shape)
        updates = movement.transpose(updates, order) if order else updates
        self.updates = movement.reshape(updates, (self.shape[0], count_of, self.shape[2]))

    def _targets(self, e: Any, x: Any, indices: Any, updates: Any, batch_of: Any, window_of: Any, moved: Any) -> Any:
        """Each update's place among `moved`, with the updates' axes; of size 1 where it does not depend on them."""
        d, clip, rank = e.params["dimension_numbers"], mode_of(e) == "clip", updates.ndim
        shape_of_batch = [1] * rank
        for axis, size in zip(batch_of, indices.shape[:-1]):
            shape_of_batch[axis] = size
        linear: Any = x.graph.full((1,) * rank, 0, int32)
        inside: Optional[Any] = None
        for axis in moved:
            window = updates.shape[window_of[axis]] if axis in window_of else 1
            place: Any = x.graph.full((1,) * rank, 0, int32)
            if axis in d.scatter_dims_to_operand_dims:
                start = indices[..., list(d.scatter_dims_to_operand_dims).index(axis)]
                start, most = movement.reshape(start, tuple(shape_of_batch)), x.shape[axis] - window
                if clip:
                    start = ops.minimum(ops.maximum(start, 0), most)
                else:
                    fits = (start >= 0) & (start <= most)
                    inside = fits if inside is None else inside & fits
                place = ops.astype(start, int32)
            if window > 1:
                place = place + along(e.arange(window, int32), window_of[axis], rank)
            linear = linear * x.shape[axis] + place
        return linear if inside is None else ops.where(inside, linear, -1)

    def back(self, value: Any) -> Any:
        value = movement.reshape(value, tuple(self.sizes))
        order = sorted(range(len(self.order)), key=lambda at: self.order[at])
        return movement.transpose(value, order) if order else value

    def hits(self, e: Any) -> Any:
        """(batch, places, updates): whether an update is for a place."""
        slots = movement.reshape(e.arange(self.shape[1], int32), (1, self.shape[1], 1))
        return ops.equal(slots, movement.expand_dims(self.target, 1))

    def together(self, e: Any, op: str, nothing: Any) -> Any:
        """(batch, places, rest): the updates of each place reduced."""
        updates = movement.expand_dims(movement.swapaxes(self.updates, 1, 2), 1)  # batch, 1, rest, updates
        hits = movement.expand_dims(self.hits(e), 2)
        taken = ops.where(hits, updates, self.x.graph.scalar(nothing, updates.dtype))
        return reductions.reduce(op, taken, (3,), False)


def scatter_by(op: str, nothing: Any, join: Any) -> Any:
    def apply(e: Any, x: Any, indices: Any, updates: Any) -> Any:
        if updates.size == 0 or x.size == 0:
            return x
        kind = x.dtype
        s = Scattered(e, wide(x), indices, wide(updates))
        return ops.astype(s.back(join(s.x, s.together(e, op, nothing(s.x.dtype)))), kind)

    return apply


def _none(kind: Any) -> Any:
    return False if kind.kind == "b" else 0


rule("scatter-add", "scatter_add")(scatter_by("ADD", _none, ops.add))
rule("scatter-mul", "scatter_mul")(scatter_by("MUL", lambda kind: True if kind.kind == "b" else 1, ops.multiply))
rule("scatter-max", "scatter_max")(scatter_by("MAX", least_of, ops.maximum))


@rule("scatter-sub", "scatter_sub")
def scatter_sub(e: Any, x: Any, indices: Any, updates: Any) -> Any:
    return scatter_by("ADD", _none, lambda a, b: a - b)(e, x, indices, updates)


@rule("scatter-min", "scatter_min")
def scatter_min(e: Any, x: Any, indices: Any, updates: Any) -> Any:
    def apply(s: Any) -> Any:
        mirror = reductions._mirror
        s.updates = mirror(s.updates)
        return ops.minimum(s.x, mirror(s.together(e, "MAX", least_of(s.x.dtype))))

    if updates.size == 0 or x.size == 0:
        return x
    s = Scattered(e, x, indices, updates)
    return s.back(apply(s))


@rule("scatter")
def scatter(e: Any, x: Any, indices: Any, updates: Any) -> Any:
    """Of several updates for one place the last stays."""
    update = e.params.get("update_jaxpr")
    if update is not None and update.outvars[0] is not update.invars[1]:
        raise e.refuse("it computes of what is there", "write x.at[i].set(f(x[i]))")
    if updates.size == 0 or x.size == 0:
        return x
    s = Scattered(e, x, indices, updates)
    batch, slots, rest = s.shape
    numbers = movement.reshape(e.arange(s.updates.shape[1], int32) + 1, (1, 1, s.updates.shape[1]))
    last = reductions.reduce("MAX", ops.where(s.hits(e), numbers, 0), (2,), True)  # batch, places, 1
    axes = [along(e.arange(batch, int32), 0, 3), ops.maximum(last - 1, 0), along(e.arange(rest, int32), 2, 3)]
    return s.back(ops.where(last > 0, looked_up(s.updates, axes, s.shape), s.x))
