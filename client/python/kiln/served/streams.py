"""Requests for one model, many on their way at a time: a call to which they are written, and from which answers are read.

    with model.stream() as stream:
        answers = [stream.infer({"x": part}) for part in parts]
        for answer in answers:
            print(answer.result()["y"])

The server runs them one after the other, and its answers come in their order. Who reads less than it sends waits:
so many requests may be without an answer, MOST. Only what an answer's callback sends waits for no room: it runs in the
thread that makes room.
"""

from __future__ import annotations

import itertools
import math
import queue
import threading
import time
from concurrent import futures
from typing import Any, Callable, Mapping, Optional, Sequence, Type

import grpc

from kiln.errors import Cancelled, DeadlineExceeded, FailedPrecondition, Internal, KilnError
from kiln.handles import OfItsProcess
from kiln.served.line import Due, Line, fail_all
from kiln.served.tensors import Ask, Outputs, SequenceId, streamed_id
from kiln.transport import trace

INFER = "GRPCInferenceService.ModelStreamInfer"
MOST = 64


def begun(connection: Any, stub: Any, *requests: Any, timeout: Optional[float]) -> Any:
    """The call. It is the caller's for as long as it wants: the client's own timeout is each request's."""
    if connection.closed:
        raise connection.closed_error()
    return stub(*requests, timeout=timeout, metadata=connection.session.metadata + trace.metadata())


def unanswered() -> KilnError:
    return Internal("the server ended the stream before it had answered")


def broken(error: BaseException) -> Callable[[], KilnError]:
    """What to raise after a fault of the server's, or one that nobody foresaw."""
    text = error.message if isinstance(error, KilnError) else "the stream's reader has ended: %r" % error
    return lambda: Internal(text)


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
        lock = threading.Lock()
        self._changed, self._earlier = threading.Condition(lock), threading.Condition(lock)
        self._line = Line()
        self._closed = False
        self._failure: Optional[Callable[[], KilnError]] = None
        stub = connection.stub(INFER, raw_request=True, raw_response=True)
        self._call = begun(connection, stub, iter(self._sent.get, None), timeout=timeout)
        self._clock: Optional[threading.Thread] = None  # once there is a timeout
        self._wakes = -math.inf  # when it looks next
        self._reader = threading.Thread(target=self._read, name="kiln-model-stream", daemon=True)
        self._reader.start()

    def infer(self, inputs: Mapping[str, Any], outputs: Sequence[str] = (), *, timeout: Optional[float] = None,
              sequence: Optional[SequenceId] = None, start: bool = False, end: bool = False,
              id: str = "") -> "futures.Future[Outputs]":
        """A request, as Model.infer takes it, whose answer is there when the future is done; waits only for room.

        What fails is raised by the future, and ends nothing else. The server tells it as a text: such a KilnError has no
        code. `timeout` counts from when the server begins with it, at the server and here: without an answer, the future
        raises DeadlineExceeded. Room is waited for no longer than that, either; in a callback of an answer, not at all.
        """
        timeout = self._connection.timeout if timeout is None else timeout
        ask = Ask(outputs, sequence, start, end, id or str(next(self._numbers)), timeout)
        message = self._request(inputs, ask)
        answer: "futures.Future[Outputs]" = futures.Future()
        answer.set_running_or_notify_cancel()  # what was sent is not called back
        with self._changed:
            if not self._is_own and not self._changed.wait_for(self._has_room, _bounded(timeout)):
                raise DeadlineExceeded("%d requests have had no answer within %g s" % (len(self._line), timeout or 0))
            if self._closed:
                raise closed()
            if self._failure is not None:
                raise self._failure()
            self._line.append(Due(answer, ask, len(message), time.monotonic()))
            if timeout is not None:
                self._wake()
            self._sent.put(message)
        return answer

    def _has_room(self) -> bool:
        return len(self._line) < MOST or self._closed or self._failure is not None

    @property
    def _is_own(self) -> bool:
        """Whether this is a thread of the stream's, as in an answer's callback: others wait for what it does."""
        return threading.current_thread() in (self._reader, self._clock)

    def close(self) -> None:
        """Returns when all that was asked for has been answered, or its time is up. Twice is once."""
        with self._changed:
            if not self._closed:
                self._sent.put(None)
            self._closed = True
            self._changed.notify_all()
        self._leave()
        if not self._is_own:
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

    def _leave(self) -> None:
        """Ends the call once the stream is closed and every answer that is still to come has timed out."""
        with self._changed:
            over = self._closed and self._line.given_up
        if over:
            self._call.cancel()

    # -- the reader's thread

    def _read(self) -> None:
        failure: Callable[[], KilnError] = unanswered
        try:
            for message in self._call:
                self._take(message)
        except grpc.RpcError as error:
            failed = error
            failure = lambda: self._connection.failure(failed)  # noqa: E731: of each request, one of its own
        except BaseException as error:  # SystemExit, of a callback, among them
            failure = broken(error)
        finally:
            self._call.cancel()  # of one that has ended, nothing
            self._end(failure)

    def _take(self, message: bytes) -> None:
        id = streamed_id(message)
        with self._changed:
            due = self._line.answered(id, time.monotonic())
            self._wake()
            self._changed.notify()
        if due is not None:
            try:
                self._connection.count(INFER, due.sent, len(message))
            finally:  # it is in the line no more
                due.take(message)

    def _end(self, failure: Callable[[], KilnError]) -> None:
        with self._changed:
            self._failure = failure
            self._sent.put(None)  # who reads requests, gRPC's thread, ends too
            rest = self._line.rest()
            self._changed.notify_all()
            self._earlier.notify_all()
        fail_all(rest, failure)

    # -- the clock's thread

    def _wake(self) -> None:
        """There may be a deadline that the clock does not know; the lock is held."""
        end = self._line.deadline
        if end is None:
            return
        if self._clock is None:
            self._clock = threading.Thread(target=self._watch, name="kiln-model-stream-clock", daemon=True)
            self._clock.start()
        elif end < self._wakes:
            self._earlier.notify()

    def _watch(self) -> None:
        while True:
            with self._changed:
                while self._failure is None and (due := self._line.late(time.monotonic())) is None:
                    end = self._line.deadline
                    self._wakes = math.inf if end is None else end
                    self._earlier.wait(None if end is None else _bounded(max(0, end - time.monotonic())))
                self._wakes = -math.inf
                if self._failure is not None:
                    return
            try:
                due.give_up()  # type: ignore[union-attr]
            except BaseException as error:  # as in _read
                self._end(broken(error))
                self._call.cancel()
            self._leave()


def _bounded(seconds: Optional[float]) -> Optional[float]:
    return None if seconds is None else min(seconds, threading.TIMEOUT_MAX)
