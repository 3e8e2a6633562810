"""sort and top_k: each element's rank is how many come before it, and each place takes the element of its rank.

n × n comparisons, without memory for them; of equal elements the first stays first. NaN comes last, and -0 is 0.
"""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

from kiln import elementwise as ops, movement, reduce as reductions
from kiln.dtypes import bool_, int32
from kiln.jax.movement import along, looked_up
from kiln.jax.table import rule


def _facing(x: Any) -> Tuple[Any, Any]:
    """Along the last axis: each as (.., n, 1), and all as (.., 1, n)."""
    return movement.expand_dims(x, x.ndim), movement.expand_dims(x, x.ndim - 1)


def ranks(keys: Sequence[Any], descending: bool = False) -> Any:
    """Of each element along the last axis; the first key counts most."""
    before, tie = None, None
    for key in keys:
        key = ops.astype(key, "uint8") if key.dtype is bool_ else key
        mine, others = _facing(key)
        first, second = (mine, others) if descending else (others, mine)
        less, same = ops.less(first, second), ops.equal(mine, others)
        if key.dtype.is_float:
            nan_first, nan_second = ops.isnan(first), ops.isnan(second)
            less, same = less | ops.logical_not(nan_first) & nan_second, same | nan_first & nan_second
        before, tie = (less, same) if before is None else (before | tie & less, tie & same)
    size = keys[0].shape[-1]
    places = keys[0].graph.arange(size, int32)
    earlier = ops.less(movement.reshape(places, (1, size)), movement.reshape(places, (size, 1)))
    assert before is not None and tie is not None
    return reductions.reduce("ADD", ops.astype(before | tie & earlier, int32), (before.ndim - 1,), False)


def order_of(rank: Any) -> Any:
    """Which element stands at each place."""
    size = rank.shape[-1]
    places = rank.graph.arange(size, int32)
    hit = ops.equal(movement.expand_dims(rank, rank.ndim - 1), movement.reshape(places, (size, 1)))
    return reductions.reduce("MAX", ops.where(hit, places, 0), (hit.ndim - 1,), False)


def taken(x: Any, order: Any) -> Any:
    """x's elements along the last axis in this order."""
    places: List[Any] = [along(x.graph.arange(size, int32), axis, x.ndim) for axis, size in enumerate(x.shape[:-1])]
    return looked_up(x, [*places, order], order.shape)


@rule("sort")
def sort(e: Any, *operands: Any) -> Any:
    axis = e.params["dimension"]
    if operands[0].shape[axis] < 2 or not operands[0].size:
        return list(operands)
    last = [movement.moveaxis(one, axis, one.ndim - 1) for one in operands]
    order = order_of(ranks(last[: e.params["num_keys"]]))
    return [movement.moveaxis(taken(one, order), one.ndim - 1, axis) for one in last]


@rule("top_k")
def top_k(e: Any, x: Any) -> Any:
    return _first(x, e.params["k"], e.params.get("axis", -1) % x.ndim, True)


@rule("approx_top_k")
def approx_top_k(e: Any, x: Any) -> Any:
    """All of the greatest (or least): exact, as jax is on a CPU."""
    return _first(x, e.params["k"], e.params["reduction_dimension"] % x.ndim, e.params["is_max_k"])


def _first(x: Any, k: int, axis: int, greatest: bool) -> Any:
    last = movement.moveaxis(x, axis, x.ndim - 1)
    rank = _nan_first(last) if greatest and x.dtype.is_float else ranks([last], descending=greatest)
    order = order_of(rank)[..., :k]
    return [movement.moveaxis(one, one.ndim - 1, axis) for one in (taken(last, order), order)]


def _nan_first(x: Any) -> Any:
    """Descending, where NaN is the greatest."""
    return ranks([ops.astype(ops.isnan(x), "uint8"), ops.where(ops.isnan(x), 0, x)], descending=True)
