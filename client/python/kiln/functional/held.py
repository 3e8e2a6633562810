"""What the parts of this package know of an array: its client, its buffer and its type.

array.py gives it operators and methods. Apart from that file because they stand on
tracing and on programs, and these on what an array is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Tuple, Type

from kiln.buffers import Buffer
from kiln.dtypes import DType
from kiln.errors import BufferFreed, GraphError
from kiln.handles import OnDevice

if TYPE_CHECKING:
    from kiln.client import Client

Spec = Tuple[int, Tuple[int, ...]]  # the number of a dtype, and a shape


class Held(OnDevice):
    """`client`; `spec`, its type as a key; `shared`: whether others may see the buffer, so that nothing may write it."""

    __slots__ = ("client", "spec", "shared", "_buffer", "_gone")
    _made: ClassVar[Type[Any]]
    client: Client

    def __init_subclass__(cls) -> None:
        if "_made" not in vars(Held):  # kiln.Array, and none of its subclasses
            Held._made = cls

    def __init__(self, client: Any, buffer: Buffer, shared: bool = False):
        self.client, self._buffer, self.shared = client, buffer, shared
        self.spec: Spec = (buffer.dtype.number, buffer.shape)
        self._gone = ""

    @property
    def buffer(self) -> Buffer:
        """The memory, to be read; what writes it changes every array that it is part of. BufferFreed after a donation."""
        if self._gone:
            raise BufferFreed(self._gone, remedy="use what the function returned")
        return self._buffer

    @property
    def dtype(self) -> DType:
        """Of its elements."""
        return self._buffer.dtype

    @property
    def shape(self) -> Tuple[int, ...]:
        """The size of each axis."""
        return self._buffer.shape

    @property
    def device(self) -> str:
        """Where it is, such as "CPU:0"."""
        return self._buffer.device

    def give_up(self, to: str) -> None:
        """From here on it raises BufferFreed."""
        self._gone = "the array was donated to %s" % to

    def own_buffer(self) -> Buffer:
        """A buffer with its content that may be written, now that the array is given up: its own if nobody else sees it."""
        return self.buffer.copy() if self.shared else self.buffer

    def _in_graph(self, graph: Any) -> Any:
        """As an operand beside a tensor of `graph`."""
        if not hasattr(graph, "capture"):
            raise GraphError("an array on a device is no part of a graph", code="BAD_ARGUMENT",
                             remedy="give it for a parameter, or write a function and kiln.jit it")  # fmt: skip
        return graph.capture(self)


def made(client: Any, buffer: Buffer) -> Any:
    """An array of a buffer that is nobody else's."""
    return Held._made(client, buffer)
