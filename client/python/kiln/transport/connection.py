"""The channel to one server, and what all calls have in common: deadlines, the token,
errors with their details, counted bytes, and handles given back.

Clients, buffers and programs share one Connection and keep it alive. Threads: any.
ConnectionLike is what kiln.aio's connections share.
"""

from __future__ import annotations

import atexit
import contextvars
import functools
import itertools
import logging
import threading
import time
import weakref
from concurrent import futures
from typing import Any, Callable, Collection, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

import grpc

from kiln import commands

from kiln.transport import forks, trace, wire
from kiln.errors import DeadlineExceeded, FailedPrecondition, KilnError, NoServer, from_rpc
from kiln.handles import OfItsProcess
from kiln.pipeline import Pipeline, Pipelined
from kiln.retries import ATTEMPTS, Retries
from kiln.transport.addresses import ANSWERING, EVERY, Patience
from kiln.transport.credentials import Credentials
from kiln.transport.elsewhere import Follows, leaves
from kiln.transport.reach import Reach
from kiln.transport.reaper import TIMEOUT, Reaper, give_back
from kiln.session import Session
from kiln.stream import Answer
from kiln.transport.shared_memory import FEATURE as SHARED_MEMORY, SharedMemory
from kiln.waiting import Waits, blocking
from kiln.v1 import buffer_service_pb2

log = logging.getLogger("kiln")


# Calls that are worth to be cancelled by who waits for them.
SLOW = frozenset(("KernelService.Compile", "KernelService.Gradient", "DebugService.Explain"))


class Traffic(NamedTuple):
    """Bytes of messages, without what HTTP/2 adds."""

    calls: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0


class Counter:
    """Counts traffic. Threads: any."""

    def __init__(self) -> None:
        self._rows: Dict[str, List[int]] = {}
        self._lock = threading.Lock()

    def add(self, name: str, sent: int, received: int) -> None:
        with self._lock:
            row = self._rows.setdefault(name, [0, 0, 0])
            row[0] += 1
            row[1] += sent
            row[2] += received

    def rows(self) -> Dict[str, Traffic]:
        return {name: Traffic(*row) for name, row in self._rows.copy().items()}


class ConnectionLike(OfItsProcess, Follows, Pipelined):
    """What does not depend on how calls are waited for."""

    channel: Any
    session: Session
    free_later: Callable[[int], None]
    sleep: Callable[[float], Any]

    def __init__(self, target: str, timeout: Optional[float], device: str):
        forks.check()
        self.target, self.timeout, self.device = target, timeout, device
        self.closed = False
        self._abandoned = False
        self.server: Any = None  # what it says of itself
        self.devices: List[str] = []
        self.targets, self._left = (target,), {}
        self._stubs: Dict[Any, Callable[..., Any]] = {}
        self._traffic = Counter()
        self.retries = Retries()
        # Where the server is on this machine and allows it.
        self.shared_memory: Optional[SharedMemory] = None
        # Handles that are ours to give back. One leaves it when the server no longer has it.
        self.live: Set[int] = set()

    def stub(self, name: str, **raw: bool) -> Callable[..., Any]:
        key = (name, *raw)
        found = self._stubs.get(key)
        if found is None:
            found = self._stubs[key] = wire.stub(self.channel, name, **raw)
        return found

    def failure(self, error: grpc.RpcError) -> KilnError:
        """What to raise for a call that failed with `error`."""
        return self._place(self.session.heed(from_rpc(error, self.target)))

    def _unary(self, name: str, call: Callable[[Optional[float]], Any], timeout: Optional[float]) -> Waits[Any]:
        """The answer to a unary call that has so many seconds, made again as kiln.retries says."""
        timeout = self.timeout if timeout is None else timeout
        end = None if timeout is None else time.monotonic() + timeout
        self.retries.earn()
        for attempt in itertools.count(1):
            left = None if end is None else end - time.monotonic()
            place, why = self.pipeline, None
            try:
                return (yield call(left))
            except KilnError as error:
                wait = self.retries.wait(name, error, attempt, left)
                if wait is None and not leaves(error):
                    raise
                why = error
            over = wait is None or attempt > 1 or why.code == "SHUTTING_DOWN"
            if over and attempt < ATTEMPTS + len(self.targets) and (yield from self._elsewhere(why, place)):
                continue
            if wait is None:
                raise why
            log.info("%s at %s failed (%s): again in %.2f s, for the %d. time", name, self.target, why, wait, attempt)
            yield self.sleep(wait)

    def abandon(self) -> None:
        """In a forked child: it is the parent's, with all that was made through it, and is not touched."""
        self.closed = self._abandoned = True
        self.live.clear()
        # The pieces that data goes through are the parent's, too.
        self.shared_memory = None

    def closed_error(self) -> KilnError:
        if self._abandoned:
            return forks.error(self.target)
        return FailedPrecondition("the client of %s is closed" % self.target, remedy="connect again")

    def count(self, name: str, sent: int, received: int) -> None:
        self._traffic.add(name, sent, received)

    @property
    def traffic(self) -> Dict[str, Traffic]:
        """What was sent and received so far, by call ("KernelService.Execute"), as itself or as a command."""
        return self._traffic.rows()

    def no_server(self, timeout: Optional[float]) -> KilnError:
        return NoServer("no server answers at %s within %g s" % (self.target, ANSWERING if timeout is None else timeout),
                        remedy="is kilnd running there?")  # fmt: skip

    def _free_now(self, handle: int) -> Waits[None]:
        if handle in self.live and not self.closed:
            self.live.discard(handle)
            try:
                yield from self._performed("BufferService.Free", buffer_service_pb2.FreeRequest(handle=[handle]))
            except BaseException:
                self.live.add(handle)
                self.free_later(handle)
                raise


