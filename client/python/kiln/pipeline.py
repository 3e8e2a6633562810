"""How a client's calls and its stream of commands go together.

All that can goes as a command: allocate, write, fill, copy, view, free, read, and programs.
Of these only what gives something back is waited for: reads, and results as arrays. What a
stream has no command for, is large, or has a deadline waits until the stream has come to its
end and then goes as a call. So each thread's calls take effect in the order in which it
made them.
"""

from __future__ import annotations

import itertools
import secrets
import threading
from typing import Any, Callable, List, Optional, Sequence, Tuple

from kiln import arrays, commands
from kiln.dtypes import dtype as dtype_of
from kiln.errors import Internal, KilnError, ResourceExhausted
from kiln.session import Session
from kiln.stream import SUBMIT, Answer, Stream
from kiln.transport import trace
from kiln.v1 import buffer_service_pb2, kernel_service_pb2
from kiln.waiting import Waits

# Calls that neither use nor show what commands do.
APART = frozenset(("KernelService.Compile", "KernelService.Gradient", "DebugService.Explain"))

# Data of so many bytes goes with commands; more goes better on its own, and much sooner so
# where memory is shared.
SMALL = 1 << 20
SMALL_BESIDE_SHARED_MEMORY = 64 << 10


class Pipeline:
    """A client's stream, begun when it is first needed, and anew under a new session. Threads: any."""

    def __init__(self, channel: Any, session: Session, target: str):
        self.open = False  # what can goes as a command
        self._channel, self._session, self._target = channel, session, target
        self._lock = threading.Lock()
        self._stream: Optional[Stream] = None
        # A call that is sent when it is known what is wanted of it (deferred.py). Who has the lock says what is next.
        self.order = threading.RLock()
        self.waiting: Optional[Any] = None
        # From anywhere on, so that another client's handle is none of ours.
        self._names = itertools.count((1 << 62) + secrets.randbits(61))

    @property
    def on(self) -> bool:
        """Whether what is asked for here and now goes as a command: not what is part of a trace."""
        return self.open and not trace.metadata()

    def name(self) -> int:
        """For something new."""
        return next(self._names)

    @property
    def idle(self) -> bool:
        """Whether nothing is under way, nor a failure waits to be told."""
        stream = self._stream
        return self.waiting is None and (stream is None or stream.idle)

    @property
    def ended(self) -> Optional[KilnError]:
        """Why the stream is over, if it is."""
        stream = self._stream
        return stream.ended if stream is not None else None

    @property
    def full(self) -> bool:
        stream = self._stream
        return stream is not None and stream.full

    def send(self, command: bytes) -> None:
        """KilnError if the session has ended, and what was under way with it; once."""
        with self.order:
            self.send_off()
            self._get().send(command)

    def ask(self, command: bytes) -> Answer:
        """As send(); what it gives ends with the answer."""
        with self.order:
            self.send_off()
            return self._get().ask(command)

    def send_off(self) -> None:
        """What waits goes now."""
        with self.order:
            call, self.waiting = self.waiting, None
            if call is not None:
                call.send_off()

    @property
    def last(self) -> int:
        """The number of the last command that was sent."""
        stream = self._stream
        return stream.last if stream is not None else 0

    def send_if_live(self, command: bytes) -> bool:
        """As send(), if there is a stream; else false."""
        stream = self._stream
        if stream is None or stream.ended is not None:
            return False
        try:
            with self.order:
                self.send_off()
                stream.send(command)
        except KilnError:
            return False
        return True

    def take_failure(self) -> Optional[KilnError]:
        """The first failure that nobody has been told; those after it are forgotten."""
        stream = self._stream
        return stream.take_failure() if stream is not None else None

    def _get(self) -> Stream:
        stream = self._stream
        if stream is not None and stream.ended is None:
            return stream
        with self._lock:
            stream = self._stream
            if stream is not None and stream.ended is not None and stream.untold:
                stream.untold = False
                raise stream.ended
            if stream is None or stream.ended is not None:
                stream = self._stream = Stream(self._channel, self._session, self._target, stream)
            return stream

    def close(self, timeout: Optional[float] = 5) -> None:
        """Returns when all that was sent has ended, or after `timeout`."""
        self.open = False
        if self.ended is None:
            try:
                self.send_off()
            except KilnError:  # of what nobody waits for
                pass
        if self._stream is not None:
            self._stream.close(timeout)


