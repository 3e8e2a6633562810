"""kiln.vmap: a function of one example as a function of many.

    distances = kiln.vmap(lambda p: kiln.sqrt((p**2).sum()))(points)       # one for each row
    slopes = kiln.vmap(kiln.grad(loss), in_axes=(None, 0, 0))(w, x, y)      # one for each example

The function is traced once, on stand-ins for one example, and its nodes are made anew with an
axis for all of them (batching.py). Within a jit or another vmap, and of gradients.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Sequence, TypeVar

from kiln.errors import InvalidArgument, ShapeError
from kiln.functional.batching import Batch
from kiln.functional.jit import Jitted, name_of
from kiln.functional.leaves import OUTSIDE
from kiln.functional.tracing import Trace, active
from kiln.functional.trees import flatten, paths, prefix, unflatten
from kiln.movement import broadcast_to, moveaxis
from kiln.value import Value, axis_of

R = TypeVar("R")


def vmap(function: Callable[..., R], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., R]:
    """A function over an axis of its arguments.

    in_axes   which axis, for all or for each argument or tree of them; None: the same for every example.
              Arguments by name are mapped along axis 0
    out_axes  where that axis is in the results, for all or for each; None for one that is the same for all

    Raises ShapeError where there is no such axis, or they differ in size, InvalidArgument for axes
    that do not fit the arguments, and NotImplementedError for an op without a rule, and for a State that is set.
    """
    name = name_of(function)

    @functools.wraps(function)
    def mapped(*args: Any, **named: Any) -> Any:
        trace = active()
        if trace is None:
            return Jitted(mapped, None, (), (), (), OUTSIDE)(*args, **named)
        return _traced(trace, function, name, in_axes, out_axes, args, named)

    return mapped


def _traced(trace: Trace, function: Callable[..., Any], name: str, in_axes: Any, out_axes: Any, args: Sequence[Any],
            named: Dict[str, Any]) -> Any:
    leaves, tree = flatten((tuple(args), named))
    axes = prefix(tree.children[0], tuple(in_axes) if isinstance(in_axes, list) else in_axes, "vmap of %s: in_axes" % name)
    axes += [0] * tree.children[1].count
    values: List[Any] = []  # of those that are mapped, the examples in front
    size: Any = None
    for at, (leaf, axis) in enumerate(zip(leaves, axes)):
        if axis is None:
            continue
        value = trace.lift(leaf, "an argument of %s" % name)
        where = "vmap of %s: argument %s" % (name, paths(tree)[at][3:])
        axis = axis_of(where, axis, value.ndim)
        here: Any = value.shape[axis]
        if size is not None and here != size:
            raise ShapeError("%s has %d examples, another one %d" % (where, here, size))
        size = here
        values.append(moveaxis(value, axis, 0))
    if size is None:
        raise InvalidArgument("vmap of %s: no argument is mapped" % name, code="BAD_ARGUMENT")
    mark = trace.stand_ins([_first(value) for value in values])
    fresh = iter(mark.values)
    given, named = unflatten(tree, [leaf if axis is None else next(fresh) for leaf, axis in zip(leaves, axes)])
    flat, form = flatten(function(*given, **named))
    if trace.changed(mark):
        raise NotImplementedError("vmap of %s, which sets a State: return what is set, and set it after" % name)
    results = [trace.lift(leaf, "a result of %s" % name) for leaf in flat]
    batch = Batch(trace, size, {one.slot: value for one, value in zip(mark.values, values)})
    rows = batch.apply(trace.message([one.node for one in results])) if results else []
    places = prefix(form, tuple(out_axes) if isinstance(out_axes, list) else out_axes, "vmap of %s: out_axes" % name)
    return unflatten(form, [_placed(name, row, result, axis, size) for row, result, axis in zip(rows, results, places)])


def _first(value: Any) -> Any:
    """The type of one example; nothing reads it."""
    return Value(value.graph, value.node, value.dtype, tuple(value.shape[1:]))


def _placed(name: str, row: Any, result: Any, axis: Any, size: int) -> Any:
    value = row.value if row.many else result
    if axis is None:
        if row.many:
            raise InvalidArgument("vmap of %s: out_axes is None for a result that differs from example to example" % name,
                                  code="BAD_ARGUMENT")  # fmt: skip
        return value
    every = value if row.many else broadcast_to(value, (size, *value.shape))
    return moveaxis(every, 0, axis)
