"""Calls without waiting: any number of them in one round trip.

    stream = client.stream()
    x = stream.buffer(np.ones(8, np.float32))     # nothing is waited for ...
    y = stream.run(program, x)
    print(y.numpy())                              # ... but here

What is sent takes effect in order. A call that fails spoils what it would have made or
written: whoever reads that gets the first failure, with its code, node and tag;
fence() raises the first that nobody has seen. Threads: any. A client has one stream.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from typing import Any, Deque, Dict, Iterator, List, Optional, Tuple

import grpc
import numpy as np

from kiln import arrays
from kiln.buffers import BufferLike
from kiln.collectives import Collectives
from kiln.dtypes import BY_NUMBER, DType, dtype as dtype_of, integer64
from kiln.errors import BufferFreed, ConnectionLost, DTypeError, InvalidArgument, KilnError, ShapeError, from_status
from kiln.program import ProgramLike, unwrap
from kiln.v1 import collective_service_pb2, kernel_service_pb2, tensor_pb2
from kiln.wire import CHUNK

SUBMIT = "KernelService.Submit"
# What DeviceService.List calls it.
FEATURE = "submit"

Request = kernel_service_pb2.SubmitRequest
Response = kernel_service_pb2.SubmitResponse

_Command = kernel_service_pb2.CollectiveCommand
_COLLECTIVES = {"Broadcast": _Command.BROADCAST, "Scatter": _Command.SCATTER, "Gather": _Command.GATHER,
                "Reduce": _Command.REDUCE, "AllGather": _Command.ALL_GATHER,
                "ReduceScatter": _Command.REDUCE_SCATTER, "AllReduce": _Command.ALL_REDUCE}  # fmt: skip


class Answer:
    """What one command is answered, when it is."""

    def __init__(self) -> None:
        self._there = threading.Event()
        self.data: List[bytes] = []
        self.error: Optional[KilnError] = None

    def end(self, error: Optional[KilnError] = None) -> None:
        self.error = error
        self._there.set()

    def wait(self, timeout: Optional[float]) -> bytes:
        if not self._there.wait(timeout):
            raise KilnError("no answer within %g s" % (timeout or 0), status=grpc.StatusCode.DEADLINE_EXCEEDED)
        if self.error is not None:
            raise self.error
        return b"".join(self.data)


class Marks:
    """How far a session's streams have come: a new one goes on where the last one was."""

    command = 0  # the last that was sent
    seen = 0  # all answers up to this command's have come
    handle = 0  # the last name given


class StreamBuffer:
    """An array that a stream has made, or will have: `shape`, `dtype`, `nbytes`."""

    def __init__(self, stream: "Stream", handle: int, shape: arrays.Shape, dtype: DType):
        self._stream, self._handle = stream, handle
        self.shape, self.dtype = shape, dtype
        self.size = arrays.count_of(shape)
        self.nbytes = self.size * dtype.itemsize

    def ref(self) -> tensor_pb2.BufferRef:
        return tensor_pb2.BufferRef(handle=self.handle)

    @property
    def handle(self) -> int:
        if self._handle == 0:
            raise BufferFreed("the buffer was freed")
        return self._handle

    def numpy(self, timeout: Optional[float] = None) -> np.ndarray:
        """Its content, once all that was sent before has ended; raises what spoilt it."""
        request = Request()
        request.read.buffer.handle = self.handle
        data = self._stream.ask(request).wait(timeout)
        return arrays.from_bytes(data, self.dtype, self.shape)

    def write(self, value: Any) -> "StreamBuffer":
        """Replaces the content with an array of the same dtype and shape."""
        array = arrays.host_array(value, self.dtype)
        if array.dtype != self.dtype.numpy:
            raise DTypeError("the buffer is %s, the array %s" % (self.dtype.name, array.dtype))
        if array.shape != self.shape:
            raise ShapeError("the buffer is %s, the array %s" % (self.shape, array.shape))
        data = arrays.byte_view(array)
        for at in range(0, len(data), CHUNK):
            request = Request()
            request.write.buffer.handle, request.write.buffer.offset = self.handle, at
            request.write.data = bytes(data[at : at + CHUNK])
            self._stream.send(request)
        return self

    def fill(self, value: Any) -> "StreamBuffer":
        request = Request()
        request.fill.buffer.handle = self.handle
        request.fill.pattern = arrays.element(value, self.dtype)
        self._stream.send(request)
        return self

    def copy(self) -> "StreamBuffer":
        """A new buffer with the same content."""
        result = self._stream.empty(self.shape, self.dtype)
        request = Request()
        getattr(request.copy, "from").handle = self.handle
        request.copy.to.handle = result.handle
        request.copy.bytes = self.nbytes
        self._stream.send(request)
        return result

    def free(self) -> None:
        """Gives it back, once all that was sent before has used it. Twice is once."""
        handle, self._handle = self._handle, 0
        if handle:
            self._stream.send(Request(free=kernel_service_pb2.FreeCommand(handle=[handle])))

    __del__ = free

    def __repr__(self) -> str:
        return "<StreamBuffer %s %s>" % (self.dtype.name, self.shape)