class Pipelined:
    """What a connection does by commands, if its pipeline is on, and by calls if not."""

    pipeline: Pipeline
    devices: List[str]  # the server's, the first first
    shared_memory: Any
    timeout: Optional[float]
    closed: bool
    call: Callable[..., Any]
    count: Callable[[str, int, int], None]
    answered: Callable[[Answer], Any]  # waits for one
    flush_frees: Callable[[Optional[float]], Any]
    closed_error: Callable[[], KilnError]
    _elsewhere: Callable[[KilnError, Pipeline], Waits[bool]]

    def small(self, data: memoryview) -> bool:
        """Whether data goes best with commands: there is little of it, and it lies in no memory that is shared."""
        if self.shared_memory is None:
            return len(data) <= SMALL
        return len(data) <= SMALL_BESIDE_SHARED_MEMORY and not self.shared_memory.holds(data)

    def busy(self, name: str = "") -> bool:
        """Whether a call by this name has commands to wait for."""
        return self.pipeline.open and not self.pipeline.idle and name not in APART

    def _settled(self, name: str = "") -> Waits[None]:
        """Returns when a call by this name has no commands to wait for."""
        if self.busy(name):
            yield from self._asked(SUBMIT, commands.FENCE)

    def _here(self) -> Waits[None]:
        """The server takes commands, or another one does."""
        if self.closed:
            raise self.closed_error()
        pipeline = self.pipeline
        if pipeline.ended is not None:
            yield from self._elsewhere(pipeline.ended, pipeline)

    def _commanded(self, name: str, command: bytes) -> Waits[None]:
        """Sends what does the same as a call by this name; waits only where very many are under way."""
        yield from self._here()
        if self.pipeline.full:
            yield from self._asked(SUBMIT, commands.FENCE)
        self.pipeline.send(command)
        self.count(name, len(command), 0)

    def _asked(self, name: str, command: bytes) -> Waits[Tuple[kernel_service_pb2.SubmitResponse, List[bytes]]]:
        """As _commanded, and waits: the answer, and the data that came with it."""
        yield from self._here()
        answer = self.pipeline.ask(command)
        response = yield self.answered(answer)
        self.count(name, len(command), response.ByteSize() + sum(map(len, answer.data)))
        return response, answer.data

    def _fence(self) -> Waits[None]:
        if self.pipeline.open:
            yield from self._asked(SUBMIT, commands.FENCE)
            error = self.pipeline.take_failure()
            if error is not None:
                raise error

    def _performed(self, name: str, request: Any) -> Waits[None]:
        """What a call of this name does: Fill, Copy, Free or a collective."""
        if self.pipeline.on:
            yield from self._commanded(name, commands.same(name, request))
        else:
            yield self.call(name, request)

    def _write_small(self, handle: int, offset: int, data: memoryview) -> Waits[None]:
        for command in commands.writes(handle, offset, data):
            yield from self._commanded("BufferService.Write", command)

    def _read_small(self, handle: int, offset: int, target: memoryview) -> Waits[None]:
        _, pieces = yield from self._asked("BufferService.Read", commands.read(handle, offset, len(target)))
        came = sum(map(len, pieces))
        if came != len(target):
            raise Internal("the server sent %d bytes of %d" % (came, len(target)))
        at = 0
        for piece in pieces:
            target[at : at + len(piece)] = piece
            at += len(piece)

    def _view(self, request: buffer_service_pb2.ViewRequest,
              device: str) -> Waits[buffer_service_pb2.BufferDescription]:
        if not self.pipeline.on or request.bytes == 0:  # 0 would mean: to the end
            return (yield self.call("BufferService.View", request)).buffer
        made = self.described(request.bytes, device, request.dtype, request.shape)
        made.view_of = request.of.handle
        yield from self._commanded("BufferService.View", commands.view(made.handle, request))
        return made

    def _allocate(self, request: buffer_service_pb2.AllocateRequest,
                  wait: bool) -> Waits[buffer_service_pb2.BufferDescription]:
        """Where memory is short, after what is on its way back has arrived."""
        try:
            return (yield from self._allocate_once(request, wait))
        except ResourceExhausted:
            yield self.flush_frees(self.timeout)
            return (yield from self._allocate_once(request, wait))

    def _allocate_once(self, request: buffer_service_pb2.AllocateRequest,
                       wait: bool) -> Waits[buffer_service_pb2.BufferDescription]:
        if not self.pipeline.on:
            return (yield self.call("BufferService.Allocate", request)).buffer
        kind, shape, size = request.type.dtype, request.type.shape, request.bytes
        if request.HasField("type"):
            size = arrays.count_of(shape) * dtype_of(kind).itemsize
        made = self.described(size, request.device, kind, shape)
        command = commands.allocate(made.handle, request)
        if size <= SMALL and made.device in self.devices and not wait:
            yield from self._commanded("BufferService.Allocate", command)
        else:  # of what may well fail it is better known at once
            yield from self._asked("BufferService.Allocate", command)
        return made

    def described(self, size: int, device: str, dtype: int,
                  shape: Sequence[int]) -> buffer_service_pb2.BufferDescription:
        """What a command makes, under a new name."""
        return buffer_service_pb2.BufferDescription(handle=self.pipeline.name(), bytes=size, dtype=dtype, shape=shape,
                                                    device=device or self.devices[0])  # fmt: skip
