"""Calls of programs in a row, recorded once and replayed in one round trip.

    recording = client.record([
        (scale, [kiln.Memory(0)]),                    # in place, in the first buffer
        (add, [kiln.Memory(1), kiln.Memory(0), kiln.Memory(0, 4096)]),
    ])
    recording(x, y)                                   # what Memory(0) and Memory(1) are now

A recorded program stores to its parameters (Graph.update); results that would be new
memory have no place here. A parameter on several devices is a memory on each of them:
[kiln.Memory(0), kiln.Memory(1)]. The server keeps recordings as it keeps programs; what it
has forgotten is recorded again, unasked. RecordingLike is what kiln.aio shares.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from kiln import commands, encode
from kiln.buffers import BufferLike
from kiln.transport.connection import Connection
from kiln.dtypes import integer64
from kiln.errors import InvalidArgument, KilnError
from kiln.handles import Single
from kiln.program import At, ProgramLike
from kiln.v1 import kernel_service_pb2 as pb
from kiln.waiting import Waits, blocking

_RECORD, _REPLAY, _COMPILE = ("KernelService." + name for name in ("RecordSequence", "ReplaySequence", "Compile"))


class Memory(NamedTuple):
    """Where a recorded program's parameter lies: byte `offset` of a replay's buffer of this number."""

    buffer: int
    offset: int = 0


class Integer(NamedTuple):
    """The value of a recorded program's variable: a replay's integer of this number."""

    number: int


# What a parameter is: memory or, on several devices, one for each of them, in their order.
Place = Union[Memory, Sequence[Memory]]
# What a step gives a program: by slot or by name; or, for parameters alone, in ascending order of slot.
Arguments = Union[Mapping[Union[int, str], Union[Place, Integer, int]], Sequence[Place]]
Steps = Sequence[Tuple[ProgramLike, Arguments]]


def request_of(device: str, steps: Steps) -> Tuple[pb.RecordSequenceRequest, List[ProgramLike]]:
    """What records `steps`, and the programs in its order."""
    request = pb.RecordSequenceRequest(device=device)
    numbers: Dict[int, int] = {}
    programs: List[ProgramLike] = []
    for program, arguments in steps:
        name = program.device or program._connection.devices[0]
        if not programs:
            request.device = name
        if name != request.device:
            raise InvalidArgument("a recording of programs on %s and on %s" % (request.device, name),
                                  code="BAD_ARGUMENT", remedy="record each device's calls apart")  # fmt: skip
        number = numbers.setdefault(id(program), len(programs))
        if number == len(programs):
            programs.append(program)
            request.programs.add(graph_hash=program.hash, options=program.options)
        step = request.steps.add(program=number)
        for slot, value in _by_slot(program, arguments):
            argument = step.arguments.add(slot=slot)
            if isinstance(value, Memory):
                argument.memory.buffer, argument.memory.offset = value
            elif isinstance(value, (list, tuple)) and not isinstance(value, Integer):
                for share in value:
                    if not isinstance(share, Memory):
                        raise InvalidArgument("slot %d has %r among its shares" % (slot, share), code="BAD_ARGUMENT",
                                              remedy="give a Memory for each device")  # fmt: skip
                    argument.shards.memory.add(buffer=share.buffer, offset=share.offset)
            elif isinstance(value, Integer):
                argument.integer = value.number
            else:
                argument.constant = integer64(value, "a constant")
    return request, programs


def _by_slot(program: ProgramLike, arguments: Arguments) -> List[Tuple[int, Any]]:
    if not isinstance(arguments, Mapping):
        return list(program._slots(arguments, {}).items())
    named = {key: value for key, value in arguments.items() if isinstance(key, str)}
    numbered = [(key, value) for key, value in arguments.items() if not isinstance(key, str)]
    return numbered + list(program._slots((), named).items())


class RecordingLike(Single):
    """`hash` (32 bytes), `buffers` (kiln.v1.RecordedBuffer: what each must be), `integers` (how many), `launches`."""

    def __init__(self, connection: Any, request: pb.RecordSequenceRequest, programs: Sequence[ProgramLike],
                 recorded: pb.RecordSequenceResponse):
        self._connection = connection
        self._record_request = request
        self._programs = list(programs)
        self.hash: bytes = recorded.recording
        self.buffers: Sequence[pb.RecordedBuffer] = recorded.buffers
        self.integers: int = recorded.integers
        self.launches: int = recorded.launches
        self._prefix = encode.recording_field(self.hash)

    def __repr__(self) -> str:
        return "<Recording %s: %d calls, %d buffers, %d integers>" % (
            self.hash.hex()[:8], len(self._record_request.steps), len(self.buffers), self.integers)  # fmt: skip

    def _request(self, memory: Sequence[Union[BufferLike, At]], integers: Sequence[int], timing: bool) -> bytes:
        places = []
        for item in memory:
            if isinstance(item, At):
                places.append((item.buffer.handle, item.offset))
            elif isinstance(item, BufferLike):
                places.append((item.handle, 0))
            else:
                raise InvalidArgument("a recording runs on Buffers, not on %s" % type(item).__name__,
                                      code="BAD_ARGUMENT", remedy="client.buffer(array) makes one")  # fmt: skip
        pieces = [self._prefix, *encode.replayed_memory(places)]
        pieces += encode.replayed_integers([integer64(value, "an integer") for value in integers])
        if timing:
            pieces.append(encode.REPLAY_TIMING)
        return b"".join(pieces)

    def _run(self, memory: Sequence[Union[BufferLike, At]], integers: Sequence[int], timing: bool,
             timeout: Optional[float]) -> Waits[pb.Timing]:
        request = self._request(memory, integers, timing)
        connection = self._connection
        as_command = connection.pipeline.on and timeout is None and connection.timeout is None
        if not as_command:
            yield connection.settle(_REPLAY)  # what went wrong before is not to be taken for what this lacks
        try:
            return (yield from self._answer(request, as_command, timeout))
        except KilnError as error:
            if error.code != "NEED_GRAPH" or not error.own:
                raise
            yield from self._again()
            return (yield from self._answer(request, as_command, timeout))

    def _answer(self, request: bytes, as_command: bool, timeout: Optional[float]) -> Waits[pb.Timing]:
        if as_command:
            response, _ = yield from self._connection._asked(_REPLAY, commands.replay(request))
            return response.replayed.timing
        return (yield self._connection.send(_REPLAY, request, timeout)).timing

    def _again(self) -> Waits[None]:
        """For a server that has forgotten the recording, and perhaps its programs."""
        try:
            yield self._connection.call(_RECORD, self._record_request)
        except KilnError as error:
            if error.code != "NEED_GRAPH" or not error.own:
                raise
            device = self._record_request.device
            for program in self._programs:
                request = pb.CompileRequest(graph=program.graph, device=device, options=program.options)
                yield self._connection.call(_COMPILE, request)
            yield self._connection.call(_RECORD, self._record_request)


def split(arguments: Sequence[Any]) -> Tuple[List[Any], List[int]]:
    """A call's buffers and its integers, each in their order."""
    memory: List[Any] = []
    integers: List[int] = []
    for item in arguments:
        if isinstance(item, (int, np.integer)):
            integers.append(int(item))
        else:
            memory.append(item)
    return memory, integers


class Recording(RecordingLike):
    """Made by Client.record(). Threads: any."""

    _connection: Connection

    def __call__(self, *arguments: Any, timeout: Optional[float] = None) -> None:
        """Runs the calls on these Buffers or At(buffer, offset), and with these integers, in the order of their numbers.

        A buffer has at least the bytes that `buffers` says, of whatever dtype. Two may be
        one memory as long as no call writes what it also reads under another name. Raises
        InvalidArgument (BUFFER_SIZE_MISMATCH, MISSING_ARGUMENT, …), and what a call may raise.
        """
        self.run(*split(arguments), timeout=timeout)

    def run(self, memory: Sequence[Union[BufferLike, At]], integers: Sequence[int] = (), *, timing: bool = False,
            timeout: Optional[float] = None) -> pb.Timing:
        """The same; with the server's timing if asked."""
        return blocking(self._run(memory, integers, timing, timeout))


def record(connection: Connection, steps: Steps) -> Recording:
    request, programs = request_of(connection.device, steps)
    return Recording(connection, request, programs, connection.call(_RECORD, request))
