"""kiln.jax.pmap: a function run on each of several devices, on a row of its arguments each.

jax.vmap is what it means: psum, pmean and their like over the axis become sums over rows, and where the rows lie
on devices, the server makes all-reduces of these.
"""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

import jax

from kiln.jax.jit import Jitted, jit


def pmap(function: Callable[..., Any], axis_name: Optional[str] = None, *, devices: Sequence[str], in_axes: Any = 0,
         out_axes: Any = 0, **options: Any) -> Jitted:  # fmt: skip
    """`function` on each of `devices`, with a row of each argument's first axis; whole where in_axes says None.

    Results are kiln.Shards with a row of each device or, where out_axes says None, what is the same on all.
    """
    axes = in_axes if isinstance(in_axes, (tuple, list)) else None
    mapped = jax.vmap(function, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name, axis_size=len(devices))
    split = [at for at, axis in enumerate(axes) if axis is not None] if axes is not None else range(64)
    return jit(mapped, devices=devices, split_argnums=list(split), **options)
