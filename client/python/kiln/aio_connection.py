"""The channel of kiln.aio's clients: calls, errors, chunked data, and handles given back.

All of one event loop, but for free_later, which destructors call from any thread.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import grpc
from grpc import aio

from kiln import wire
from kiln.connection import TLS, Traffic, call_metadata, credentials
from kiln.errors import FailedPrecondition, Internal, KilnError, ResourceExhausted, from_rpc
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
        self._dropped: List[int] = []
        self._freeing: Optional["asyncio.Task[None]"] = None
        self._stubs: Dict[Any, Callable[..., Any]] = {}
        self._traffic: Dict[str, List[int]] = {}

    def open(self, name: str, request: Any = None, timeout: Optional[float] = None, **raw: bool) -> Any:
        """Begins a call; it is awaited under `errors`."""
        if self.closed:
            raise FailedPrecondition("the client of %s is closed" % self.target, remedy="connect again")
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
            raise from_rpc(error, self.target) from None

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
        if self._freeing is None or self._freeing.done():
            self._freeing = self._loop.create_task(self.flush_frees())

    async def flush_frees(self) -> None:
        while self._dropped:
            handles, self._dropped = self._dropped, []
            try:
                await self.free(handles)
            except KilnError:  # the handles end with the session at the latest
                pass

    async def free(self, handles: Sequence[int]) -> None:
        mine = [handle for handle in handles if handle in self.live]
        self.live.difference_update(mine)
        if mine and not self.closed:
            await self.call("BufferService.Free", buffer_service_pb2.FreeRequest(handle=mine))

    async def close(self) -> None:
        if self.closed:
            return
        try:
            await self.free(list(self.live))
        except KilnError:  # a server that is gone holds nothing
            pass
        self.closed = True
        try:
            await self._loop.run_in_executor(None, self.session.close)
        except grpc.RpcError:
            pass
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
            raise from_rpc(error, self.target) from None
        finally:
            call.cancel()
        download.finish()
        self.count("BufferService.Read", request.ByteSize(), download.received)
