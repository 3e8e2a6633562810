"""kiln.jax.pmap: a function run on each of several devices, on a row of its arguments each.

jax.vmap is what it means: psum, pmean and their like over the axis become sums over rows, and where the rows lie
on devices, the server makes all-reduces of these.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Optional, Sequence

import jax

from kiln.errors import InvalidArgument, ShapeError
from kiln.jax.jit import Jitted, jit

# Arguments of a function whose axes are not listed.
MOST = 64


def pmap(function: Callable[..., Any], axis_name: Optional[str] = None, *, devices: Sequence[str], in_axes: Any = 0,
         out_axes: Any = 0, **options: Any) -> Jitted:  # fmt: skip
    """`function` on each of `devices`, with a row of each argument's first axis; whole where in_axes says None.

    Results are kiln.Shards with a row of each device or, where out_axes says None, what is the same on all.
    """
    axes = in_axes if isinstance(in_axes, (tuple, list)) else [in_axes] * MOST
    if in_axes is None or not all(axis is None or type(axis) is int and axis == 0 for axis in axes):
        raise InvalidArgument("pmap takes rows of a first axis: in_axes is 0, or a list of 0 and None for each "
                              "argument, not %r" % (in_axes,), code="BAD_ARGUMENT",
                              remedy="move the axis to the front")  # fmt: skip
    mapped = jax.vmap(function, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name, axis_size=len(devices))

    @functools.wraps(function)
    def by_rows(*args: Any, **named: Any) -> Any:
        for leaf in jax.tree.leaves([value for value, axis in zip(args, axes) if axis == 0]):
            if leaf.shape[:1] != (len(devices),):
                raise ShapeError("pmap on %d devices takes a row for each, not an argument of shape %s" %
                                 (len(devices), leaf.shape), code="UNSUPPORTED_SHARD",
                                 remedy="reshape it to (%d, …)" % len(devices))  # fmt: skip
        return mapped(*args, **named)

    split = [at for at, axis in enumerate(axes) if axis == 0]
    return jit(by_rows, devices=devices, split_argnums=split, **options)
