"""Windows: convolutions and reductions over boxes that move over a tensor.

windows() gives each place of a result an axis of its box's elements, by movement ops alone; what is computed of
these is one kernel, without memory for them.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

from kiln import elementwise as ops, movement, reduce as reductions
from kiln.dtypes import int32
from kiln.jax.movement import inner_padded, padded
from kiln.jax.products import inner_kind
from kiln.jax.reductions import greatest_of, least_of
from kiln.jax.table import rule
from kiln.value import count, emit


def places(size: int, window: int, step: int, between: int) -> int:
    """How often a window fits."""
    return max(0, (size - between * (window - 1) - 1) // step + 1)


def windows(x: Any, first: int, sizes: Sequence[int], steps: Sequence[int], between: Sequence[int]) -> Any:
    """Axes from `first` on become two each: places of the windows, all in order, then, last, what is in them.

    An axis is repeated, and cut into rows that are `between` too long, so that each begins so much later
    in it than the one before: row j is what windows have at their place j.
    """
    lead, rank = x.shape[:first], len(sizes)
    fits = []
    for at, (size, step, gap) in enumerate(zip(sizes, steps, between)):
        axis, extent = first + 2 * at, x.shape[first + 2 * at]
        fit = places(extent, size, step, gap)
        fits.append(fit)
        if size == 1 and step == 1:
            x = movement.reshape(x, (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]))
            continue
        if fit * step > extent + gap:
            widths = [(0, 0)] * x.ndim
            widths[axis] = (0, fit * step - gap - extent)
            x, extent = movement.pad(x, widths), fit * step - gap
        length = extent + gap
        times = [1] * x.ndim
        times[axis] = -(-size * length // extent)
        x = movement.tile(x, times)
        x = _cut(x, axis, size * length)
        x = _cut(movement.reshape(x, (*x.shape[:axis], size, length, *x.shape[axis + 1 :])), axis + 1, fit * step)
        x = _cut(movement.reshape(x, (*x.shape[: axis + 1], fit, step, *x.shape[axis + 2 :])), axis + 2, 1)
        x = movement.reshape(x, (*x.shape[: axis + 2], *x.shape[axis + 3 :]))
        x = movement.swapaxes(x, axis, axis + 1)
    order = [first + 2 * at for at in range(rank)] + [first + 2 * at + 1 for at in range(rank)]
    x = movement.transpose(x, [*range(first), *order]) if x.ndim else x
    return movement.reshape(x, (*lead, *fits, *sizes))


def _cut(x: Any, axis: int, size: int) -> Any:
    box = [(0, extent) for extent in x.shape]
    box[axis] = (0, size)
    return movement.shrink(x, box)


@rule("conv_general_dilated")
def conv(e: Any, x: Any, w: Any) -> Any:
    p, numbers, kind = e.params, e.params["dimension_numbers"], inner_kind(e.dtype)
    x = movement.transpose(ops.astype(x, kind), list(numbers.lhs_spec))  # batch, features, space
    w = movement.transpose(ops.astype(w, kind), list(numbers.rhs_spec))  # features out, in, space
    rank = x.ndim - 2
    x = inner_padded(x, [0, 0, *(one - 1 for one in p["lhs_dilation"])], 0)
    x = padded(x, [(0, 0), (0, 0), *(tuple(map(int, one)) for one in p["padding"])], 0)
    groups, of_batch = p["feature_group_count"], p["batch_group_count"]
    batch, features, made, inner = x.shape[0], x.shape[1], w.shape[0], w.shape[1]
    if of_batch > 1:  # a group of results is of a share of the batch
        x = movement.swapaxes(movement.reshape(x, (of_batch, batch // of_batch, *x.shape[1:])), 0, 1)
        groups, batch = of_batch, batch // of_batch
    else:
        x = movement.reshape(x, (batch, groups, features // groups, *x.shape[2:]))
    seen = windows(x, 3, w.shape[2:], p["window_strides"], p["rhs_dilation"])
    space = seen.shape[3 : 3 + rank]
    # batch, group, feature made, places, then what is summed: features in, window.
    seen = movement.transpose(seen, [0, 1, *range(3, 3 + rank), 2, *range(3 + rank, 3 + 2 * rank)])
    seen = movement.reshape(seen, (batch, groups, 1, *space, inner * count(w.shape[2:])))
    weights = movement.reshape(w, (1, groups, made // groups, *[1] * rank, inner * count(w.shape[2:])))
    products = ops.multiply(seen, weights)
    total = reductions.reduce("ADD", products, (products.ndim - 1,), False)
    total = movement.reshape(ops.astype(total, e.dtype), (batch, made, *space))
    order = [0] * total.ndim
    for place, axis in enumerate(numbers.out_spec):
        order[axis] = place
    return movement.transpose(total, order)


# -- reductions over windows


def boxed(e: Any, x: Any, first: Any) -> Any:
    """Places, then the elements of each place's box in one axis; `first` is what is around x and between."""
    p = e.params
    x = inner_padded(x, [one - 1 for one in p.get("base_dilation") or (1,) * x.ndim], first)
    x = padded(x, [tuple(map(int, one)) for one in p["padding"]], first)
    sizes = tuple(p["window_dimensions"])
    seen = windows_of_all(x, sizes, tuple(p["window_strides"]), tuple(p.get("window_dilation") or (1,) * x.ndim))
    return movement.reshape(seen, (*seen.shape[: x.ndim], count(sizes)))


