"""Messages that are written by hand, because they come often or carry much.

Protobuf's wire format lets two encodings be joined: the second adds to the first.
So a program keeps the unchanging part of its ExecuteRequest as bytes, and a call
appends its arguments: a handle is 15 bytes packed at once, or 8 among its like, an array
is copied once, into the message itself.
"""

from __future__ import annotations

import functools
import struct
from typing import List, Sequence, Tuple, Union

Bytes = Union[bytes, memoryview]


def varint(value: int) -> bytes:
    """An unsigned varint, of 64 bits at most."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(tag: int, *parts: Bytes) -> bytes:
    """A length-delimited field: `tag` is (number << 3) | 2."""
    return b"".join((varint(tag), varint(sum(len(part) for part in parts)), *parts))


# ExecuteRequest.arguments is field 5: tag 0x2a. Argument: slot 1 (varint), buffer 2,
# tensor 3, integer 4 (zigzag). BufferRef: handle 1 (fixed64), offset 2 (varint).
_SHORT_HEADS = [bytes((0x2A, 13, 0x08, slot, 0x12, 9, 0x09)) for slot in range(128)]
_SHORT_HANDLE = struct.Struct("<7sQ")


def handle_argument(slot: int, handle: int, offset: int = 0) -> bytes:
    """An argument by handle, from byte `offset` of the buffer on."""
    if offset == 0 and slot < 128:
        return _SHORT_HANDLE.pack(_SHORT_HEADS[slot], handle)
    return field(0x2A, b"\x08", varint(slot), field(0x12, buffer_ref(handle, offset)))


def handle_arguments(slot: int, handles: Sequence[int]) -> bytes:
    """Whole buffers, for `slot` and those that follow it: 8 bytes each."""
    if len(handles) == 1:
        return handle_argument(slot, handles[0])
    # Handles: handle 1 (packed fixed64).
    packed = struct.pack("<%dQ" % len(handles), *handles)
    return field(0x2A, b"\x08", varint(slot), field(0x32, field(0x0A, packed)))


def shards_argument(slot: int, places: Sequence[Tuple[int, int]]) -> bytes:
    """One handle and offset a device, for a parameter on several. BufferRefs: buffer 1."""
    refs = [field(0x0A, buffer_ref(*place)) for place in places]
    return field(0x2A, b"\x08", varint(slot), field(0x2A, *refs))


def buffer_ref(handle: int, offset: int = 0) -> bytes:
    head = b"\x09" + struct.pack("<Q", handle)
    return head + b"\x10" + varint(offset) if offset else head


def zigzag(value: int) -> int:
    """An int64 as protobuf's sint64 has it."""
    if not -(1 << 63) <= value < 1 << 63:
        raise OverflowError("%d does not fit int64" % value)
    return ((value << 1) ^ (value >> 63)) & (1 << 64) - 1


def integer_argument(slot: int, value: int) -> bytes:
    """A variable's value: an int64."""
    return field(0x2A, b"\x08", varint(slot), b"\x20", varint(zigzag(value)))


def tensor_argument(slot: int, dtype: int, shape: Sequence[int], data: memoryview) -> List[Bytes]:
    """An argument by value, in pieces to be joined: `data` stands among them, uncopied."""
    return [_tensor_head(slot, dtype, tuple(shape), len(data)), data]


# A program is called with arrays of the same few types over and over.
@functools.lru_cache(maxsize=1024)
def _tensor_head(slot: int, dtype: int, shape: Tuple[int, ...], size: int) -> bytes:
    dims = b"".join(map(varint, shape))
    # Tensor: dtype 1 (enum), shape 2 (packed), data 3.
    head = b"\x08" + varint(dtype) + (field(0x12, dims) if dims else b"")
    data_head = b"\x1a" + varint(size)
    tensor_head = b"\x1a" + varint(len(head) + len(data_head) + size)
    slot_part = b"\x08" + varint(slot)
    total = len(slot_part) + len(tensor_head) + len(head) + len(data_head) + size
    return b"\x2a" + varint(total) + slot_part + tensor_head + head + data_head


def graph_field(graph: bytes) -> List[Bytes]:
    """ExecuteRequest.graph, for a server that has forgotten it."""
    return [b"\x12" + varint(len(graph)), graph]


# ReplaySequenceRequest: recording 1 (bytes), buffers 2 (BufferRef), integers 3 (packed
# zigzag), want_timing 4, handles 5 (packed fixed64), which come behind the buffers.
REPLAY_TIMING = b"\x20\x01"


def recording_field(recording: bytes) -> bytes:
    return field(0x0A, recording)


def replayed_memory(places: Sequence[Tuple[int, int]]) -> List[bytes]:
    """Handles and offsets. All behind the last offset that is not 0 take 8 bytes each."""
    short = len(places)
    while short and places[short - 1][1] == 0:
        short -= 1
    pieces = [field(0x12, buffer_ref(*place)) for place in places[:short]]
    handles = [handle for handle, _ in places[short:]]
    return [*pieces, field(0x2A, struct.pack("<%dQ" % len(handles), *handles))] if handles else pieces


def replayed_integers(values: Sequence[int]) -> List[bytes]:
    return [field(0x1A, *(varint(zigzag(value)) for value in values))] if values else []
