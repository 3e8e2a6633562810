"""Chains of overlapping windows, cut before tinygrad's scheduler makes one kernel of them.

A stencil reads five neighbours of each element; of eight stencils, one behind the other,
each element is read through some hundred windows, and as one kernel it is an expression
of hundreds of thousands of operations: minutes to write and to compile. At level T Kiln
counts such reads and keeps values in buffers (compiler/schedule/realize.cc). This is that
rule for levels K and L: a value read through more than MOST windows is kept.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List

from tinygrad.uop.ops import GroupOp, Ops, UOp

from kiln.tinygrad.devices import devices_of, is_kiln

# Windows through which one kernel may read a computed value, and elements below which it does not matter.
MOST = 64
SMALL = 1024

_cut: Dict[bytes, UOp] = {}


def read_too_often(body: UOp) -> List[UOp]:
    """Computed values that are read through more than MOST windows, those nearest to the results first."""
    order = list(body.toposort(enter_calls=False))
    # For each value: in how many windows the kernels evaluate it; through movement they add up.
    direct: Dict[UOp, int] = {}
    moved: Dict[UOp, int] = {}
    found = []
    for u in reversed(order):
        windows = max(direct.get(u, 1), moved.get(u, 0))
        if u.op in GroupOp.ALU and windows > MOST and u.device is not None and u.max_numel() >= SMALL:
            found.append(u)
            windows = 1
        if u.op in GroupOp.Movement:
            moved[u.src[0]] = moved.get(u.src[0], 0) + windows
        elif u.op in GroupOp.ALU or u.op in (Ops.CAST, Ops.BITCAST):
            for source in u.src:
                direct[source] = max(direct.get(source, 1), windows)
    return found


def with_values_kept(body: UOp) -> UOp:
    """The body with those values CONTIGUOUS."""
    kept = set(read_too_often(body))
    if not kept:
        return body
    made: Dict[UOp, UOp] = {}
    for u in body.toposort(enter_calls=False):
        new = u.replace(src=tuple(made.get(s, s) for s in u.src))
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