def windows_of_all(x: Any, sizes: Sequence[int], steps: Sequence[int], between: Sequence[int]) -> Any:
    return windows(x, 0, sizes, steps, between)


def over_windows(op: str, first: Callable[[Any], Any]) -> Any:
    def apply(e: Any, x: Any) -> Any:
        seen = boxed(e, x, first(x.dtype))
        return reductions.reduce(op, seen, (seen.ndim - 1,), False)

    return apply


rule("reduce_window_sum")(over_windows("ADD", lambda kind: 0))
rule("reduce_window_max")(over_windows("MAX", least_of))


@rule("reduce_window_min")
def reduce_window_min(e: Any, x: Any) -> Any:
    seen = boxed(e, x, greatest_of(x.dtype))
    return reductions.min(seen, seen.ndim - 1)


# What a reduce_window's computation may be, by its only equation.
_BY_NAME = {"add": "ADD", "mul": "MUL", "max": "MAX"}


@rule("reduce_window", raw=True)
def reduce_window(e: Any, x: Any, *more: Any) -> Any:
    equations = e.params["jaxpr"].eqns
    op = _BY_NAME.get(equations[0].primitive.name) if len(equations) == 1 else None
    if len(more) != 1 or op is None:
        raise e.refuse("only sums, products and maxima of one operand are taken over windows")
    x = e.run.lift(x)
    seen = boxed(e, x, {"ADD": 0, "MUL": 1, "MAX": least_of(x.dtype)}[op])
    total = reductions.reduce(op, seen, (seen.ndim - 1,), False)
    return emit(op, (e.run.lift(more[0]), total), total.dtype, total.shape)


@rule("select_and_scatter_add")
def select_and_scatter_add(e: Any, source: Any, x: Any) -> Any:
    """Each window's value goes to its greatest (or least) element, the first of several: the gradient of pooling.

    An element's sum is over the windows that it may be in: of each, whether it was chosen.
    """
    p = e.params
    greatest = p["select_prim"].name == "ge"
    sizes, steps = tuple(p["window_dimensions"]), tuple(p["window_strides"])
    around = [tuple(map(int, one)) for one in p["padding"]]
    filled = padded(x, around, least_of(x.dtype) if greatest else greatest_of(x.dtype))
    seen = windows_of_all(filled, sizes, steps, (1,) * x.ndim)
    seen = movement.reshape(seen, (*seen.shape[: x.ndim], count(sizes)))
    chosen = (reductions.argmax if greatest else reductions.argmin)(seen, seen.ndim - 1)
    total = None
    for number in range(count(sizes)):
        offset, rest = [], number
        for size in reversed(sizes):
            offset.insert(0, rest % size)
            rest //= size
        given = ops.where(ops.equal(chosen, number), source, 0)
        given = inner_padded(given, [step - 1 for step in steps], 0)
        widths = [(at, extent - at - size) for at, extent, size in zip(offset, filled.shape, given.shape)]
        given = padded(given, widths, 0)
        total = given if total is None else ops.add(total, given)
    return padded(total, [(-before, -after) for before, after in around], 0)


@rule("select_and_gather_add")
def select_and_gather_add(e: Any, tangents: Any, x: Any) -> Any:
    """Of each window the tangent of its greatest (or least) element."""
    greatest = e.params["select_prim"].name == "ge"
    seen = boxed(e, x, least_of(x.dtype) if greatest else greatest_of(x.dtype))
    chosen = (reductions.argmax if greatest else reductions.argmin)(seen, seen.ndim - 1, keepdims=True)
    slots = movement.reshape(e.arange(seen.shape[-1], int32), (1,) * (seen.ndim - 1) + (seen.shape[-1],))
    return reductions.reduce(
        "ADD", ops.where(ops.equal(chosen, slots), boxed(e, tangents, 0), 0), (seen.ndim - 1,), False
    )
