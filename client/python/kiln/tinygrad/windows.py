"""Chains of overlapping windows, cut before tinygrad's scheduler makes one kernel of them.

A stencil reads five neighbours of each element; of eight stencils, one behind the other,
each element is read through some hundred windows, and as one kernel it is an expression
of hundreds of thousands of operations: minutes to write and to compile, whatever the
size of the tensor. At level T Kiln counts such reads and keeps values in buffers
(compiler/schedule/realize.cc). This is that rule for levels K and L: a value read through
more than MOST windows is kept.

Two reads are through the same window if the same movements lead to them. What is read
with each weight of its own and then moved is read as often as what is moved first.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Set, Tuple

from tinygrad.uop.ops import GroupOp, Ops, UOp

from kiln.tinygrad.calls import is_precompiled, without_functions
from kiln.tinygrad.devices import devices_of, is_kiln

# Windows through which one kernel may read a computed value.
MOST = 64

_cut: Dict[bytes, UOp] = {}


def read_too_often(body: UOp) -> List[UOp]:
    """Computed values that are read through more than MOST windows, those nearest to the results first."""
    # By number, in how many ways a value is looked at. 0: as it is.
    numbers: Dict[Tuple[Any, ...], int] = {}
    windows: Dict[UOp, Set[int]] = {}
    found = []
    for u in reversed(list(body.toposort(enter_calls=False))):
        seen = windows.pop(u, {0})
        if u.op in GroupOp.ALU and len(seen) > MOST and u.device is not None:
            found.append(u)
            seen = {0}
        if u.op in GroupOp.Movement:
            movement = (u.op, u.arg, u.src[0].shape, *u.src[1:])
            moved = {numbers.setdefault((window, *movement), len(numbers) + 1) for window in seen}
            windows.setdefault(u.src[0], set()).update(moved)
        elif u.op in GroupOp.ALU or u.op in (Ops.CAST, Ops.BITCAST):
            for source in u.src:
                windows.setdefault(source, set()).update(seen)
        else:
            for source in u.src:
                windows.setdefault(source, set()).add(0)
    return found


def with_values_kept(body: UOp) -> UOp:
    """The body with those values CONTIGUOUS, also in bodies of precompiled functions."""
    # tinygrad schedules functions' values where they are read: so they are counted there.
    inlined = without_functions(body)
    kept = set(read_too_often(inlined))
    body = inlined if kept else body
    made: Dict[UOp, UOp] = {}
    for u in body.toposort(enter_calls=False):
        new = u.replace(src=tuple(made.get(s, s) for s in u.src))
        if is_precompiled(u):
            new = new.replace(src=(with_values_kept(u.src[0]), *new.src[1:]))
        made[u] = UOp(Ops.CONTIGUOUS, src=(new,)) if u in kept else new
    return made[body]


def make_create_linear(original: Callable[[UOp], Any]) -> Callable[[UOp], Any]:
    """tinygrad's create_linear_with_vars, with chains cut."""

    def create_linear(big_sink: UOp) -> Any:
        body = big_sink.src[0]
        if not any(is_kiln(device) for argument in big_sink.src[1:] for device in devices_of(argument)):
            return original(big_sink)
        if body.key not in _cut:
            _cut[body.key] = with_values_kept(body)
        return original(big_sink.replace(src=(_cut[body.key], *big_sink.src[1:])))

    return create_linear
