"""Buffers of tinygrad on a Kiln server.

An opaque buffer is a Memory: a handle that this process owns, and a byte offset. A
view is the same handle with another offset and costs nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional
from weakref import WeakKeyDictionary

from tinygrad.device import BufferSpec, LRUAllocator

import kiln
from kiln.tinygrad import server


class Failures:
    """How many this process has seen: what was there when one came is not handed out again."""

    seen = 0

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.seen += isinstance(error, kiln.KilnError)


failures = Failures()


class Memory(NamedTuple):
    buffer: kiln.Buffer
    offset: int


def share_bytes(a: Memory, a_size: int, b: Memory, b_size: int) -> bool:
    return a.buffer is b.buffer and a.offset < b.offset + b_size and b.offset < a.offset + a_size


def copied(memory: Memory, count: int) -> Memory:
    """The memory's first `count` bytes, elsewhere on its device."""
    copy = server.client().allocate(count, device=memory.buffer.device)
    return Memory(copy.copy_from(memory.buffer, from_start=memory.offset, count=count), 0)


def transfer(target: Memory, source: Memory, count: int) -> None:
    """Copies bytes, on the server: from device to device, too."""
    target.buffer.copy_from(source.buffer, start=target.offset, from_start=source.offset, count=count)


class KilnAllocator(LRUAllocator):
    """tinygrad's allocator for KILN; freed sizes are kept for the next tensor of that size."""

    def __init__(self, dev: Any):
        super().__init__(dev, supports_copy_from_disk=False, supports_transfer=True)
        self._name = dev.server_device
        # How many failures had been seen when memory was handed out.
        self._failures_before: WeakKeyDictionary[kiln.Buffer, int] = WeakKeyDictionary()

    def alloc(self, size: int, options: Optional[BufferSpec] = None) -> Memory:
        """As tinygrad's, of memory that is there, and clean.

        What is kept may have gone with a session, or hold what a program left that failed.
        """
        kept = self.cache[(size, options)]
        while kept and (kept[-1].buffer.lost or self._failures_before.get(kept[-1].buffer) != failures.seen):
            kept.pop()
        memory = super().alloc(size, options)
        self._failures_before[memory.buffer] = failures.seen
        return memory

    def _alloc(self, size: int, options: BufferSpec) -> Memory:
        if options.external_ptr is not None:
            raise RuntimeError("memory of this process cannot be a buffer on KILN: copy it")
        try:
            # Awaited: if there is none, tinygrad gives back what it keeps, and asks again.
            return Memory(server.client().allocate(size, device=self._name, wait=True), 0)
        except kiln.ResourceExhausted as error:
            raise MemoryError(str(error)) from error

    def _free(self, opaque: Memory, options: BufferSpec) -> None:
        """Nothing: the handle goes back, unasked and without waiting, when the last view of it is gone."""

    def _copyin(self, dest: Memory, src: memoryview) -> None:
        dest.buffer.write_bytes(src, dest.offset)

    def _copyout(self, dest: memoryview, src: Memory) -> None:
        with failures:
            src.buffer.read_into(dest, src.offset)

    def _offset(self, buf: Memory, size: int, offset: int) -> Memory:
        return Memory(buf.buffer, buf.offset + offset)

    def _transfer(self, dest: Memory, src: Memory, sz: int, src_dev: Any, dest_dev: Any) -> None:
        transfer(dest, src, sz)
