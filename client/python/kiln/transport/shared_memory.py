"""Memory that this process and a server on the same machine both have mapped.

Bytes that lie in it are moved by one copy of the server's, and pass no socket. A client
uses it by itself where the server offers it: what it uploads and downloads goes through
two small pieces, of which the server has one while this side has the other. An array made
by Client.shared_empty lies in it altogether, and needs no copy here.
"""

from __future__ import annotations

import collections
import fcntl
import mmap
import os
import socket
import threading
import weakref
from typing import Any, Callable, Deque, Dict, NamedTuple, Optional, Tuple

import numpy as np

from kiln.errors import KilnError, from_status
from kiln.transport.credentials import stays_here
from kiln.v1 import buffer_service_pb2

# What DeviceService.List calls it.
FEATURE = "shared_memory"

# Of the two pieces, in bytes: long against a call, short against a cache.
PIECE = 4 << 20

# Of linux/fcntl.h.
F_ADD_SEALS = 1033
F_SEAL_SHRINK = 2

# Makes a call and gives its answer; begins one and gives what waits for the answer.
Call = Callable[[str, Any], Any]
Begin = Callable[[str, Any], Callable[[], Any]]
Progress = Optional[Callable[[int, int], None]]


class Region(NamedTuple):
    """Shared memory of `nbytes` bytes at `address`, for as long as `connection` is open."""

    handle: int
    address: int
    nbytes: int
    connection: socket.socket


def share(call: Call, nbytes: int) -> Tuple[Region, mmap.mmap]:
    """New memory. OSError if the server's socket cannot be reached from here; KilnError if it refuses."""
    answer = call("BufferService.MapSharedMemory", buffer_service_pb2.MapSharedMemoryRequest(bytes=nbytes))
    memfd = os.memfd_create("kiln", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(memfd, nbytes)
        fcntl.fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK)
        memory = mmap.mmap(memfd, nbytes)
        connection = _hand_over(answer.socket, answer.handle, memfd)
    finally:
        os.close(memfd)
    return Region(answer.handle, np.frombuffer(memory, np.uint8).ctypes.data, nbytes, connection), memory


def _hand_over(path: str, handle: int, memfd: int) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.settimeout(10)
        connection.connect(path)
        socket.send_fds(connection, [handle.to_bytes(8, "little")], [memfd])
        answer = connection.recv(1 << 16)
        if not answer:
            raise ConnectionError("%s: the server hung up" % path)
        if answer[0] != 0:
            raise from_status(answer[1:])
    except BaseException:
        connection.close()
        raise
    return connection


