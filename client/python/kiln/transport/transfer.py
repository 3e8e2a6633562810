"""Uploads and downloads in chunks, with each byte copied once on this side.

The chunks' protobuf framing is written and read by hand: a WriteRequest is two tags
before the data, a ReadResponse is one.
"""

from __future__ import annotations

from typing import Callable, Iterator, Optional

from google.protobuf.message import DecodeError

from kiln.encode import buffer_ref, field, varint
from kiln.errors import Internal
from kiln.v1 import buffer_service_pb2
from kiln.transport.wire import CHUNK

# Called as progress(bytes done, bytes in all), first with 0 done.
Progress = Callable[[int, int], None]


def write_header(handle: int, offset: int, total: int) -> bytes:
    """WriteRequest.header = 1 {buffer = 1, bytes = 2}."""
    return field(0x0A, field(0x0A, buffer_ref(handle, offset)), b"\x10", varint(total))


class Upload:
    """The messages of one Write.

    gRPC pulls them from a thread of its own; an exception that `progress` raises ends
    the upload and waits in `failure` for the caller's thread.
    """

    def __init__(self, handle: int, offset: int, data: memoryview, progress: Optional[Progress] = None):
        self._handle, self._offset, self._data, self._progress = handle, offset, data, progress
        self.failure: Optional[BaseException] = None
        self.sent = 0

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._messages()
        except Exception as failure:
            self.failure = failure
            raise

    def _messages(self) -> Iterator[bytes]:
        total = len(self._data)
        header = write_header(self._handle, self._offset, total)
        self.sent += len(header)
        if self._progress:
            self._progress(0, total)
        yield header
        for start in range(0, total, CHUNK):
            chunk = self._data[start : start + CHUNK]  # WriteRequest.chunk = 2
            message = b"".join((b"\x12", varint(len(chunk)), chunk))
            self.sent += len(message)
            yield message
            if self._progress:
                self._progress(start + len(chunk), total)


class Download:
    """Takes the messages of one Read and lays their bytes into `target`."""

    def __init__(self, target: memoryview, progress: Optional[Progress] = None):
        self._target, self._progress = target, progress
        self.done = 0
        self.received = 0
        if progress:
            progress(0, len(target))

    def finish(self) -> None:
        """Internal if bytes are missing."""
        if self.done < len(self._target):
            raise Internal("the server sent %d of %d bytes" % (self.done, len(self._target)))

    def take(self, message: bytes) -> None:
        self.received += len(message)
        chunk = chunk_of(message)
        end = self.done + len(chunk)
        if end > len(self._target):
            raise Internal("the server sent more than the %d bytes asked for" % len(self._target))
        self._target[self.done : end] = chunk
        self.done = end
        if self._progress:
            self._progress(end, len(self._target))


def chunk_of(message: bytes) -> memoryview:
    """The chunk of a serialized ReadResponse, without a copy where the framing is as usual."""
    view = memoryview(message)
    if len(view) > 1 and view[0] == 0x0A:
        length, shift, at = 0, 0, 1
        while at < len(view):
            byte = view[at]
            length |= (byte & 0x7F) << shift
            shift += 7
            at += 1
            if byte < 0x80:
                break
        if at + length == len(view):
            return view[at:]
    try:
        return memoryview(buffer_service_pb2.ReadResponse.FromString(message).chunk)
    except DecodeError:
        raise Internal("the server sent a piece of a buffer that cannot be read") from None
