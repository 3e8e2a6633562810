"""Calls that a TinyJit captured, as one recording: one round trip a step.

A recording is for one device. On several each has its own, up to where memory is copied
from one to another; that is the server's to do, and what follows it is recorded anew.

tinygrad names memory by UOps: a BUFFER, or a PARAM for what comes anew with each step,
and views of these. In a recording each BUFFER and each PARAM is one memory, whole, and
a view is an offset in it. So buffers may share memory in any way that tinygrad thinks
of: arenas, views of weights, a result that is the next step's input.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from tinygrad.device import Buffer, MultiBuffer
from tinygrad.uop.ops import Ops, UOp

import kiln
from kiln.tinygrad import server
from kiln.tinygrad.memory import Memory, transfer
from kiln.tinygrad.words import NotExpressible

# Memory that stays, or a PARAM's slot and which of its devices.
Source = Union[Buffer, Tuple[int, Optional[int]]]


def storage_on(argument: UOp, lane: int) -> Tuple[UOp, Optional[int]]:
    """The BUFFER or PARAM of an argument on the device of this number, and which of its parts that is."""
    part: Optional[int] = lane
    while argument.op not in (Ops.BUFFER, Ops.PARAM):
        if argument.op is Ops.MSTACK and part is not None:
            argument, part = argument.src[part], None
        elif argument.op is Ops.MSELECT:
            argument, part = argument.src[0], argument.arg
        elif argument.src:
            argument = argument.src[0]
        else:
            raise NotExpressible("jit: memory of %s" % argument.op.name)
    return argument, part


def part_of(buffer: Any, part: Optional[int]) -> Buffer:
    return buffer.bufs[part or 0] if isinstance(buffer, MultiBuffer) else buffer


class Place(NamedTuple):
    """Memory of a replay: of a source, from byte `offset` on."""

    source: Source
    offset: int
    key: Any  # the same for the same source

    def opaque(self, input_uops: Sequence[UOp]) -> Memory:
        memory = _opaque(self.source, input_uops)
        return Memory(memory.buffer, memory.offset + self.offset)


def place_of(input_uops: Sequence[UOp], argument: UOp, buffer: Buffer, lane: int = 0) -> Place:
    """Where `buffer`, which is `argument` on the device of this number, lies in a replay's memory."""
    opaque: Memory = buffer.ensure_allocated()._buf
    storage, part = storage_on(argument, lane)
    source: Source
    if storage.op is Ops.PARAM:
        given = input_uops[storage.arg.slot].buffer
        part = part if isinstance(given, MultiBuffer) else None
        whole = part_of(given, part)
        source = key = (storage.arg.slot, part)
    else:
        source = whole = buffer.base
        key = id(whole)
    first: Memory = whole.ensure_allocated()._buf
    if opaque.buffer is not first.buffer or opaque.offset < first.offset:
        raise NotExpressible("jit: more than a view of an input")
    return Place(source, opaque.offset - first.offset, key)


class Recorder:
    """Of one device."""

    def __init__(self, input_uops: Sequence[UOp]):
        self._input_uops = input_uops
        self._steps: List[Tuple[kiln.Program, Dict[int, Any]]] = []
        self._numbers: Dict[Any, int] = {}
        self._sources: List[Source] = []
        self._names: Dict[str, int] = {}

    def memory(self, argument: UOp, buffer: Buffer, lane: int = 0) -> kiln.Memory:
        """Where `buffer`, which is `argument` on that device, lies in a replay's memory."""
        place = place_of(self._input_uops, argument, buffer, lane)
        number = self._numbers.setdefault(place.key, len(self._sources))
        if number == len(self._sources):
            self._sources.append(place.source)
        return kiln.Memory(number, place.offset)

    def integer(self, name: str) -> kiln.Integer:
        return kiln.Integer(self._names.setdefault(name, len(self._names)))

    def add(self, program: kiln.Program, arguments: Dict[int, Any]) -> None:
        """Adds a call; its arguments by slot, made by memory() and integer()."""
        self._steps.append((program, arguments))

    def finish(self) -> "Replay":
        return Replay(server.client().record(self._steps), self._sources, list(self._names))


class Replay:
    def __init__(self, recording: kiln.Recording, sources: Sequence[Source], names: Sequence[str]):
        self._recording, self._sources, self._names = recording, sources, names

    def run(self, input_uops: Sequence[UOp], var_vals: Mapping[str, int], wait: bool = False) -> float:
        """Seconds on the device if `wait`."""
        memory = [kiln.At(*_opaque(source, input_uops)) for source in self._sources]
        timing = self._recording.run(memory, [var_vals[name] for name in self._names], timing=wait)
        return timing.device_us * 1e-6 if wait else 0.0


class Transfer:
    """A copy from one of the server's devices to another."""

    def __init__(self, target: Place, source: Place, count: int):
        self._target, self._source, self._count = target, source, count

    def run(self, input_uops: Sequence[UOp], var_vals: Mapping[str, int], wait: bool = False) -> float:
        transfer(self._target.opaque(input_uops), self._source.opaque(input_uops), self._count)
        return 0.0


class Recorders:
    """Calls in a row, on any of the server's devices."""

    def __init__(self, input_uops: Sequence[UOp]):
        self.input_uops = input_uops
        self._done: List[Union[Replay, Transfer]] = []
        self._open: Dict[str, Recorder] = {}

    def on(self, device: str) -> Recorder:
        """For a call on this one; what it records runs behind all that was asked for before."""
        if device not in self._open:
            self._open[device] = Recorder(self.input_uops)
        return self._open[device]

    def transfer(self, target: Place, source: Place, count: int) -> None:
        self._close()
        self._done.append(Transfer(target, source, count))

    def _close(self) -> None:
        self._done += [recorder.finish() for recorder in self._open.values()]
        self._open.clear()

    def finish(self) -> List[Union[Replay, Transfer]]:
        """What a replay runs, one after the other."""
        self._close()
        return self._done


def _opaque(source: Source, input_uops: Sequence[UOp]) -> Memory:
    buffer = source if isinstance(source, Buffer) else part_of(input_uops[source[0]].buffer, source[1])
    return buffer.ensure_allocated()._buf
