"""The body of a CALL as a program on the server: written once, compiled once, run often."""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from tinygrad.device import MultiBuffer
from tinygrad.uop.ops import Ops, UOp

import kiln
from kiln.tinygrad import estimates, server
from kiln.tinygrad.aliases import storage_of, without_aliases
from kiln.tinygrad.calls import is_kernel_call, kernel_outputs
from kiln.tinygrad.devices import all_kiln, devices_of, is_kiln
from kiln.tinygrad.graphs import Writer
from kiln.tinygrad.shards import Piece, gather
from kiln.tinygrad.spread import spread
from kiln.tinygrad.spread_writer import SpreadWriter
from kiln.tinygrad.stats import counters
from kiln.tinygrad.views import beneath
from kiln.tinygrad.words import NotExpressible


def has_many(body: UOp) -> bool:
    """Whether a body is over a tuple of devices."""
    return any(isinstance(u.device, tuple) for u in body.toposort() if u.op in (Ops.PARAM, Ops.COPY, Ops.MSTACK))


def server_devices(body: UOp) -> Tuple[str, ...]:
    """The server's devices that a body is on."""
    placed = (Ops.PARAM, Ops.COPY, Ops.MSTACK, Ops.ALLREDUCE)
    return server.device_names(device for u in body.toposort() if u.op in placed for device in devices_of(u))


def stores_of(state: UOp) -> List[UOp]:
    """The STOREs and kernels that an AFTER waits for, earlier states' first; NotExpressible for other effects."""
    found: Dict[UOp, None] = {}
    seen, stack = set(), [state]
    while stack:
        u = stack.pop()
        if u in seen:
            continue
        seen.add(u)
        if u.op is Ops.UNSHARD:
            stack.append(u.src[0])
        elif u.op is Ops.STORE or is_kernel_call(u):
            found[u] = None
        elif u.op is Ops.AFTER:
            state, *dependencies = map(beneath, u.src)
            for dependency in dependencies:
                if dependency.op not in (Ops.STORE, Ops.AFTER) and not is_kernel_call(dependency):
                    raise NotExpressible("AFTER %s" % dependency.op.name)
            stack += [state, *dependencies]
    return list(reversed(found))


def effects_of(body: UOp) -> UOp:
    """The body with STOREs for roots: results nobody asks for by value.

    What lies on the host stays a value, AFTER(PARAM, …): it was sent, and comes back. In
    the PARAM's own shape it is the PARAM, updated, and no copy of it.
    """
    roots: List[UOp] = []
    for root in body.src:
        roots += stores_of(root) if all_kiln(devices_of(root)) else [root.reshape(root.buf_uop.shape)]
    return UOp(Ops.SINK, src=tuple(dict.fromkeys(roots)))


def written_slots(body: UOp) -> FrozenSet[int]:
    """The PARAMs that the body's own STOREs, and those of kernels that it calls, go to."""
    targets: List[UOp] = []
    for u in body.toposort(enter_calls=False):
        if u.op is Ops.STORE:
            targets.append(u.src[0].buf_uop)
        elif is_kernel_call(u):
            targets += [u.src[1 + slot].buf_uop for slot in kernel_outputs(u.src[0])]
    return frozenset(target.arg.slot for target in targets if target.op is Ops.PARAM)


def read_slots(body: UOp) -> FrozenSet[int]:
    """The PARAMs whose values from before are asked for: not those that are stored to, or read only thereafter."""
    found, seen, stack = set(), set(), [body]
    while stack:
        u = stack.pop()
        if u in seen:
            continue
        seen.add(u)
        if u.op is Ops.PARAM:
            found.add(u.arg.slot)
        # What is written, or was: its own value before does not matter.
        begin = 1 if u.op in (Ops.STORE, Ops.AFTER, Ops.CALL, Ops.FUNCTION) and not u.is_bound_var else 0
        stack += u.src[begin:]
    return frozenset(found)


