"""kiln.served, awaited: what kiln.aio's clients have of models.

    model = await client.model("minilm")
    outputs = await model.infer({"input_ids": ids, "attention_mask": mask})
    async with model.stream() as stream:
        answers = await asyncio.gather(*(stream.infer({"x": part}) for part in parts))

A task that is cancelled cancels its call at the server; of a stream, it gives its answer up, and the stream goes on.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, AsyncIterator, Callable, Mapping, Optional, Sequence, Type

import grpc

from kiln.errors import KilnError
from kiln.handles import OfItsProcess
from kiln.help import describe
from kiln.served.models import INFER as UNARY, ModelLike
from kiln.served.line import Due, Line, fail_all
from kiln.served.streams import INFER, begun, broken, cancelled, closed, unanswered
from kiln.served.tensors import Ask, Outputs, SequenceId, streamed_id
from kiln.waiting import awaited

__all__ = ["Model", "Stream"]


class Model(ModelLike):
    """kiln.served.Model, awaited; made by kiln.aio.Client.model().

    `name`, `version`, `versions`; `inputs` and `outputs` are a Tensor each, in the model's order.
    """

    async def ready(self) -> bool:
        """Whether it, or the version that was asked for, can be asked now."""
        return await awaited(self._ready())

    async def infer(self, inputs: Mapping[str, Any], outputs: Sequence[str] = (), *, timeout: Optional[float] = None,
                    sequence: Optional[SequenceId] = None, start: bool = False, end: bool = False, id: str = "") -> Outputs:
        """The outputs by name, or those that are asked for, as arrays; kiln.served.Model.infer says what the rest is.

        Raises InvalidArgument, whose `field` names the input that does not fit; NotFound where the model or the sequence
        is not there any more; ResourceExhausted, DeadlineExceeded, and what the server says.
        """
        return await awaited(self._infer(inputs, Ask(outputs, sequence, start, end, id), timeout))

    def stream(self, *, timeout: Optional[float] = None) -> "Stream":
        """Many requests on their way at a time, by one call: `async with model.stream() as stream`."""
        return Stream(self._connection, self._request, timeout)

    def _ask(self, message: bytes, timeout: Optional[float]) -> Any:
        connection = self._connection
        return connection.finish(connection.open(UNARY, message, timeout, raw_request=True, raw_response=True))


class Stream(OfItsProcess):
    """kiln.served.Stream, awaited; made by Model.stream()."""

    def __init__(self, connection: Any, request: Callable[[Mapping[str, Any], Ask], bytes], timeout: Optional[float]):
        self._connection, self._request = connection, request
        self._numbers = itertools.count(1)
        self._line = Line()
        self._loop = asyncio.get_running_loop()
        self._alarm: Optional[asyncio.TimerHandle] = None
        self._sent: "asyncio.Queue[Optional[bytes]]" = asyncio.Queue()
        self._closed = False
        self._failure: Optional[Callable[[], KilnError]] = None
        stub = connection.stub(INFER, raw_request=True, raw_response=True)
        self._call = begun(connection, stub, self._messages(), timeout=timeout)
        self._reader = self._loop.create_task(self._read())

    async def infer(self, inputs: Mapping[str, Any], outputs: Sequence[str] = (), *, timeout: Optional[float] = None,
                    sequence: Optional[SequenceId] = None, start: bool = False, end: bool = False, id: str = "") -> Outputs:
        """A request, as Model.infer takes it, and its answer; tasks that begin in a row are in this order.

        What fails is raised here, and ends nothing else. The server tells it as a text: such a KilnError has no code.
        `timeout` counts from when the server begins with it, at the server and here: without an answer, it is
        DeadlineExceeded.
        """
        timeout = self._connection.timeout if timeout is None else timeout
        ask = Ask(outputs, sequence, start, end, id or str(next(self._numbers)), timeout)
        message = self._request(inputs, ask)
        answer: "asyncio.Future[Outputs]" = self._loop.create_future()
        if self._closed:
            raise closed()
        if self._failure is not None:
            raise self._failure()
        self._line.append(Due(answer, ask, len(message), self._loop.time()))
        self._watch()
        self._sent.put_nowait(message)
        return await answer

    async def _messages(self) -> AsyncIterator[bytes]:
        while (message := await self._sent.get()) is not None:
            yield message

    async def close(self) -> None:
        """Returns when all that was asked for has been answered, or its time is up. Twice is once.

        A task that is cancelled here leaves the stream to go on: cancel() ends it.
        """
        self._closed = True
        self._sent.put_nowait(None)
        self._leave()
        await asyncio.wait({self._reader})  # whose end it does not become, as that of `await self._reader`

    async def cancel(self) -> None:
        """Ends it at once: what has not been answered raises Cancelled."""
        self._closed = True
        self._call.cancel()
        await asyncio.wait({self._reader})

    async def __aenter__(self) -> "Stream":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Any) -> None:
        if kind is not None:
            return await self.cancel()
        try:
            await self.close()
        except asyncio.CancelledError:
            self._call.cancel()
            raise

    def _leave(self) -> None:
        """Ends the call once the stream is closed and every answer that is still to come has timed out."""
        if self._closed and self._line.given_up:
            self._call.cancel()

    def _watch(self) -> None:
        """There may be a deadline that no alarm is for."""
        end = self._line.deadline
        if end is None or (self._alarm is not None and self._alarm.when() <= end):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._loop.call_at(end, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        due = self._line.late(self._loop.time())
        if due is not None:
            due.give_up()
            self._leave()
        self._watch()

    async def _read(self) -> None:
        failure: Callable[[], KilnError] = unanswered
        try:
            async for message in self._call:
                due = self._line.answered(streamed_id(message), self._loop.time())
                self._watch()
                if due is not None:
                    try:
                        self._connection.count(INFER, due.sent, len(message))
                    finally:  # it is in the line no more
                        due.take(message)
        except asyncio.CancelledError:
            failure = cancelled
        except grpc.RpcError as error:
            failed = error
            failure = lambda: self._connection.failure(failed)  # noqa: E731: of each request, one of its own
        except Exception as error:
            failure = broken(error)
        finally:
            self._call.cancel()  # of one that has ended, nothing
            self._failure = failure
            self._sent.put_nowait(None)  # who reads requests, a task of gRPC's, ends too
            if self._alarm is not None:
                self._alarm.cancel()
            fail_all(self._line.rest(), failure)


describe({name: globals()[name] for name in __all__}, "served.aio.")