class Stream(Collectives):
    """Made by Client.stream()."""

    def __init__(self, connection: Any, marks: Marks):
        self._connection, self._marks = connection, marks
        # Taken by gRPC's thread, which numbers them: putting needs no lock, so that the
        # garbage collector may do it anywhere.
        self._outgoing: "queue.SimpleQueue[Optional[Tuple[Request, Optional[Answer]]]]" = queue.SimpleQueue()
        self._asked: Dict[int, Answer] = {}
        self._failures: Deque[KilnError] = deque(maxlen=1024)
        self._lock = threading.Lock()
        self._ended: Optional[KilnError] = None
        stub = connection.stub(SUBMIT)
        self._call = stub(self._requests(), metadata=connection.session.metadata)
        self._reader = threading.Thread(target=self._read, name="kiln-stream", daemon=True)
        self._reader.start()

    # -- what is asked

    def empty(self, shape: Any, dtype: Any = "float32", *, device: Optional[str] = None) -> StreamBuffer:
        """Zeros."""
        kind, sizes = dtype_of(dtype), arrays.shape_of(shape)
        result = StreamBuffer(self, self._name(), sizes, kind)
        request = Request()
        request.allocate.handle = result.handle
        request.allocate.device = self._connection.device if device is None else device
        request.allocate.type.dtype = kind.number
        request.allocate.type.shape.extend(sizes)
        self.send(request)
        return result

    def buffer(self, value: Any, dtype: Any = None, *, device: Optional[str] = None) -> StreamBuffer:
        """An array's dtype, shape and content."""
        array = arrays.host_array(value, None if dtype is None else dtype_of(dtype))
        if dtype is not None:
            array = array.astype(dtype_of(dtype).numpy, copy=False)
        result = self.empty(array.shape, array.dtype, device=device)
        return result.write(array) if array.size else result

    def run(self, program: ProgramLike, *args: Any, tag: str = "", **named: Any) -> Any:
        """Runs a program once; its results are StreamBuffers, or the buffers that it updates.

        Arguments are as for a call of the program, or StreamBuffers. `tag` comes back with
        a failure.
        """
        request = Request(tag=tag)
        execute = request.execute.request
        execute.graph_hash, execute.device = program.hash, self._connection.device
        execute.options.CopyFrom(program.options)
        values = program._slots(args, named)
        for slot, value in values.items():
            values[slot] = self._argument(program, slot, value, execute.arguments.add(slot=slot))
        results: List[Any] = []
        for row, alias in zip(program.signature.results, program._aliases):
            if alias is not None:
                results.append(values[program._order[alias]])
                request.execute.result_handle.append(0)
                continue
            if row.symbolic:
                raise InvalidArgument("a stream does not know the shape of a result that variables decide",
                                      remedy="call the program itself")  # fmt: skip
            results.append(StreamBuffer(self, self._name(), tuple(row.shape), BY_NUMBER[row.dtype]))
            request.execute.result_handle.append(results[-1].handle)
        self.send(request)
        return unwrap(tuple(results))

    def _argument(self, program: ProgramLike, slot: int, value: Any, message: Any) -> Any:
        if slot in program._variables:
            message.integer = integer64(value, "a variable")
            return value
        if not isinstance(value, (StreamBuffer, BufferLike)):
            # By value it would be gone with the call, and an update with it.
            value = self.buffer(program._array(slot, value))
        message.buffer.handle = value.handle
        return value

    def _collective(self, rpc: str, request: collective_service_pb2.CollectiveRequest) -> None:
        command = Request()
        command.collective.kind = _COLLECTIVES[rpc]
        command.collective.request.CopyFrom(request)
        self.send(command)

    def fence(self, timeout: Optional[float] = None) -> None:
        """Returns when all that was sent has ended; raises the first failure that nobody has seen."""
        self.ask(Request(fence=kernel_service_pb2.FenceCommand())).wait(timeout)
        if self._failures:
            error = self._failures.popleft()
            self._failures.clear()
            raise error

    @property
    def ended(self) -> bool:
        return self._ended is not None

    def close(self) -> None:
        """Ends the stream when all that was sent has ended. Twice is once."""
        self._outgoing.put(None)
        self._reader.join()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # -- the line

    def send(self, request: Request, answer: Optional[Answer] = None) -> None:
        if self._ended is not None:
            if answer is not None:
                answer.end(self._ended)
            return
        self._outgoing.put((request, answer))

    def ask(self, request: Request) -> Answer:
        answer = Answer()
        self.send(request, answer)
        return answer

    def _name(self) -> int:
        with self._lock:
            self._marks.handle += 1
            return self._marks.handle

    def _requests(self) -> Iterator[Request]:
        hello = kernel_service_pb2.SubmitHello(protocol_min=1, protocol_max=1)
        yield Request(hello=hello, acknowledged=self._marks.seen)
        while True:
            item = self._outgoing.get()
            if item is None:
                return
            request, answer = item
            self._marks.command += 1
            request.command_id = self._marks.command
            if answer is not None:
                self._asked[request.command_id] = answer
                if self._ended is not None:
                    answer.end(self._ended)
            request.acknowledged = self._marks.seen
            yield request

    def _read(self) -> None:
        error: Optional[KilnError] = None
        try:
            for response in self._call:
                if not response.HasField("welcome"):
                    self._take(response)
        except grpc.RpcError as failed:
            error = self._connection.failure(failed)
        # A close that was asked for leaves nothing unanswered.
        self._ended = error or ConnectionLost("the stream to %s has ended" % self._connection.target)
        for answer in list(self._asked.values()):
            answer.end(self._ended)
        while not self._outgoing.empty():
            item = self._outgoing.get()
            if item is not None and item[1] is not None:
                item[1].end(self._ended)
        self._outgoing.put(None)

    def _take(self, response: Response) -> None:
        answer = self._asked.get(response.command_id)
        if answer is not None and response.WhichOneof("event") == "data":
            answer.data.append(response.data)
        if response.more:
            return
        self._marks.seen = response.command_id
        self._asked.pop(response.command_id, None)
        error = None
        if response.HasField("failed"):
            error = from_status(response.failed.status, response.failed.tag,
                                response.failed.cause_command_id or response.command_id)  # fmt: skip
        if answer is not None:
            answer.end(error)
        elif error is not None:
            self._failures.append(error)