class Taken(NamedTuple):
    """One slot of a body's program: its row of the signature, or None for a variable, and whence its value comes."""

    slot: int
    row: Any
    argument: int  # its number
    device: int  # of a sharded argument, which part
    value: Any


class Body:
    """`written` and `read` are argument numbers. NotExpressible where Kiln has no words for the body."""

    def __init__(self, sink: UOp, arguments: Sequence[UOp]):
        self.sink = sink
        self.written = written_slots(sink)
        self.read = read_slots(sink)
        self.estimates = estimates.of_tensors(sink)
        sink, all_arguments = without_aliases(sink, arguments, sorted(self.written))
        # Buffers of which only views are arguments, each by one of them.
        self._whole = [next(i for i, a in enumerate(arguments) if not a.is_bound_var and storage_of(a) is storage)
                       for storage in all_arguments[len(arguments) :]]  # fmt: skip
        devices = server_devices(sink)
        self.device = devices[0]
        self.pieces = [Piece(i, None) for i in range(len(all_arguments))]
        writer = Writer()
        # Whether it is a program for several devices.
        self.spread = len(devices) > 1
        if self.spread:
            if not has_many(sink):
                raise NotExpressible("copies between devices")
            sink, writer = spread(sink), SpreadWriter(self.device)
        elif has_many(sink):
            sink, self.pieces = gather(sink)
        effects = effects_of(sink)
        if not effects.src:
            raise NotExpressible("an empty graph")
        writer.write(effects)
        self.graph = writer.graph
        self._program: Optional[kiln.Program] = None

    def compile(self) -> kiln.Program:
        if self._program is None:
            self._program = program = server.compile(self.graph, self.device)
            self._rows = {row.slot: row for row in program.signature.parameters}
            self._variables = {row.slot for row in program.signature.variables}
        return self._program

    def each(self, arguments: Sequence[Any]) -> Iterator[Taken]:
        """What the program takes of these arguments."""
        numbers = [*range(len(arguments)), *self._whole]
        arguments = [*arguments, *(arguments[i].base for i in self._whole)]
        for slot, piece in enumerate(self.pieces):
            row = self._rows.get(slot)
            if row is not None or slot in self._variables:
                value = arguments[piece.argument]
                yield Taken(slot, row, numbers[piece.argument], piece.device or 0,
                            value if piece.device is None else value.bufs[piece.device])  # fmt: skip

    def run(self, arguments: Sequence[Any], wait: bool = False) -> Optional[float]:
        """One Execute. Arguments: Buffers, MultiBuffers, integers for variables; seconds on the device if `wait`."""
        program = self.compile()
        values: Dict[int, Any] = {}
        host: Dict[int, memoryview] = {}
        for slot, row, _, _, value in self.each(arguments):
            if row is None:
                values[slot] = value
                continue
            if row.bytes == 0:  # tinygrad allocates no such thing
                values[slot] = np.empty(tuple(row.shape), kiln.dtype(row.dtype).numpy)
                continue
            if isinstance(value, MultiBuffer):
                values[slot] = kiln.AtShards(tuple(kiln.At(*part.ensure_allocated()._buf) for part in value.bufs))
                continue
            value.ensure_allocated()
            if is_kiln(value.device):
                values[slot] = kiln.At(*value._buf)
                continue
            data = value.as_memoryview(allow_zero_copy=True)
            values[slot] = np.frombuffer(data, kiln.dtype(row.dtype).numpy).reshape(tuple(row.shape))
            if row.written:
                host[slot] = data
        run = program.run(values, out="buffers", timing=wait)
        counters.graphs += 1
        for result, value in zip(program.signature.results, run.results):
            slot = program.signature.parameters[result.aliases].slot
            if slot not in host:  # of size 0
                continue
            array = value.numpy() if isinstance(value, kiln.Buffer) else value
            host[slot].cast("B")[:] = kiln.arrays.byte_view(array)
        return run.timing.device_us * 1e-6 if wait else None
