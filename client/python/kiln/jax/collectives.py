"""psum and its like over an axis that jax.vmap has made one of arrays: reductions; where it is split, over devices."""

from __future__ import annotations

from typing import Any, List

from kiln import reduce as reductions
from kiln.jax.table import rule


def _reduced(op: Any) -> Any:
    def apply(e: Any, *operands: Any) -> List[Any]:
        axes = tuple(e.params["axes"])
        if e.params.get("axis_index_groups") is not None or not all(isinstance(axis, int) for axis in axes):
            raise e.refuse("over an axis that is no array's", "map the function with jax.vmap or kiln.jax.pmap")
        return [op(one, axes) for one in operands]

    return apply


rule("psum", "psum_invariant")(_reduced(lambda x, axes: reductions.reduce("ADD", x, axes, False)))
rule("pmax")(_reduced(lambda x, axes: reductions.max(x, axes)))
rule("pmin")(_reduced(lambda x, axes: reductions.min(x, axes)))
