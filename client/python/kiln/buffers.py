"""Arrays on a device.

    with client.buffer(np.arange(6.0)) as x:
        x[2:4].write([7.0, 8.0])
        print(x.numpy())

A Buffer owns a handle: free() or the end of a `with` gives it back now, the garbage
collector soon, without blocking. BufferLike is what kiln.aio's buffers share.
"""

from __future__ import annotations

from typing import Any, Iterator, Optional, Tuple, Type, TypeVar

import grpc
import numpy as np

from kiln import arrays
from kiln.transport.connection import Connection
from kiln.dtypes import DType, chosen, dtype as dtype_of, integer, position, uint8, void
from kiln.errors import BufferFreed, DTypeError, InvalidArgument, KilnError, OutOfRange, ShapeError
from kiln.handles import OnDevice
from kiln.interchange.dlpack import Exported
from kiln.interchange.pickled import load_buffer
from kiln.interchange.progress import Progress, told
from kiln.interchange.shown import shown
from kiln.transport.transfer import Download, Upload
from kiln.v1 import buffer_service_pb2, tensor_pb2
from kiln.waiting import blocking

Self = TypeVar("Self", bound="BufferLike")


class BufferLike(OnDevice):
    """What is known of a buffer without asking the server.

    `typed` says whether it is known what it holds; without that (Client.allocate) it goes for uint8.
    """

    # The call that has it as a result, while it waits or has brought the content along (deferred.py).
    _later: Optional[Any] = None

    def __init__(self, connection: Any, description: buffer_service_pb2.BufferDescription):
        """Takes ownership of the described handle."""
        self._connection = connection
        self._handle: Optional[int] = description.handle
        connection.live.add(description.handle)
        self.device: str = description.device
        self.nbytes: int = description.bytes
        self.typed = description.dtype not in (0, void.number)
        self.dtype: DType = dtype_of(description.dtype) if self.typed else uint8
        self.shape: arrays.Shape = tuple(description.shape) if self.typed else (description.bytes,)
        self.is_view = bool(description.view_of)

    @property
    def handle(self) -> int:
        """The server's name for it; BufferFreed if it was given back."""
        later = self._later
        if later is not None:
            later.place(self)
        if self._handle is None:
            raise BufferFreed("the buffer was freed")
        return self._handle

    @property
    def freed(self) -> bool:
        """Whether it was given back."""
        return self._later is None and self._handle is None

    @property
    def lost(self) -> bool:
        """Whether it went with a session that has ended, as far as this client knows."""
        return self._handle is not None and self._handle not in self._connection.live

    @property
    def size(self) -> int:
        """Elements."""
        return arrays.count_of(self.shape)

    @property
    def ndim(self) -> int:
        """Axes."""
        return len(self.shape)

    def ref(self, offset: int = 0) -> tensor_pb2.BufferRef:
        """As messages name it, from byte `offset` on."""
        return tensor_pb2.BufferRef(handle=self.handle, offset=offset)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a buffer of shape () has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        state = "freed" if self.freed else "on %s" % (self.device or "the device")
        return "<Buffer %s %s %s>" % (self.dtype.name, self.shape, state)

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None:
            self._connection.free_later(handle)

    # -- checks shared by both kinds of buffer

    def _range(self, start: int, count: Optional[int]) -> Tuple[int, int]:
        """(byte offset, bytes) of `count` elements from `start` on; OutOfRange outside."""
        start = integer(start, "a start")
        count = self.size - start if count is None else integer(count, "a count")
        if start < 0 or count < 0 or start + count > self.size:
            raise OutOfRange("elements %d to %d of a buffer of %d" % (start, start + count, self.size))
        return start * self.dtype.itemsize, count * self.dtype.itemsize

    def _offset(self, offset: int, data: memoryview) -> int:
        """The place of bytes; OutOfRange if they are not all in the buffer."""
        if not 0 <= integer(offset, "an offset") <= self.nbytes - len(data):
            raise OutOfRange("bytes %d to %d of a buffer of %d" % (offset, offset + len(data), self.nbytes))
        return offset

    def _like_request(self) -> buffer_service_pb2.AllocateRequest:
        """For a buffer of the same kind."""
        if not self.typed:
            return bytes_request(self.device, self.nbytes)
        return type_request(self.device, self.shape, self.dtype)

    def _data(self, value: Any, start: Optional[int]) -> Tuple[int, memoryview]:
        """(byte offset, bytes) of a write, checked."""
        array = arrays.host_array(value, self.dtype)
        if array.dtype != self.dtype.numpy:
            raise DTypeError("the buffer is %s, the array %s" % (self.dtype.name, array.dtype), code="DTYPE_MISMATCH",
                             remedy="convert it with astype")  # fmt: skip
        if start is None and array.shape != self.shape:
            raise ShapeError("the buffer is %s, the array %s" % (self.shape, array.shape),
                             remedy="reshape it, or give start= to write a part")  # fmt: skip
        offset, _ = self._range(start or 0, array.size)
        return offset, arrays.byte_view(array)

    def _view_request(self, shape: Any, dtype: Any, start: int) -> buffer_service_pb2.ViewRequest:
        kind = self.dtype if dtype is None else dtype_of(dtype)
        start = integer(start, "a start")
        if shape is None:
            rest = self.nbytes - start * self.dtype.itemsize
            shape = self.shape if start == 0 and kind is self.dtype else (rest // kind.itemsize,)
        sizes = arrays.shape_of(shape)
        size = arrays.count_of(sizes) * kind.itemsize
        offset = start * self.dtype.itemsize
        if start < 0 or offset + size > self.nbytes:
            raise OutOfRange("a view of %s %s at element %d is not inside %d bytes" %
                             (kind.name, sizes, start, self.nbytes))  # fmt: skip
        return buffer_service_pb2.ViewRequest(of=self.ref(offset), bytes=size, dtype=kind.number, shape=sizes)

    def _fill_request(self, value: Any, start: int, count: Optional[int]) -> buffer_service_pb2.FillRequest:
        offset, size = self._range(start, count)
        return buffer_service_pb2.FillRequest(buffer=self.ref(offset), bytes=size,
                                              pattern=arrays.element(value, self.dtype))  # fmt: skip

    def _copy_request(self, source: "BufferLike", start: int, from_start: int,
                      count: Optional[int]) -> buffer_service_pb2.CopyRequest:
        if source.dtype is not self.dtype:
            raise DTypeError("the buffer is %s, the source %s" % (self.dtype.name, source.dtype.name),
                             remedy="view one of them with the other's dtype")  # fmt: skip
        from_offset, size = source._range(from_start, count)
        offset, _ = self._range(start, size // self.dtype.itemsize)
        request = buffer_service_pb2.CopyRequest(to=self.ref(offset), bytes=size)
        request.__getattribute__("from").CopyFrom(source.ref(from_offset))
        return request

    def _rows(self, key: Any) -> Tuple[int, arrays.Shape]:
        """(start, shape) of buffer[key]: an int or a slice of step 1 along the first axis."""
        if not self.shape:
            raise IndexError("a buffer of shape () has no axis to index")
        row = arrays.count_of(self.shape[1:])
        if isinstance(key, slice):
            try:
                begin, end, step = key.indices(self.shape[0])
            except TypeError:
                raise DTypeError("rows are counted by integers, not as %r" % (key,)) from None
            if step != 1:
                raise InvalidArgument("a view has step 1, not %d" % step, remedy="slice the array, or in a graph")
            return begin * row, (max(end - begin, 0),) + self.shape[1:]
        at = position(key, "a row")
        if not -self.shape[0] <= at < self.shape[0]:
            raise OutOfRange("row %d of %d" % (at, self.shape[0]))
        return at % self.shape[0] * row, self.shape[1:]


def type_request(device: str, shape: Any, dtype: Any) -> buffer_service_pb2.AllocateRequest:
    """For zeros of a dtype and shape; UnsupportedDType for what is not stored."""
    kind, sizes = chosen("a buffer", dtype), arrays.shape_of(shape)
    if kind.itemsize == 0:
        raise DTypeError("no buffer holds %s" % kind.name, code="BAD_ARGUMENT")
    if arrays.count_of(sizes) * kind.itemsize >= 1 << 63:
        raise ShapeError("%s %s is more than any memory holds" % (kind.name, sizes), code="SIZE_OVERFLOW")
    request = buffer_service_pb2.AllocateRequest(device=device)
    request.type.dtype = kind.number
    request.type.shape.extend(sizes)
    return request


def bytes_request(device: str, nbytes: int) -> buffer_service_pb2.AllocateRequest:
    """For memory without a type."""
    if not 0 <= integer(nbytes, "a size") < 1 << 64:
        raise ShapeError("no memory has so many bytes", code="SIZE_OVERFLOW")
    return buffer_service_pb2.AllocateRequest(device=device, bytes=nbytes)


def write_to(connection: Connection, handle: int, offset: int, data: memoryview, progress: Optional[Progress]) -> None:
    """Uploads `data`; what `progress` raises ends the upload and is raised here."""
    if connection.pipeline.on and progress is None and connection.small(data):
        blocking(connection._write_small(handle, offset, data))
        return
    progress = told(progress)
    if connection.shared_memory is not None and len(data):
        connection.shared_memory.upload(handle, offset, data, progress)
        return
    connection.settle()
    upload = Upload(handle, offset, data, progress)
    stub = connection.stub("BufferService.Write", raw_request=True)
    try:
        connection.start(stub, iter(upload))
    except KilnError as error:
        raise upload.failure or error from None
    connection.count("BufferService.Write", upload.sent, 0)


def read_from(connection: Connection, handle: int, offset: int, target: memoryview,
              progress: Optional[Progress]) -> None:
    """Downloads len(target) bytes into `target`."""
    if connection.pipeline.on and len(target) and progress is None and connection.small(target):
        blocking(connection._read_small(handle, offset, target))
        return
    progress = told(progress)
    if connection.shared_memory is not None and len(target):
        connection.shared_memory.download(handle, offset, target, progress)
        return
    download = Download(target, progress)
    if len(target) == 0:  # 0 in a ReadRequest means: to the end
        return
    connection.settle()
    request = buffer_service_pb2.ReadRequest(bytes=len(target))
    request.buffer.handle, request.buffer.offset = handle, offset
    messages = connection.start(connection.stub("BufferService.Read", raw_response=True), request)
    try:
        for message in messages:
            download.take(message)
    except grpc.RpcError as error:
        raise connection.failure(error) from None
    finally:
        messages.cancel()
    download.finish()
    connection.count("BufferService.Read", request.ByteSize(), download.received)


class Buffer(BufferLike, Exported):
    """An array on a device, by handle: `shape`, `dtype`, `nbytes`, `device`.

    Made by Client.buffer, Client.empty and by programs. Without a type (Client.allocate)
    it is uint8 of shape (nbytes,). Every method raises BufferFreed after free(), and a
    KilnError if the server or the connection fails.
    """

    _connection: Connection
    _load = staticmethod(load_buffer)

    @classmethod
    def _of_deferred(cls, connection: Connection, call: Any, device: str, nbytes: int, dtype: DType,
                     shape: arrays.Shape) -> "Buffer":
        """A result of a call that waits."""
        made = cls.__new__(cls)
        made._connection, made._handle, made._later = connection, None, call
        made.device, made.nbytes, made.typed, made.dtype, made.shape, made.is_view = device, nbytes, True, dtype, shape, False
        return made

    # -- to the host

    def numpy(self, *, progress: Optional[Progress] = None) -> np.ndarray:
        """A new array of `shape`, the buffer's content; `progress(done, total)` counts bytes (kiln/interchange/progress.py)."""
        later = self._later
        content = later.content(self) if later is not None and progress is None else None
        if content is not None:
            return content.copy()
        result = np.empty(self.shape, self.dtype.numpy)
        read_from(self._connection, self.handle, 0, arrays.byte_view(result), progress)
        return result

    def read(self, start: int = 0, count: Optional[int] = None) -> np.ndarray:
        """`count` elements from `start` on, counted row-major, as an array of rank 1.

        Raises OutOfRange if they are not all in the buffer.
        """
        offset, size = self._range(start, count)
        result = np.empty(size // self.dtype.itemsize, self.dtype.numpy)
        read_from(self._connection, self.handle, offset, arrays.byte_view(result), None)
        return result

    def read_into(self, target: Any, offset: int = 0, *, progress: Optional[Progress] = None) -> None:
        """Bytes from byte `offset` on into a writable, contiguous memory (bytearray, array, memoryview)."""
        data = memoryview(target).cast("B")
        read_from(self._connection, self.handle, self._offset(offset, data), data, progress)

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
        return arrays.of_device(self.numpy, dtype, copy)

    def _exported(self) -> "Buffer":
        return self

    def _repr_html_(self) -> str:
        return shown("Buffer", self.dtype.name, self.shape, self.device, self.read)

    # -- to the device

    def write(self, value: Any, start: Optional[int] = None, *, progress: Optional[Progress] = None) -> "Buffer":
        """Replaces the content: an array of `shape`; or with `start`, that many elements from there on.

        Raises ShapeError, DTypeError or OutOfRange where it does not fit. An array that is
        not contiguous is copied once.
        """
        offset, data = self._data(value, start)
        write_to(self._connection, self.handle, offset, data, progress)
        return self

    def write_bytes(self, data: Any, offset: int = 0, *, progress: Optional[Progress] = None) -> "Buffer":
        """Contiguous memory of any kind, to byte `offset` on."""
        data = memoryview(data).cast("B")
        write_to(self._connection, self.handle, self._offset(offset, data), data, progress)
        return self

    def fill(self, value: Any, start: int = 0, count: Optional[int] = None) -> "Buffer":
        """Sets `count` elements from `start` on (all) to one value, on the device."""
        request = self._fill_request(value, start, count)
        if request.bytes:
            self._connection.perform("BufferService.Fill", request)
        return self

    def copy_from(self, source: "Buffer", *, start: int = 0, from_start: int = 0,
                  count: Optional[int] = None) -> "Buffer":
        """Copies elements of `source` (all from `from_start` on) to `start`, on the device; they may overlap."""
        request = self._copy_request(source, start, from_start, count)
        if request.bytes:
            self._connection.perform("BufferService.Copy", request)
        return self

    def copy(self) -> "Buffer":
        """A new buffer with the same content; copy.copy and copy.deepcopy make one, too."""
        return Buffer(self._connection, self._connection.allocate(self._like_request())).copy_from(self)

    # -- parts

    def view(self, shape: Any = None, dtype: Any = None, start: int = 0) -> "Buffer":
        """A second Buffer for a part, of another shape or dtype: it shares the memory.

        It begins at element `start` of this one. Raises OutOfRange if it is not inside.
        """
        request = self._view_request(shape, dtype, start)
        return type(self)(self._connection, self._connection.view(request, self.device))

    def __iter__(self) -> "Iterator[Buffer]":
        if not self.shape:
            raise TypeError("a buffer of shape () has no rows")
        return (self[row] for row in range(len(self)))

    def __getitem__(self, key: Any) -> "Buffer":
        """A view of a row, or of rows begin:end."""
        start, shape = self._rows(key)
        return self.view(shape, None, start)

    # -- its end

    def free(self) -> None:
        """Gives the handle back now; the memory lives until its last view is freed. Twice is once."""
        if self._later is not None and not self._connection.closed:
            with self._connection.pipeline.order:  # the call that it is a result of may just be sent
                self._later = None
        handle, self._handle = self._handle, None
        if handle is not None:
            self._connection.free_now(handle)

    def __enter__(self) -> "Buffer":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Any) -> None:
        self.free()
