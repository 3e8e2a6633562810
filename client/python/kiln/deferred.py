"""A program's call that is sent when it is known what is wanted of it.

What runs for less time than a message travels is not sent at once. If its results are the next thing
that is read, the call brings them along: one flight, and no memory on the device. If anything else is
asked for first, the call goes before it, as a command whose results stay on the device. So all takes
effect in the order in which it was asked for, and nobody can tell, but by a clock.

One call of a client waits at a time (Pipeline.waiting).
"""

from __future__ import annotations

import weakref
from typing import Any, List, Mapping, Optional, Sequence

import numpy as np

from kiln import arrays, commands, encode
from kiln.buffers import Buffer, type_request
from kiln.errors import ConnectionLost, KilnError, Unavailable
from kiln.transport import trace
from kiln.waiting import blocking

# What may wait: programs expected to run for so many nanoseconds, with so many bytes of results and of arguments.
SHORT = 200_000
SMALL = 64 << 10
# A result that is here goes along with a call that takes it, if it has so many bytes; else to the device, once.
ALONG = 4 << 10

_EXECUTE = "KernelService.Execute"


class Deferred:
    """Of Program._put_off. Its results are Buffers that ask it for their handle, or their content. Threads: any."""

    __slots__ = ("_program", "_connection", "_pipeline", "_arguments", "_bound", "_results", "_asked", "_answer", "_last",
                 "_here", "_failed")  # fmt: skip

    def __init__(self, program: Any, values: Mapping[int, Any]):
        """Writes the request; called by the pipeline, under its lock, when all before it is sent."""
        self._program, self._connection = program, program._connection
        self._pipeline = self._connection.pipeline
        # Arrays are copied into it: who gave them may change them.
        self._arguments = b"".join(program._request(values, False, False)[1:])
        # Buffers that nobody else may have any more: their Free would have this sent.
        self._bound: Sequence[Any] = [value for value in values.values() if isinstance(value, Buffer)]
        self._results: List[Any] = []
        self._asked = False
        self._answer: Optional[Any] = None
        self._last = 0
        self._here: Optional[List[np.ndarray]] = None
        self._failed: Optional[KilnError] = None

    def buffers(self) -> List[Buffer]:
        """The results."""
        made = [Buffer._of_deferred(self._connection, self, *kind) for kind in self._program._kinds]
        self._results = [weakref.ref(buffer) for buffer in made]
        return made

    # -- its end as a command

    def send_off(self) -> None:
        """Under the pipeline's lock, and no longer waiting. KilnError if the stream has ended."""
        names = [self._pipeline.name() for _ in self._results]
        command = commands.execute(self._request(False), names, "")
        try:
            self._pipeline.send(command)
        except KilnError as error:
            self._failed, self._asked = error, True
            raise
        self._connection.count(_EXECUTE, len(command), 0)
        self._connection.live.update(names)
        for found, name in zip(self._results, names):
            buffer = found()
            if buffer is not None and buffer._later is self:
                buffer._handle, buffer._later = name, None  # in this order: others look without the lock
            else:
                self._connection.free_later(name)
        self._bound = ()

    def _request(self, inline: bool) -> List[encode.Bytes]:
        pieces = [self._program._begin(inline, False), self._arguments]
        return pieces if self._program._is_known() else pieces + encode.graph_field(self._program._graph)

    # -- its end with its results

    def content(self, buffer: Buffer) -> Optional[np.ndarray]:
        """A result's, not to be written; None if it is on the device by now. KilnError as the call failed."""
        if self._here is None:
            if self._connection.closed:  # also of a forked child, where the lock may be held for ever
                raise self._connection.closed_error()
            with self._pipeline.order:
                if self._pipeline.waiting is self:
                    self._ask()
                elif not self._asked:
                    return None
            self._here = self._received()
        at = next(at for at, found in enumerate(self._results) if found() is buffer)
        return self._here[at]

    def _ask(self) -> None:
        self._pipeline.waiting, self._asked = None, True
        if self._moved:
            return
        command = commands.execute(self._request(True), (), "")
        try:
            self._answer = self._pipeline.ask(command)
        except KilnError as error:
            self._failed = error
            return
        self._last = self._pipeline.last
        self._connection.count(_EXECUTE, len(command), 0)

    @property
    def _moved(self) -> bool:
        """Whether the client has gone on to another server meanwhile."""
        return self._connection.pipeline is not self._pipeline

    def _received(self) -> List[np.ndarray]:
        if self._failed is not None:
            raise self._failed
        try:
            response = self._asked_again() if self._answer is None else self._connection.answered(self._answer).executed
        except KilnError as error:
            if self._answer is None or not self._may_ask_again(error):
                self._failed = error
                raise
            response = self._asked_again()
        self._bound = ()
        return [arrays.from_bytes(one.tensor.data, dtype, shape)
                for one, (_, _, dtype, shape) in zip(response.results, self._program._kinds)]  # fmt: skip

    def _may_ask_again(self, error: KilnError) -> bool:
        """Whether the call would still do the same: its memory is as it was, or there is none."""
        if error.code == "NEED_GRAPH" and error.own:
            return not self._bound or self._pipeline.last == self._last
        if self._bound or not isinstance(error, Unavailable) or not self._connection.others():
            return False
        lost = isinstance(error, ConnectionLost) and not error.gone  # the next try tells more
        return lost or blocking(self._connection._elsewhere(error, self._pipeline))

    def _asked_again(self) -> Any:
        program, connection = self._program, self._connection
        pieces = [program._begin(True, False), self._arguments, *encode.graph_field(program._graph)]
        response = blocking(program._answer(pieces, [] if connection.pipeline.on else None, None, ""))
        program._learned()
        return response

    # -- a result that is needed on the device

    @property
    def here(self) -> bool:
        return self._here is not None

    def place(self, buffer: Buffer) -> None:
        """From here on the buffer has a handle."""
        if self._connection.closed:
            raise self._connection.closed_error()
        with self._pipeline.order:
            if self._pipeline.waiting is self and not self._moved:
                self._pipeline.send_off()
        if buffer._later is not self:
            return
        content = self.content(buffer)
        with self._pipeline.order:
            if buffer._later is not self or content is None:
                return
            with trace.traceparent(None):  # a command: a call would wait for frees, which wait for this lock
                memory = self._connection.allocate(type_request(buffer.device, buffer.shape, buffer.dtype))
            self._connection.live.add(memory.handle)
            buffer._handle, buffer._later = memory.handle, None
            blocking(self._connection._write_small(memory.handle, 0, arrays.byte_view(content)))
