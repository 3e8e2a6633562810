"""Level L: tinygrad optimizes and linearizes each kernel, Kiln compiles the list.

A renderer's "source" is the list as a kiln.v1.Graph in base64, its "binary" the graph's
bytes: compiled by the server at first call, and from then on called by hash.
"""

from __future__ import annotations

import base64
import functools
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from tinygrad.device import Compiler, Program
from tinygrad.dtype import AddrSpace
from tinygrad.renderer import Renderer
from tinygrad.uop.ops import Ops, UOp

import kiln
from kiln.tinygrad import server
from kiln.tinygrad.graphs import Writer
from kiln.tinygrad.memory import Memory, copied, share_bytes
from kiln.tinygrad.stats import counters
from kiln.tinygrad.words import DTYPES, PLAIN, NotExpressible
from kiln.v1 import graph_pb2 as pb

# What one UOp may take besides its own node, and a list must name.
_STEPS = (pb.CAST, pb.RANGE, pb.SPECIAL)

# Variables stand behind the buffers: tinygrad gives them no slot of their own.
FIRST_VARIABLE_SLOT = 1 << 15


def slot_of_variables(uops: Sequence[UOp]) -> Tuple[Callable[[UOp], int], List[UOp]]:
    """A PARAM's slot in the graph, and the variables in the order in which tinygrad passes values."""
    named = {u.arg.name: u for u in uops if u.op is Ops.PARAM and u.arg.addrspace is AddrSpace.ALU}
    ordered = sorted(named.values(), key=lambda u: (u.arg.slot, u.arg.name))
    slots = {u.arg.name: FIRST_VARIABLE_SLOT + i for i, u in enumerate(ordered)}

    def slot_of(u: UOp) -> int:
        return slots[u.arg.name] if u.arg.addrspace is AddrSpace.ALU else u.arg.slot

    return slot_of, ordered


class LinearCompiler(Compiler):
    def compile(self, src: str) -> bytes:
        return base64.b64decode(src)


class KilnRenderer(Renderer):
    """What tinygrad's lowering may assume of Kiln: everything docs/ir.md defines, one work item at a time."""

    has_local = False
    has_shared = False
    has_threads = False
    supports_float4 = True
    global_max = None
    code_for_op = {op: (lambda: None) for op in PLAIN if op not in (Ops.NEG, Ops.SUB, Ops.FDIV, Ops.MULACC, Ops.CMPEQ,
                                                                    Ops.THREEFRY, Ops.POW, Ops.FLOORDIV, Ops.FLOORMOD)}
    compiler = LinearCompiler()

    def supported_dtypes(self) -> set:
        return set(DTYPES)

    def render(self, uops: List[UOp]) -> str:
        """Unimplemented for what Kiln has no words for: there is no level below this one."""
        try:
            return self._written(uops)
        except NotExpressible as reason:
            raise kiln.Unimplemented("a kernel of tinygrad's: %s" % reason, code="UNSUPPORTED_OP",
                                     remedy="write it without") from None  # fmt: skip

    def _written(self, uops: List[UOp]) -> str:
        writer = Writer(slot_of_variables(uops)[0])
        listed: List[int] = []
        for u in uops:
            if u.op is not Ops.SINK:
                # What one UOp takes several nodes for stands before it, as sources do.
                first = len(writer.graph.nodes)
                number = writer.write(u)
                listed += [n for n in range(first, number) if writer.graph.nodes[n].op in _STEPS] + [number]
        writer.node(pb.LINEAR, listed)
        return base64.b64encode(writer.graph.SerializeToString()).decode()


@functools.cache
def program_of(graph: bytes, device: str) -> kiln.Program:
    """A kernel's program on one of the server's devices."""
    return server.compile(pb.Graph.FromString(graph), device)


class KilnProgram(Program):
    def __init__(self, dev: Any, obj: Any):
        super().__init__(dev, obj)
        self.program = program_of(obj.lib, dev.server_device)
        self.slots = [row.slot for row in self.program.signature.parameters]
        self.variables = {row.name: row.slot for row in self.program.signature.variables}
        # Variables come last, in an order of tinygrad's.
        self._names = [name for name, *_ in obj.signature]

    def _apart(self, memories: Sequence[Memory]) -> Sequence[Memory]:
        """With a copy of what is only read where it shares bytes with what is written.

        tinygrad may pass a buffer and a part of it; a program takes its arguments for strangers.
        """
        if len({id(memory.buffer) for memory in memories}) == len(memories):
            return memories
        both = list(zip(self.program.signature.parameters, memories))
        written = [(row.bytes, memory) for row, memory in both if row.written]
        return [
            copied(memory, row.bytes)
            if not row.written and any(share_bytes(memory, row.bytes, other, size) for size, other in written)
            else memory
            for row, memory in both
        ]

    def __call__(self, *bufs: Any, global_size: Tuple[int, ...] = (1, 1, 1), local_size: Tuple[int, ...] = (1, 1, 1),
                 vals: Tuple[int, ...] = (), wait: bool = False, timeout: Optional[int] = None) -> Optional[float]:
        values: Dict[int, Any] = {}
        for slot, memory in zip(self.slots, self._apart(bufs)):
            values[slot] = kiln.At(memory.buffer, memory.offset)
        for name, value in zip(self._names[len(self._names) - len(vals) :], vals):
            values[self.variables[name]] = value
        run = self.program.run(values, out="buffers", timing=wait)
        counters.kernels += 1
        return run.timing.device_us * 1e-6 if wait else None
