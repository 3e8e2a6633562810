"""Requests for one model, many on their way at a time: a call to which they are written, and from which answers are read.

    with model.stream() as stream:
        answers = [stream.infer({"x": part}) for part in parts]
        for answer in answers:
            print(answer.result()["y"])

The server runs them one after the other, and its answers come in their order. Who reads less than it sends waits:
so many requests may be without an answer, MOST.
"""

from __future__ import annotations

import collections
import itertools
import queue
import threading
from concurrent import futures
from typing import Any, Callable, Deque, Mapping, NamedTuple, Optional, Sequence, Type

import grpc

from kiln.errors import Cancelled, FailedPrecondition, Internal, KilnError
from kiln.handles import OfItsProcess
from kiln.served.tensors import Ask, Outputs, SequenceId, streamed
from kiln.transport import trace

INFER = "GRPCInferenceService.ModelStreamInfer"
MOST = 64


class Due(NamedTuple):
    """An answer that is to come."""

    future: Any
    ask: Ask
    sent: int  # bytes

    def take(self, message: bytes) -> None:
        """The future has its answer, or its failure."""
        if self.future.done():  # whoever wanted it has gone
            return
        try:
            self.future.set_result(streamed(message, self.ask.outputs, self.ask.id))
        except KilnError as error:
            self.future.set_exception(error)

    def fail(self, error: KilnError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


def begun(connection: Any, stub: Any, *requests: Any, timeout: Optional[float]) -> Any:
    """The call. It is the caller's for as long as it wants: the client's own timeout is each request's."""
    if connection.closed:
        raise connection.closed_error()
    return stub(*requests, timeout=timeout, metadata=connection.session.metadata + trace.metadata())


def unanswered() -> KilnError:
    return Internal("the server ended the stream before it had answered")


def cancelled() -> KilnError:
    return Cancelled("the stream was cancelled")


def closed() -> KilnError:
    return FailedPrecondition("the stream is closed", remedy="model.stream() begins another")


class Stream(OfItsProcess):
    """Made by Model.stream(). Threads: any."""

    def __init__(self, connection: Any, request: Callable[[Mapping[str, Any], Ask], bytes], timeout: Optional[float]):
        self._connection, self._request = connection, request
        self._numbers = itertools.count(1)
        self._sent: "queue.SimpleQueue[Optional[bytes]]" = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._due: Deque[Due] = collections.deque()
        self._closed = False
        self._failure: Optional[Callable[[], KilnError]] = None
        stub = connection.stub(INFER, raw_request=True, raw_response=True)
        self._call = begun(connection, stub, iter(self._sent.get, None), timeout=timeout)
        self._reader = threading.Thread(target=self._read, name="kiln-model-stream", daemon=True)
        self._reader.start()

    def infer(self, inputs: Mapping[str, Any], outputs: Sequence[str] = (), *, timeout: Optional[float] = None,
              sequence: Optional[SequenceId] = None, start: bool = False, end: bool = False,
              id: str = "") -> "futures.Future[Outputs]":
        """A request, as Model.infer takes it, whose answer is there when the future is done; waits only for room.

        What fails is raised by the future, and ends nothing else. The server tells it as a text: such a KilnError has no
        code. `timeout` counts from when the server begins with it.
        """
        timeout = self._connection.timeout if timeout is None else timeout
        ask = Ask(outputs, sequence, start, end, id or str(next(self._numbers)), timeout)
        message = self._request(inputs, ask)
        answer: "futures.Future[Outputs]" = futures.Future()
        answer.set_running_or_notify_cancel()  # what was sent is not called back
        with self._changed:
            self._changed.wait_for(lambda: len(self._due) < MOST or self._over)
            if self._closed:
                raise closed()
            if self._failure is not None:
                raise self._failure()
            self._due.append(Due(answer, ask, len(message)))
            self._sent.put(message)
        return answer

    @property
    def _over(self) -> bool:
        return self._closed or self._failure is not None

    def close(self) -> None:
        """Returns when all that was asked for has been answered. Twice is once."""
        with self._changed:
            if not self._closed:
                self._sent.put(None)
            self._closed = True
            self._changed.notify_all()
        if threading.current_thread() is not self._reader:  # as where an answer's callback closes it
            self._reader.join()

    def cancel(self) -> None:
        """Ends it at once: what has not been answered raises Cancelled."""
        self._call.cancel()
        self.close()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Any) -> None:
        if kind is None:
            self.close()
        else:
            self.cancel()

    def _read(self) -> None:
        failure: Callable[[], KilnError] = unanswered
        try:
            for message in self._call:
                if not self._take(message):
                    self._call.cancel()
        except grpc.RpcError as error:
            failed = error
            failure = lambda: self._connection.failure(failed)  # noqa: E731: of each request, one of its own
        self._end(failure)

    def _take(self, message: bytes) -> bool:
        """Whether somebody has asked for it."""
        with self._changed:
            if not self._due:
                return False
            due = self._due.popleft()
            self._changed.notify()
        self._connection.count(INFER, due.sent, len(message))
        due.take(message)
        return True

    def _end(self, failure: Callable[[], KilnError]) -> None:
        with self._changed:
            self._failure = failure
            self._sent.put(None)  # who reads requests, gRPC's thread, ends too
            due, self._due = self._due, collections.deque()
            self._changed.notify_all()
        for one in due:
            one.fail(failure())
