"""The channel of kiln.aio's clients: calls, errors, chunked data, and handles given back.

All of one event loop, but for free_later, which destructors call from any thread.
"""

from __future__ import annotations

import asyncio
import collections
import contextvars
import weakref
from typing import Any, Collection, Deque, Optional, Sequence, Tuple

import grpc
from grpc import aio

from kiln import commands

from kiln.transport import forks, trace
from kiln.transport.addresses import ANSWERING, EVERY, Patience
from kiln.transport.connection import ConnectionLike
from kiln.transport.credentials import Credentials
from kiln.errors import DeadlineExceeded, Internal, KilnError
from kiln.pipeline import Pipeline
from kiln.transport.reaper import AGAIN, MOST, TIMEOUT, give_back
from kiln.session import Session
from kiln.stream import Answer
from kiln.transport.transfer import Download, Progress, Upload, write_header
from kiln.v1 import buffer_service_pb2
from kiln.waiting import awaited


class Connection(ConnectionLike):
    """As kiln.transport.connection.Connection, of one event loop."""

    sleep = staticmethod(asyncio.sleep)
    parts = ("live", "session", "server", "devices", "shared_memory", "pipeline", "target", "channel", "_session_channel",
             "_stubs", "_end")  # fmt: skip

    def __init__(self, target: str, credentials: Credentials, timeout: Optional[float], device: str, lease: int = 0):
        super().__init__(target, timeout, device)
        # Renewed by a thread, over a channel of its own: a loop may be busy for longer than a lease.
        self._session_channel = credentials.channel(target, lease=lease)
        self.session = Session(self._session_channel, credentials.metadata, lost=self.live.clear)
        self._secure = credentials.tls
        self._moving = asyncio.Lock()
        self._end: Any = None
        self._ends_with()
        # Its thread reads the stream, too.
        self.pipeline = Pipeline(self._session_channel, self.session, target)
        self.channel = credentials.channel(target, aio)  # on which no session is renewed
        self._loop = asyncio.get_running_loop()
        # Always the same one: a destructor may just have it in hand.
        self._dropped: Deque[int] = collections.deque()
        self._freeing: Optional["asyncio.Task[None]"] = None
        forks.opened(self)

    def _ends_with(self) -> None:
        if self._end is not None:
            self._end.detach()
        self._end = weakref.finalize(self, self.session.stop)
        self._end.atexit = False

    async def _let_go(self, other: "Connection") -> None:
        self._gone = self._loop.create_task(other.close())  # a loop keeps none of its tasks

    def open(self, name: str, request: Any = None, timeout: Optional[float] = None, **raw: bool) -> Any:
        """Begins a call; it is awaited by finish()."""
        if self.closed:
            raise self.closed_error()
        return self._begin(name, request, timeout, **raw)

    def _begin(self, name: str, request: Any, timeout: Optional[float], **raw: bool) -> Any:
        """As open, also while the connection closes."""
        given = () if request is None else (request,)
        timeout = self.timeout if timeout is None else timeout
        metadata = self.session.metadata + trace.metadata()
        return self.stub(name, **raw)(*given, timeout=timeout, metadata=metadata)

    async def call(self, name: str, request: Any, timeout: Optional[float] = None) -> Any:
        """One unary call; a KilnError if it fails."""
        await self.settle(name)
        response = await awaited(self._unary(name, lambda left: self.finish(self.open(name, request, left)), timeout))
        self.count(name, request.ByteSize(), response.ByteSize())
        return response

    async def send(self, name: str, request: bytes, timeout: Optional[float] = None, slow: bool = False) -> Any:
        """As call(), of a request that is written already; a task that is cancelled cancels it, slow or not."""
        await self.settle(name)
        response = await awaited(self._unary(
            name, lambda left: self.finish(self.open(name, request, left, raw_request=True)), timeout))  # fmt: skip
        self.count(name, len(request), response.ByteSize())
        return response

    async def finish(self, call: Any) -> Any:
        try:
            return await call
        except grpc.RpcError as error:
            raise self.failure(error) from None

    async def answered(self, answer: Answer) -> Any:
        try:
            return await asyncio.wait_for(asyncio.wrap_future(answer), self.timeout)
        except KilnError as error:  # it may be a TimeoutError, and is what the server says
            raise self._place(error)
        except asyncio.TimeoutError:
            raise DeadlineExceeded("no answer within %g s" % (self.timeout or 0)) from None

    async def settle(self, name: str = "") -> None:
        """Returns when a call by this name has no commands to wait for."""
        if self.busy(name):
            await awaited(self._settled(name))

    async def wait_until_ready(self, timeout: Optional[float], since: Optional[float] = None) -> None:
        """NoServer unless the server answers in time."""
        ready, patience = asyncio.ensure_future(self.channel.channel_ready()), Patience(self.target, timeout, since)
        end = self._loop.time() + (ANSWERING if timeout is None else timeout)
        try:
            error = await self._loop.run_in_executor(None, patience.at_once)
            if error is not None:
                raise error
            while not ready.done():
                left = end - self._loop.time()
                if left <= 0:
                    raise self.no_server(timeout)
                await asyncio.wait({ready}, timeout=min(EVERY, left))
                error = None if ready.done() else await self._loop.run_in_executor(None, patience.look, self._secure)
                if error is not None:
                    raise error
            ready.result()
        finally:
            ready.cancel()
            await asyncio.wait({ready})

    async def allocate(self, request: buffer_service_pb2.AllocateRequest,
                       wait: bool = False) -> buffer_service_pb2.BufferDescription:
        return await awaited(self._allocate(request, wait))

    async def view(self, request: buffer_service_pb2.ViewRequest, device: str) -> buffer_service_pb2.BufferDescription:
        return await awaited(self._view(request, device))

    async def perform(self, name: str, request: Any) -> None:
        """What a call of this name does, if it is Fill, Copy or a collective; it need not be done on return."""
        await awaited(self._performed(name, request))

    async def fence(self) -> None:
        """Returns when all commands are done; raises the first failure that nobody has been told."""
        await awaited(self._fence())

    async def open_session(self, features: Sequence[str], lease: int, timeout: float) -> None:
        try:
            await self._loop.run_in_executor(None, self.session.open, features, lease, timeout)
        except grpc.RpcError as error:
            raise self.failure(error) from None

    # -- handles

    def free_later(self, handle: int) -> None:
        """Safe in destructors, of any thread."""
        if handle in self.live and not self.closed:
            self._dropped.append(handle)
            try:
                # In no trace: whoever drops this one, others' handles go with it.
                self._loop.call_soon_threadsafe(self._start_freeing, context=contextvars.Context())
            except RuntimeError:  # the loop is over
                pass

    def _start_freeing(self) -> None:
        if not self.closed and (self._freeing is None or self._freeing.done()):
            self._freeing = self._loop.create_task(self._free_dropped())

    async def flush_frees(self, timeout: Optional[float] = None) -> None:
        """Returns when all handles dropped so far have been given back, or a Free of them has failed."""
        self._start_freeing()
        if self._freeing is not None:
            await asyncio.wait({self._freeing}, timeout=timeout)

    async def _free_dropped(self) -> None:
        while self._dropped and not self.closed:
            handles = [self._dropped.popleft() for _ in range(min(len(self._dropped), MOST))]
            try:
                await awaited(give_back(handles, self.live, self._free))
            except KilnError:  # whatever it is, it may pass
                self._dropped.extend(handles)
                self._loop.call_later(AGAIN, self._start_freeing)
                return

    async def _free(self, handles: Collection[int]) -> None:
        """One Free, also while the connection closes; KilnError."""
        request = buffer_service_pb2.FreeRequest(handle=handles)
        if self.pipeline.send_if_live(commands.same("BufferService.Free", request)):
            return
        await self.finish(self._begin("BufferService.Free", request, TIMEOUT))
        self.count("BufferService.Free", request.ByteSize(), 0)

    async def free_now(self, handle: int) -> None:
        """A KilnError if it fails; the handle is then given back later."""
        await awaited(self._free_now(handle))

    async def close(self) -> None:
        """Gives back every handle that is left, and closes the channels. Twice is once."""
        if self.closed:
            return
        self.closed = True
        forks.closed(self)
        try:
            await self._loop.run_in_executor(None, self.pipeline.close)
            await awaited(give_back(list(self.live), self.live, self._free))
            await self._loop.run_in_executor(None, self.session.close)
        except (KilnError, grpc.RpcError):  # a server that is gone holds nothing
            pass
        finally:
            self.session.stop()
            self._session_channel.close()
            await self.channel.close()

    # -- data

    async def write(self, handle: int, offset: int, data: memoryview, progress: Optional[Progress]) -> None:
        if self.pipeline.on and progress is None and self.small(data):
            return await awaited(self._write_small(handle, offset, data))
        await self.settle()
        upload = Upload(handle, offset, data, progress)
        call = self.open("BufferService.Write", raw_request=True)
        try:
            for message in upload:
                await call.write(message)
            await call.done_writing()
        except (grpc.RpcError, asyncio.InvalidStateError):
            pass  # the server has ended the call: its answer says why
        except BaseException:
            call.cancel()
            raise
        try:
            await self.finish(call)
        except Internal as error:
            if error.code is None:
                await self._why_write_fails(handle, offset, len(data))
            raise
        self.count("BufferService.Write", upload.sent, 0)

    async def _why_write_fails(self, handle: int, offset: int, total: int) -> None:
        """Raises what the server says to the header of a Write.

        Where the server ends a stream while grpc.aio is sending, it may put an INTERNAL of its
        own in the place of the server's answer.
        """
        call = self.open("BufferService.Write", raw_request=True)
        try:
            await call.write(write_header(handle, offset, total))
            await call.done_writing()
        except (grpc.RpcError, asyncio.InvalidStateError):
            pass
        try:
            await self.finish(call)
        except KilnError as error:
            if error.code != "TRUNCATED_UPLOAD" and not isinstance(error, Internal):
                raise error from None

    async def read(self, handle: int, offset: int, target: memoryview, progress: Optional[Progress]) -> None:
        if self.pipeline.on and len(target) and progress is None and self.small(target):
            return await awaited(self._read_small(handle, offset, target))
        download = Download(target, progress)
        if len(target) == 0:
            return
        await self.settle()
        request = buffer_service_pb2.ReadRequest(bytes=len(target))
        request.buffer.handle, request.buffer.offset = handle, offset
        call = self.open("BufferService.Read", request, raw_response=True)
        try:
            async for message in call:
                download.take(message)
        except grpc.RpcError as error:
            raise self.failure(error) from None
        finally:
            call.cancel()
        download.finish()
        self.count("BufferService.Read", request.ByteSize(), download.received)
