"""Functions of tinygrad's, put in the place of their calls.

A FUNCTION gives values, a precompiled one is a CALL of a SINK that stores them to its last
arguments. In either body slot i is the call's argument i, and belongs to that body alone.
"""

from __future__ import annotations

from typing import Dict, List, Tuple

from tinygrad.dtype import AddrSpace
from tinygrad.schedule.rangeify import pm_mops
from tinygrad.uop.ops import Ops, UOp, graph_rewrite


def is_kernel_call(u: UOp) -> bool:
    """Whether `u` runs a kernel written by hand: one whose body is no tensor graph."""
    return u.op is Ops.CALL and u.src[0].op is Ops.SINK and u.src[0].arg is not None


def kernel_outputs(kernel: UOp) -> List[int]:
    """The slots that a kernel stores to."""
    targets = set()
    for u in kernel.toposort():
        if u.op is Ops.STORE:
            target = u.src[0]
            while target.op not in (Ops.BUFFER, Ops.PARAM) and target.src:
                target = target.src[0]
            targets.add(target)
    return sorted(target.arg.slot for target in targets if target.op is Ops.PARAM)


def over_effects(kernel: UOp) -> UOp:
    """A kernel whose SINK stands over effects alone: in place of a state of memory, what made it so."""
    if all(source.op is not Ops.AFTER for source in kernel.src):
        return kernel
    effects: List[UOp] = []
    for source in kernel.src:
        last: List[UOp] = []
        while source.op is Ops.AFTER:
            last = [*source.src[1:], *last]
            source = source.src[0]
        effects += last or [source]
    needed = {u for effect in effects for source in effect.src for u in source.toposort()}
    return kernel.replace(src=tuple(dict.fromkeys(effect for effect in effects if effect not in needed)))


def as_kernel(kernel: UOp) -> UOp:
    """A kernel as the server takes them: of effects alone, and indices are into storage, not into its views."""
    return over_effects(graph_rewrite(kernel, pm_mops, bottom_up=True))


def is_precompiled(u: UOp) -> bool:
    """Whether `u` calls a tensor graph that stores its results."""
    return u.op is Ops.CALL and u.src[0].op is Ops.SINK and u.src[0].arg is None


def _with_arguments(body: UOp, arguments: List[UOp]) -> UOp:
    params = {p: arguments[p.arg.slot] for p in body.toposort(enter_calls=False) if p.op is Ops.PARAM and p.arg.slot >= 0}
    return body.substitute(params, walk=True)


def without_precompiled(sink: UOp) -> UOp:
    """The graph with what precompiled functions store where they were called."""
    while True:
        calls = [u for u in sink.toposort(enter_calls=False) if is_precompiled(u)]
        if not calls:
            return sink
        # The first one has no other in its arguments.
        call = calls[0]
        stored = _with_arguments(call.src[0], list(call.src[1:])).src
        waiting: Dict[UOp, UOp] = {}
        for u in sink.toposort(enter_calls=False):
            if call in u.src:
                at = u.src.index(call)
                waiting[u] = u.replace(src=(*u.src[:at], *stored, *u.src[at + 1 :]))
        sink = sink.substitute(waiting, walk=True)


def _is_memory(u: UOp) -> bool:
    return u.op is Ops.BUFFER and u.addrspace is AddrSpace.GLOBAL and not u.is_variable


def with_memory_of_its_own(body: UOp, count: int) -> Tuple[UOp, Tuple[UOp, ...]]:
    """The body with BUFFERs that functions made for themselves as arguments, from number `count` on; and those."""
    if any(map(_is_memory, body.toposort())):
        body = without_functions(body)
    own = list(filter(_is_memory, body.toposort(enter_calls=False)))
    params = {u: u.param_like(count + i) for i, u in enumerate(own)}
    return body.substitute(params, walk=True) if own else body, tuple(own)


def without_functions(sink: UOp) -> UOp:
    """The graph with FUNCTIONs' values where they were read."""
    while True:
        reads = [u for u in sink.toposort(enter_calls=False) if u.op is Ops.GETTUPLE and u.src[0].op is Ops.FUNCTION]
        if not reads:
            return sink
        values = {u: _with_arguments(u.src[0].src[0].src[u.arg], list(u.src[0].src[1:])) for u in reads}
        sink = sink.substitute(values, walk=True)
