"""How much work a call is, roughly: what tinygrad's GlobalCounters add up, and DEBUG=2 prints.

An operation counts once for each element that it makes, a reduction once for each that it
takes, an argument with its bytes. That is the graph as it was written, at its greatest
sizes: what Kiln then leaves out of it, such as the steps of an arange, still counts.
"""

from __future__ import annotations

import math
from typing import Iterable, Set

from tinygrad.dtype import AddrSpace
from tinygrad.renderer import Estimates
from tinygrad.uop.ops import GroupOp, Ops, UOp


def _bytes_of(params: Iterable[UOp]) -> int:
    return sum(u.max_numel() * u.dtype.itemsize for u in params if u.op is Ops.PARAM and u.addrspace is not AddrSpace.ALU)


def of_tensors(body: UOp) -> Estimates:
    """Of a tensor graph."""
    uops = list(body.toposort())
    # Without a device there is nothing but constants and sizes.
    made = sum(u.max_numel() for u in uops if u.op in GroupOp.ALU and u.device is not None)
    taken = sum(u.src[0].max_numel() for u in uops if u.op is Ops.REDUCE and u.src[0].device is not None)
    moved = _bytes_of(uops)
    return Estimates(ops=made + taken, lds=moved, mem=moved)


def of_kernel(kernel: UOp) -> Estimates:
    """Of a kernel that is loops around stores."""
    uops = list(kernel.toposort())
    indices: Set[UOp] = {v for u in uops if u.op is Ops.INDEX for index in u.src[1:] for v in index.toposort()}
    times = (
        math.prod(int(r.vmax) + 1 for r in (u.src[0] if u.op is Ops.REDUCE else u).ranges)
        for u in uops
        if u not in indices and (u.op in GroupOp.ALU or u.op is Ops.REDUCE)
    )
    moved = _bytes_of(uops)
    return Estimates(ops=sum(times), lds=moved, mem=moved)