class Connection(ConnectionLike):
    sleep = staticmethod(time.sleep)
    # In this order: a call of another thread in between may then fail as one of the old server's.
    parts = ("live", "session", "server", "devices", "shared_memory", "pipeline", "target", "channel", "reaper", "_stubs",
             "_end")  # fmt: skip

    def __init__(self, target: str, credentials: Credentials, *, timeout: Optional[float] = None, device: str = "",
                 lease: int = 0):
        super().__init__(target, timeout, device)
        self.channel = credentials.channel(target, lease=lease)
        self.session = Session(self.channel, credentials.metadata, lost=self.live.clear)
        self.pipeline = Pipeline(self.channel, self.session, target)
        self.reaper = Reaper(*_enders(self.channel, target, self.live, self.session, self.pipeline))
        self._secure = credentials.tls
        self._moving = threading.Lock()
        self._end: Any = None
        self._ends_with()
        _open.add(self)
        forks.opened(self)

    def _ends_with(self) -> None:
        if self._end is not None:
            self._end.detach()
        self._end = weakref.finalize(self, self.reaper.stop)
        self._end.atexit = False

    def _swap(self, other: "Connection") -> None:
        super()._swap(other)
        for one in (self, other):
            if one.shared_memory is not None:
                one.shared_memory.over(one.call, one.begin)

    def _let_go(self, other: "Connection") -> None:
        other.close(timeout=0)

    # -- calls

    def failure(self, error: grpc.RpcError) -> KilnError:
        failed = super().failure(error)
        shared = self.shared_memory
        if failed.field == SHARED_MEMORY and shared is not None:  # it was of a session that is gone
            self.shared_memory = None
            shared.close()
        return failed

    def call(self, name: str, request: Any, timeout: Optional[float] = None) -> Any:
        """One unary call; a KilnError if it fails."""
        self.settle(name)
        start = self.start_to_wait if name in SLOW else self.start
        response = blocking(self._unary(name, lambda left: start(self.stub(name), request, left), timeout))
        self.count(name, request.ByteSize(), response.ByteSize())
        return response

    def send(self, name: str, request: bytes, timeout: Optional[float] = None, slow: bool = False) -> Any:
        """As call(), of a request that is written already, and may take long to answer."""
        self.settle(name)
        start = self.start_to_wait if slow else self.start
        response = blocking(self._unary(
            name, lambda left: start(self.stub(name, raw_request=True), request, left), timeout))  # fmt: skip
        self.count(name, len(request), response.ByteSize())
        return response

    def start(self, stub: Callable[..., Any], request: Any, timeout: Optional[float] = None) -> Any:
        """Calls `stub` with this connection's deadline and metadata."""
        if self.closed:
            raise self.closed_error()
        try:
            metadata = self.session.metadata + trace.metadata()
            return stub(request, timeout=self.timeout if timeout is None else timeout, metadata=metadata)
        except grpc.RpcError as error:
            raise self.failure(error) from None
        except ValueError:
            if self.closed:
                raise self.closed_error() from None
            raise

    def start_to_wait(self, stub: Any, request: Any, timeout: Optional[float] = None) -> Any:
        """As start(), for what takes long: whatever ends the wait, such as Ctrl-C, ends the call at the server."""
        begun: "futures.Future[Any]" = futures.Future()

        def begin() -> None:
            try:
                begun.set_result(self.start(stub.future, request, timeout))
            except BaseException as error:
                begun.set_exception(error)

        try:
            if threading.current_thread() is threading.main_thread():
                # In a thread where no Ctrl-C can come between the call's beginning and its name here.
                begin = functools.partial(contextvars.copy_context().run, begin)
                threading.Thread(target=begin, name="kiln-call", daemon=True).start()
            else:
                begin()
            return begun.result().result()
        except grpc.RpcError as error:
            raise self.failure(error) from None
        except grpc.FutureCancelledError:  # the channel was closed
            raise self.closed_error() from None
        except BaseException:
            begun.add_done_callback(lambda one: None if one.exception() else one.result().cancel())
            raise

    def begin(self, name: str, request: Any) -> Callable[[], Any]:
        """As call(), in two halves: what it gives waits for the answer."""
        self.settle(name)
        future = self.start(self.stub(name).future, request)  # type: ignore[attr-defined]

        def wait() -> Any:
            try:
                response = future.result()
            except grpc.RpcError as error:
                raise self.failure(error) from None
            self.count(name, request.ByteSize(), response.ByteSize())
            return response

        return wait

    def answered(self, answer: Answer) -> Any:
        try:
            return answer.result(self.timeout)
        except KilnError as error:  # it may be a TimeoutError, and is what the server says
            raise self._place(error)
        except futures.TimeoutError:
            raise DeadlineExceeded("no answer within %g s" % self.timeout) from None

    def settle(self, name: str = "") -> None:
        """Returns when a call by this name has no commands to wait for."""
        if self.busy(name):
            blocking(self._settled(name))

    def wait_until_ready(self, timeout: Optional[float], since: Optional[float] = None) -> None:
        """NoServer unless the server answers in time."""
        reach, patience = Reach(self.channel), Patience(self.target, timeout, since)
        left = ANSWERING if timeout is None else timeout
        end = time.monotonic() + left
        try:
            error = patience.at_once()
            while error is None and left > 0:
                if reach.within(min(EVERY, left)):
                    return
                left = end - time.monotonic()
                error = patience.look(self._secure)
            raise error or self.no_server(timeout)
        finally:
            reach.end()

    def open_session(self, features: Sequence[str], lease: int, timeout: float) -> None:
        try:
            self.session.open(features, lease, timeout)
        except grpc.RpcError as error:
            raise from_rpc(error, self.target) from None

    # -- handles

    def allocate(self, request: buffer_service_pb2.AllocateRequest,
                 wait: bool = False) -> buffer_service_pb2.BufferDescription:
        return blocking(self._allocate(request, wait))

    def view(self, request: buffer_service_pb2.ViewRequest, device: str) -> buffer_service_pb2.BufferDescription:
        return blocking(self._view(request, device))

    def perform(self, name: str, request: Any) -> None:
        """What a call of this name does, if it is Fill, Copy or a collective; it need not be done on return."""
        blocking(self._performed(name, request))

    def fence(self) -> None:
        """Returns when all commands are done; raises the first failure that nobody has been told."""
        blocking(self._fence())

    def free_later(self, handle: int) -> None:
        """Safe in destructors."""
        if handle in self.live:
            self.reaper.put(handle)

    def free_now(self, handle: int) -> None:
        """A KilnError if it fails; the handle is then given back later."""
        blocking(self._free_now(handle))

    def flush_frees(self, timeout: Optional[float] = None) -> None:
        """Returns when all handles put so far have been given back, or a Free of them has failed."""
        self.reaper.flush(timeout)

    def close(self, timeout: Optional[float] = 10) -> None:
        """Gives back every handle that is left, and closes the channel."""
        if self.closed:
            return
        self.closed = True
        _open.discard(self)
        forks.closed(self)
        if self.shared_memory is not None:
            self.shared_memory.close()
        self.reaper.stop()
        self.reaper.join(timeout)


def _enders(channel: grpc.Channel, target: str, live: Set[int],
            session: Session, pipeline: Pipeline) -> Tuple[Callable[..., None], Callable[[], None]]:
    """What the reaper calls. Neither holds the Connection, whose end starts them."""
    free_stub = wire.stub(channel, "BufferService.Free")

    def call(handles: Collection[int]) -> None:
        request = buffer_service_pb2.FreeRequest(handle=handles)
        if pipeline.send_if_live(commands.same("BufferService.Free", request)):
            return
        try:
            free_stub(request, timeout=TIMEOUT, metadata=session.metadata)
        except grpc.RpcError as error:
            raise session.heed(from_rpc(error, target)) from None

    def free(handles: List[int]) -> None:
        blocking(give_back(handles, live, call))

    def finish() -> None:
        try:
            pipeline.close()
            free(list(live))
        finally:
            try:
                session.close()
            finally:
                channel.close()

    return free, finish


# What the interpreter's end closes: daemon threads would not get round to it.
_open: "weakref.WeakSet[Connection]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for connection in list(_open):
        connection.close(timeout=5)
