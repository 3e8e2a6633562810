"""The channel of kiln.aio's clients: calls, errors, chunked data, and handles given back.

All of one event loop, but for free_later, which destructors call from any thread.
"""

from __future__ import annotations

import asyncio
import collections
import weakref
from typing import Any, Callable, Collection, Deque, Dict, List, Optional, Sequence, Set, Tuple

import grpc
from grpc import aio

from kiln import wire
from kiln.connection import TLS, Traffic, call_metadata, credentials
from kiln.errors import FailedPrecondition, Internal, KilnError, ResourceExhausted, from_rpc
from kiln.reaper import AGAIN, MOST, TIMEOUT, gone
from kiln.session import Session
from kiln.transfer import Download, Progress, Upload, write_header
from kiln.v1 import buffer_service_pb2


class Connection:
    """As kiln.connection.Connection, of one event loop."""

    def __init__(self, target: str, token: Optional[str], tls: TLS, timeout: Optional[float], device: str,
                 metadata: Sequence[Tuple[str, str]]):
        self.target, self.timeout, self.device = target, timeout, device
        secure = credentials(tls)
        options = wire.CHANNEL_OPTIONS
        # Renewed by a thread, over a channel of its own: a loop may be busy for longer than a lease.
        self._session_channel = (grpc.secure_channel(target, secure, options) if secure
                                 else grpc.insecure_channel(target, options))  # fmt: skip
        self.live: Set[int] = set()
        self.session = Session(self._session_channel, call_metadata(token, metadata), lost=self.live.clear)
        weakref.finalize(self, self.session.stop)
        self.channel = aio.secure_channel(target, secure, options) if secure else aio.insecure_channel(target, options)
        self.closed = False
        self._loop = asyncio.get_running_loop()
        # Always the same one: a destructor may just have it in hand.
        self._dropped: Deque[int] = collections.deque()
        self._freeing: Optional["asyncio.Task[None]"] = None
        self._stubs: Dict[Any, Callable[..., Any]] = {}
        self._traffic: Dict[str, List[int]] = {}

    def open(self, name: str, request: Any = None, timeout: Optional[float] = None, **raw: bool) -> Any:
        """Begins a call; it is awaited under `errors`."""
        if self.closed:
            raise FailedPrecondition("the client of %s is closed" % self.target, remedy="connect again")
        return self._begin(name, request, timeout, **raw)

    def _begin(self, name: str, request: Any, timeout: Optional[float], **raw: bool) -> Any:
        key = (name, *raw)
        stub = self._stubs.get(key)
        if stub is None:
            stub = self._stubs[key] = wire.stub(self.channel, name, **raw)
        given = () if request is None else (request,)
        return stub(*given, timeout=self.timeout if timeout is None else timeout, metadata=self.session.metadata)

    async def call(self, name: str, request: Any, timeout: Optional[float] = None) -> Any:
        """One unary call; a KilnError if it fails."""
        response = await self.finish(self.open(name, request, timeout))
        self.count(name, request.ByteSize(), response.ByteSize())
        return response

    async def finish(self, call: Any) -> Any:
        try:
            return await call
        except grpc.RpcError as error:
            raise self.failure(error) from None

    def failure(self, error: grpc.RpcError) -> KilnError:
        """What to raise for a call that failed with `error`."""
        return self.session.heed(from_rpc(error, self.target))

    def count(self, name: str, sent: int, received: int) -> None:
        row = self._traffic.setdefault(name, [0, 0, 0])
        row[0] += 1
        row[1] += sent
        row[2] += received

    @property
    def traffic(self) -> Dict[str, Traffic]:
        return {name: Traffic(*row) for name, row in self._traffic.items()}

    async def allocate(self, request: buffer_service_pb2.AllocateRequest) -> buffer_service_pb2.BufferDescription:
        try:
            answer = await self.call("BufferService.Allocate", request)
        except ResourceExhausted:
            await self.flush_frees()
            answer = await self.call("BufferService.Allocate", request)
        return answer.buffer

    async def open_session(self, features: Sequence[str], lease: int, timeout: float) -> None:
        try:
            await self._loop.run_in_executor(None, self.session.open, features, lease, timeout)
        except grpc.RpcError as error:
            raise from_rpc(error, self.target) from None

    # -- handles

    def free_later(self, handle: int) -> None:
        """Safe in destructors, of any thread."""
        if handle in self.live and not self.closed:
            self._dropped.append(handle)
            try:
                self._loop.call_soon_threadsafe(self._start_freeing)
            except RuntimeError:  # the loop is over
                pass

    def _start_freeing(self) -> None:
        if not self.closed and (self._freeing is None or self._freeing.done()):
            self._freeing = self._loop.create_task(self._free_dropped())

    async def flush_frees(self) -> None:
        """Returns when all handles dropped so far have been given back, or a Free of them has failed."""
        self._start_freeing()
        if self._freeing is not None:
            await asyncio.shield(self._freeing)

    async def _free_dropped(self) -> None:
        while self._dropped and not self.closed:
            handles = [self._dropped.popleft() for _ in range(min(len(self._dropped), MOST))]
            try:
                await self._give_back(handles)
            except KilnError:  # whatever it is, it may pass
                self._dropped.extend(handles)
                self._loop.call_later(AGAIN, self._start_freeing)
                return

    async def _give_back(self, handles: Collection[int]) -> None:
        """Frees those that are ours still, also while the connection closes; KilnError."""
        while mine := self.live.intersection(handles):
            ended: Collection[int] = mine
            request = buffer_service_pb2.FreeRequest(handle=mine)
            try:
                await self.finish(self._begin("BufferService.Free", request, TIMEOUT))
                self.count("BufferService.Free", request.ByteSize(), 0)
            except KilnError as error:
                ended = gone(error, mine)
                if not ended:
                    raise
            self.live.difference_update(ended)

    async def free_now(self, handle: int) -> None:
        """A KilnError if it fails; the handle is then given back later."""
        if handle in self.live and not self.closed:
            self.live.discard(handle)
            try:
                await self.call("BufferService.Free", buffer_service_pb2.FreeRequest(handle=[handle]))
            except BaseException:
                self.live.add(handle)
                self.free_later(handle)
                raise

    async def close(self) -> None:
        """Gives back every handle that is left, and closes the channels. Twice is once."""
        if self.closed:
            return
        self.closed = True
        try:
            await self._give_back(list(self.live))
            await self._loop.run_in_executor(None, self.session.close)
        except (KilnError, grpc.RpcError):  # a server that is gone holds nothing
            pass
        finally:
            self.session.stop()
            self._session_channel.close()
            await self.channel.close()

    # -- data

    async def write(self, handle: int, offset: int, data: memoryview, progress: Optional[Progress]) -> None:
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
        download = Download(target, progress)
        if len(target) == 0:
            return
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
