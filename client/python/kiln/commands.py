"""Commands of a stream, as bytes.

A SubmitRequest is one field, the command, and a tail that numbers it. Where a call of its
own has the same request as the command, the bytes are the same, too.
"""

from __future__ import annotations

import struct
from typing import Any, Iterator, Optional, Sequence

from kiln.encode import Bytes, buffer_ref, field, varint
from kiln.v1 import kernel_service_pb2

# A written piece, in bytes: as much as makes no other command wait long.
PIECE = 256 << 10

_TAG, _WRITE, _EXECUTE, _READ, _REPLAY = 0x12, 0x2A, 0x52, 0x5A, 0x72
# Of calls whose request is a command's.
_SAME = {"BufferService.Fill": 0x32, "BufferService.Copy": 0x3A, "BufferService.Free": 0x62}
_KIND = kernel_service_pb2.CollectiveCommand
_COLLECTIVES = {"Broadcast": _KIND.BROADCAST, "Scatter": _KIND.SCATTER, "Gather": _KIND.GATHER,
                "Reduce": _KIND.REDUCE, "AllGather": _KIND.ALL_GATHER,
                "ReduceScatter": _KIND.REDUCE_SCATTER, "AllReduce": _KIND.ALL_REDUCE}  # fmt: skip

FENCE = field(0x6A)


def tail(command: int, acknowledged: int, answer: bool) -> bytes:
    """The command's number, how far its answers have come, and whether it is to have one in any case."""
    return b"".join((b"\x08", varint(command), b"\x78\x01" if answer else b"", b"\x80\x01", varint(acknowledged)))


def hello(acknowledged: int) -> bytes:
    message = kernel_service_pb2.SubmitRequest(acknowledged=acknowledged)
    message.hello.protocol_min = message.hello.protocol_max = 1
    return message.SerializeToString()


def same(name: str, request: Any) -> bytes:
    """Of a call by this name, with this request: Fill, Copy, Free or a collective."""
    service, method = name.split(".")
    if service == "CollectiveService":
        message = kernel_service_pb2.SubmitRequest()
        message.collective.kind = _COLLECTIVES[method]
        message.collective.request.CopyFrom(request)
        return message.SerializeToString()
    return field(_SAME[name], request.SerializeToString())


def allocate(handle: int, request: Any) -> bytes:
    message = kernel_service_pb2.SubmitRequest()
    message.allocate.handle, message.allocate.device, message.allocate.bytes = handle, request.device, request.bytes
    if request.HasField("type"):
        message.allocate.type.CopyFrom(request.type)
    return message.SerializeToString()


def view(handle: int, request: Any) -> bytes:
    message = kernel_service_pb2.SubmitRequest()
    message.view.handle, message.view.bytes, message.view.dtype = handle, request.bytes, request.dtype
    message.view.of.CopyFrom(request.of)
    message.view.shape.extend(request.shape)
    return message.SerializeToString()


def writes(handle: int, offset: int, data: memoryview) -> Iterator[bytes]:
    for at in range(0, len(data), PIECE):
        piece = data[at : at + PIECE]
        yield field(_WRITE, field(0x0A, buffer_ref(handle, offset + at)), b"\x12", varint(len(piece)), piece)


def read(handle: int, offset: int, count: int) -> bytes:
    return field(_READ, field(0x0A, buffer_ref(handle, offset)), b"\x10", varint(count))


def frees(command: bytes) -> bool:
    return command[0] == _SAME["BufferService.Free"]


def without(free: bytes, handle: Optional[int]) -> Optional[bytes]:
    """The same Free but for one handle; None if there is nothing left, or it was not among them."""
    request = kernel_service_pb2.SubmitRequest.FromString(free).free
    rest = [other for other in request.handle if other != handle]
    if not rest or len(rest) == len(request.handle):
        return None
    return field(_SAME["BufferService.Free"], kernel_service_pb2.FreeCommand(handle=rest).SerializeToString())


def replay(request: bytes) -> bytes:
    """Of a ReplaySequenceRequest."""
    return field(_REPLAY, request)


def execute(request: Sequence[Bytes], results: Sequence[int], tag: str) -> bytes:
    """Of an ExecuteRequest in pieces; `results` are the names of its results, 0 for none."""
    named = field(0x12, struct.pack("<%dQ" % len(results), *results)) if results else b""
    marked = field(_TAG, tag.encode()) if tag else b""
    return field(_EXECUTE, field(0x0A, *request), named) + marked