class SharedMemory:
    """The regions of one client, and transfers through them. Threads: any."""

    def __init__(self, call: Call, begin: Begin):
        self._call, self._begin = call, begin
        region, memory = share(call, 2 * PIECE)
        self._staging, self._pieces = region, np.frombuffer(memory, np.uint8)
        self._lock = threading.Lock()  # who holds it has the pieces
        # Of shared arrays, by handle.
        self._regions: Dict[int, Region] = {}

    def over(self, call: Call, begin: Begin) -> None:
        """Calls by these from now on."""
        self._call, self._begin = call, begin

    def empty(self, shape: Tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An array of zeros that is shared until it, and all that was made of it, is gone."""
        count = int(np.prod(shape, dtype=np.int64))
        region, memory = share(self._call, max(1, count * dtype.itemsize))
        self._regions[region.handle] = region
        weakref.finalize(memory, self._forget, region)
        return np.frombuffer(memory, dtype, count).reshape(shape)

    def _forget(self, region: Region) -> None:
        self._regions.pop(region.handle, None)
        region.connection.close()

    def close(self) -> None:
        """Shares nothing any more; arrays keep their bytes."""
        self._staging.connection.close()
        for region in list(self._regions.values()):
            region.connection.close()

    def upload(self, handle: int, offset: int, data: memoryview, progress: Progress) -> None:
        """`data` to a buffer's bytes from `offset` on."""
        source = np.frombuffer(data, np.uint8)

        def request(shared: int, at: int, start: int, size: int) -> buffer_service_pb2.CopyRequest:
            copy = buffer_service_pb2.CopyRequest(bytes=size)
            copy.from_shared.handle, copy.from_shared.offset = shared, at
            copy.to.handle, copy.to.offset = handle, offset + start
            return copy

        def fill(piece: np.ndarray, start: int) -> None:
            np.copyto(piece, source[start : start + len(piece)])

        self._transfer(source, request, fill, lambda piece, start: None, progress)

    def download(self, handle: int, offset: int, data: memoryview, progress: Progress) -> None:
        """A buffer's bytes from `offset` on to `data`."""
        target = np.frombuffer(data, np.uint8)

        def request(shared: int, at: int, start: int, size: int) -> buffer_service_pb2.CopyRequest:
            copy = buffer_service_pb2.CopyRequest(bytes=size)
            source = getattr(copy, "from")  # a word of Python's
            source.handle, source.offset = handle, offset + start
            copy.to_shared.handle, copy.to_shared.offset = shared, at
            return copy

        def empty(piece: np.ndarray, start: int) -> None:
            np.copyto(target[start : start + len(piece)], piece)

        self._transfer(target, request, lambda piece, start: None, empty, progress)

    def _transfer(self, data: np.ndarray, request: Callable[[int, int, int, int], Any],
                  before: Callable[[np.ndarray, int], None], after: Callable[[np.ndarray, int], None],
                  progress: Progress) -> None:
        place = self._place(data)
        if progress:
            progress(0, len(data))
        if place is None:
            with self._lock:
                self._through_pieces(len(data), request, before, after, progress)
            return
        self._call("BufferService.Copy", request(*place, 0, len(data)))
        if progress:
            progress(len(data), len(data))

    def holds(self, data: memoryview) -> bool:
        """Whether it lies in a shared array."""
        return len(data) > 0 and bool(self._regions) and self._place(np.frombuffer(data, np.uint8)) is not None

    def _place(self, data: np.ndarray) -> Optional[Tuple[int, int]]:
        """Handle and offset of what lies in a shared array."""
        address = data.ctypes.data
        for region in list(self._regions.values()):
            if region.address <= address and address + data.nbytes <= region.address + region.nbytes:
                return region.handle, address - region.address
        return None

    def _through_pieces(self, total: int, request: Callable[[int, int, int, int], Any],
                        before: Callable[[np.ndarray, int], None], after: Callable[[np.ndarray, int], None],
                        progress: Progress) -> None:
        under_way: Deque[Tuple[Callable[[], Any], np.ndarray, int]] = collections.deque()

        def finish() -> None:
            wait, piece, start = under_way.popleft()
            wait()
            after(piece, start)
            if progress:
                progress(start + len(piece), total)

        try:
            for number, start in enumerate(range(0, total, PIECE)):
                if len(under_way) == 2:
                    finish()
                at = number % 2 * PIECE
                piece = self._pieces[at : at + min(PIECE, total - start)]
                before(piece, start)
                copy = request(self._staging.handle, at, start, len(piece))
                under_way.append((self._begin("BufferService.Copy", copy), piece, start))
            while under_way:
                finish()
        finally:
            # The next transfer has these pieces: the server must be done with them.
            for wait, _, _ in under_way:
                try:
                    wait()
                except KilnError:
                    pass


def offered(target: str, call: Call, begin: Begin, features: Any) -> Optional[SharedMemory]:
    """The server's shared memory, if it offers any and it can be had from here.

    A server says which socket memory is handed to; one on another machine has no say in what is opened here.
    """
    if not stays_here(target):
        return None
    if FEATURE not in features or not hasattr(os, "memfd_create") or not hasattr(socket, "send_fds"):
        return None
    try:
        return SharedMemory(call, begin)
    except (KilnError, OSError):  # another machine, another user, no room: the socket does it, too
        return None
