"""The same client without blocking: every call is awaited.

    async with await kiln.aio.connect("localhost:7437") as client:
        program = await client.compile(graph)
        x = await client.buffer(np.zeros((32, 64), np.float32))
        y = await program(x)
        print(await x.numpy())

Names, arguments and exceptions are those of kiln.connect, Client, Buffer and Program.
A Client belongs to the event loop it was made in (grpc.aio serves one loop at a time
in a process). Cancelling a task cancels its call at the server, but for
what is under way as a command (kiln.pipeline). Buffers that the garbage collector finds are given back by the loop;
those that are left when it ends without close(), by the server when the lease runs out.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Type, Union

import numpy as np

from kiln import arrays, buffers, client as blocking, program as programs, recording as recordings, sharding
from kiln.functional import current
from kiln.transport.addresses import addresses_of
from kiln.transport.aio_connection import Connection
from kiln.transport.credentials import TLS, Credentials
from kiln.handles import Awaited
from kiln.help import describe
from kiln.requests import check_files, compile_request, explain_request, gradient_request, options_with
from kiln.served.aio import Model
from kiln.served.models import INDEX, METADATA, versions_of
from kiln.served.tensors import Version
from kiln.session import LEASE
from kiln.transport.opening import Opening, first
from kiln.inference import grpc_service_pb2 as pb
from kiln.interchange.progress import Progress, told
from kiln.v1 import buffer_service_pb2, debug_service_pb2, device_service_pb2, kernel_service_pb2
from kiln.v1 import session_service_pb2
from kiln.waiting import awaited

__all__ = ["Buffer", "Client", "Program", "Recording", "Shards", "connect"]


class Buffer(Awaited, buffers.BufferLike):
    """kiln.Buffer, awaited. `async with` frees it; the collector does so without blocking."""

    _connection: Connection

    async def numpy(self, *, progress: Optional[Progress] = None) -> np.ndarray:
        """A new array of `shape`, the buffer's content; `progress(done, total)` counts bytes."""
        result = np.empty(self.shape, self.dtype.numpy)
        await self._connection.read(self.handle, 0, arrays.byte_view(result), told(progress))
        return result

    async def read(self, start: int = 0, count: Optional[int] = None) -> np.ndarray:
        """`count` elements from `start` on, counted row-major, as an array of rank 1; OutOfRange outside."""
        offset, size = self._range(start, count)
        result = np.empty(size // self.dtype.itemsize, self.dtype.numpy)
        await self._connection.read(self.handle, offset, arrays.byte_view(result), None)
        return result

    async def read_into(self, target: Any, offset: int = 0, *, progress: Optional[Progress] = None) -> None:
        """Bytes from byte `offset` on into a writable, contiguous memory; OutOfRange if it holds more than there are."""
        data = memoryview(target).cast("B")
        await self._connection.read(self.handle, self._offset(offset, data), data, told(progress))

    async def write(self, value: Any, start: Optional[int] = None, *, progress: Optional[Progress] = None) -> "Buffer":
        """Replaces the content: an array of `shape`; or with `start`, that many elements from there on.

        Raises ShapeError, DTypeError or OutOfRange where it does not fit, before anything is sent.
        """
        offset, data = self._data(value, start)
        await self._connection.write(self.handle, offset, data, told(progress))
        return self

    async def write_bytes(self, data: Any, offset: int = 0, *, progress: Optional[Progress] = None) -> "Buffer":
        """Contiguous memory of any kind, to byte `offset` on; OutOfRange if it does not fit."""
        data = memoryview(data).cast("B")
        await self._connection.write(self.handle, self._offset(offset, data), data, told(progress))
        return self

    async def fill(self, value: Any, start: int = 0, count: Optional[int] = None) -> "Buffer":
        """Sets `count` elements from `start` on (all) to one value, on the device."""
        request = self._fill_request(value, start, count)
        if request.bytes:
            await self._connection.perform("BufferService.Fill", request)
        return self

    async def copy_from(self, source: "Buffer", *, start: int = 0, from_start: int = 0,
                        count: Optional[int] = None) -> "Buffer":
        """Copies elements of `source` (all from `from_start` on) to `start`, on the device; they may overlap.

        Raises DTypeError for a source of another dtype, OutOfRange for elements that are not there.
        """
        request = self._copy_request(source, start, from_start, count)
        if request.bytes:
            await self._connection.perform("BufferService.Copy", request)
        return self

    async def copy(self) -> "Buffer":
        """A new buffer with the same content."""
        answer = await self._connection.allocate(self._like_request())
        return await Buffer(self._connection, answer).copy_from(self)

    async def view(self, shape: Any = None, dtype: Any = None, start: int = 0) -> "Buffer":
        """A second Buffer for a part, of another shape or dtype, that shares the memory; OutOfRange if it is not inside."""
        request = self._view_request(shape, dtype, start)
        return Buffer(self._connection, await self._connection.view(request, self.device))

    async def free(self) -> None:
        """Gives the handle back now; the memory lives until its last view is freed. Twice is once."""
        handle, self._handle = self._handle, None
        if handle is not None:
            await self._connection.free_now(handle)

    async def __aenter__(self) -> "Buffer":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Any) -> None:
        await self.free()


class Shards(Awaited, sharding.ShardsLike):
    """kiln.Shards, awaited."""

    async def numpy(self) -> np.ndarray:
        """A new array of the whole."""
        return await awaited(self._read())

    async def copy(self) -> "Shards":
        """A new array of the same content, on the same devices."""
        return Shards([await shard.copy() for shard in self.shards], self.axis)

    async def free(self) -> None:
        """Frees the buffer on each device. Twice is once."""
        for shard in self.shards:
            await shard.free()


class Program(programs.ProgramLike):
    """kiln.Program, awaited."""

    _connection: Connection
    _buffer = Buffer
    _shards = Shards

    async def __call__(self, *args: Any, out: str = "arrays", timeout: Optional[float] = None, **named: Any) -> Any:
        """Runs it once, on arguments in the order of slots or by name: as kiln.Program does, awaited."""
        return programs.unwrap((await self.run(self._slots(args, named), out=out, timeout=timeout)).results)

    async def run(self, arguments: Union[Mapping[int, Any], Sequence[Any]], *, out: str = "arrays",
                  timing: bool = False, timeout: Optional[float] = None, tag: str = "") -> programs.Run:
        """As a call, with arguments by slot (a dict) or in order, and with the server's timing if asked.

        `tag` comes back with a failure, where the call was not waited for (`error.tag`).
        """
        return await awaited(self._run(arguments, out, timing, timeout, tag))


class Recording(recordings.RecordingLike):
    """kiln.Recording, awaited."""

    _connection: Connection

    async def __call__(self, *arguments: Any, timeout: Optional[float] = None) -> None:
        """Runs the calls on these Buffers or At(buffer, offset), and with these integers, in the order of their numbers."""
        await self.run(*recordings.split(arguments), timeout=timeout)

    async def run(self, memory: Sequence[Union[Buffer, programs.At]], integers: Sequence[int] = (), *,
                  timing: bool = False, timeout: Optional[float] = None) -> kernel_service_pb2.Timing:
        """The same; with the server's timing if asked."""
        return await awaited(self._run(memory, integers, timing, timeout))


async def connect(target: Union[str, Sequence[str], None] = None, *, token: Optional[str] = None,
                  token_file: Optional[str] = None,
                  tls: Optional[TLS] = None, certificate: Optional[str] = None, key: Optional[str] = None,
                  insecure: bool = False, device: str = "", connect_timeout: Optional[float] = None,
                  timeout: Optional[float] = None, metadata: Sequence[Tuple[str, str]] = (), lease: int = LEASE,
                  stream: bool = True, **options: Any) -> "Client":
    """As kiln.connect, whose words say what each argument is; there is no memory that is shared with the server.

    Raises NoServer if nothing answers in time, WrongVersion if it speaks another protocol, Unauthenticated for a wrong
    token, NotFound for an unknown device.
    """
    defaults = options_with(kernel_service_pb2.CompileOptions(), options)
    addresses = addresses_of(current.address() if target is None else target)
    credentials = Credentials(addresses[0], token, token_file, tls, certificate, key, insecure, metadata)

    def make(address: str) -> Connection:
        credentials.check(address)
        return Connection(address, credentials, timeout, device, lease)

    how = Opening(make, lease, connect_timeout, stream, shared_memory=False, may_follow=credentials.may_follow)
    return Client(await awaited(first(how, addresses)), defaults)


class Client(blocking.ClientLike):
    """kiln.Client, awaited."""

    _connection: Connection

    async def compile(self, graph: Any, *, constants: Iterable[Any] = (), device: Optional[str] = None,
                      **options: Any) -> Program:
        """Compiles a Graph or a kiln.v1.Graph, or finds it compiled; kiln.Client.compile says what the options are.

        Raises InvalidArgument or Unimplemented with the node at fault: `error.node`, `error.op`, `error.tag`.
        """
        request = compile_request(self, graph, options, constants, device)
        response = await self._connection.call("KernelService.Compile", request)
        return Program(self._connection, request.graph.SerializeToString(), request.options, response, request.device)

    async def record(self, steps: recordings.Steps) -> Recording:
        """Calls of programs in a row, to be replayed in one round trip: [(program, arguments), …] (kiln.recording).

        Raises InvalidArgument where a call cannot be: `error.field` names it ("steps[3]").
        """
        request, recorded = recordings.request_of(self.device, steps)
        response = await self._connection.call("KernelService.RecordSequence", request)
        return Recording(self._connection, request, recorded, response)

    async def fence(self) -> None:
        """Returns when all that was asked for is done; raises the first failure that nobody has been told."""
        await self._connection.fence()

    async def gradient(self, graph: Any, wrt: Sequence[Any], *, result: int = 0, cotangent: Optional[int] = None,
                       include_results: bool = False) -> blocking.Gradient:
        """The graph of a result's gradient with respect to parameters (slots, or Tensors that are parameters).

        `cotangent` is a slot whose PARAM weights the result's elements; without it the result must have one element.
        """
        request = gradient_request(graph, wrt, result, cotangent, include_results)
        response = await self._connection.call("KernelService.Gradient", request)
        return blocking.Gradient(response.graph, list(response.results))

    async def explain(self, program: Any, *, stages: Sequence[str] = (), source: str = "",
                      options: Any = None) -> debug_service_pb2.ExplainResponse:
        """Every stage of a compilation as text, of a Graph, a Program or a cached hash; or its source in a language."""
        request = explain_request(self, program, stages, source, options)
        return await self._connection.call("DebugService.Explain", request)

    async def programs(self) -> debug_service_pb2.ListProgramsResponse:
        """What the server has compiled, and how often each was found."""
        return await self._connection.call("DebugService.ListPrograms", debug_service_pb2.ListProgramsRequest())

    async def models(self) -> List[Version]:
        """Which there are (kilnd --models), in which versions, and what has become of each.

        Raises PermissionDenied without the right to administer, InvalidArgument where the server has no folder of models.
        """
        return versions_of(await self._connection.call(INDEX, pb.RepositoryIndexRequest()))

    async def model(self, name: str, version: str = "") -> Model:
        """A model, by its version or the greatest that is ready: kiln.served.aio. Raises NotFound."""
        asked = pb.ModelMetadataRequest(name=name, version=version)
        return Model(self._connection, name, version, await self._connection.call(METADATA, asked))

    async def buffer(self, value: Any, dtype: Any = None, *, device: Optional[str] = None,
                     progress: Optional[Progress] = None) -> Buffer:
        """A Buffer with an array's dtype, shape and content (lists and numbers as numpy reads them).

        `progress(bytes done, bytes in all)` follows the upload; what it raises ends it. Raises UnsupportedDType, and
        ResourceExhausted where the device is full.
        """
        return await awaited(self._upload(value, dtype, device, progress))

    async def empty(self, shape: Any, dtype: Any = "float32", *, device: Optional[str] = None) -> Buffer:
        """A Buffer of zeros. Raises ShapeError, UnsupportedDType, ResourceExhausted."""
        request = buffers.type_request(self.device if device is None else device, shape, dtype)
        return Buffer(self._connection, await self._connection.allocate(request))

    zeros = empty

    async def arange(self, start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Buffer:
        """numpy.arange in a Buffer, made on the device, with numpy's dtype unless one is given.

        Raises InvalidArgument; DTypeError for fractions in a dtype of integers, and what the dtype does not hold.
        """
        return await awaited(self._arange(start, stop, step, dtype))

    async def random(self, shape: Any, dtype: Any = "float32", *, seed: int) -> Buffer:
        """Random numbers in a Buffer, made on the device: the same for the same seed, everywhere. Raises DTypeError."""
        return await awaited(self._random(shape, dtype, seed))

    async def tensors(self, file: str) -> List[buffer_service_pb2.StoredTensor]:
        """Name, type and bytes of each tensor in a .npy or .safetensors file of the server's data folder.

        Raises InvalidArgument where there is no such file; Unimplemented without a data folder.
        """
        check_files(self)
        request = buffer_service_pb2.ListTensorsRequest(file=file)
        return list((await self._connection.call("BufferService.ListTensors", request)).tensors)

    async def shards(self, value: Any, devices: Sequence[str], axis: Optional[int] = 0) -> Shards:
        """An array on several devices: an equal share of its rows each or, with axis=None, the whole on each.

        Raises ShapeError where the shares are not equal, and what buffer() does.
        """
        parts = sharding.shares(value, devices, axis)
        return Shards([await self.buffer(part, device=name) for name, part in parts], 0)

    async def load(self, file: str, names: Sequence[str] = (), *, device: Optional[str] = None) -> Dict[str, Buffer]:
        """Buffers by name with these tensors, or all, of a file that the server reads itself.

        Raises what tensors() does, and ResourceExhausted.
        """
        check_files(self)
        request = blocking.load_request(self.device, file, names, device)
        answer = await self._connection.call("BufferService.Load", request)
        return {row.name: Buffer(self._connection, row.buffer) for row in answer.tensors}

    async def allocate(self, nbytes: int, *, device: Optional[str] = None, wait: bool = False) -> Buffer:
        """Memory without a type: as a Buffer, uint8 of shape (nbytes,).

        With `wait`, and where it is much, ResourceExhausted is raised here, and not where it is first used.
        """
        request = buffers.bytes_request(self.device if device is None else device, nbytes)
        return Buffer(self._connection, await self._connection.allocate(request, wait))

    async def describe(self, buffer: Buffer) -> buffer_service_pb2.BufferDescription:
        """What the server knows of a buffer."""
        request = buffer_service_pb2.DescribeBufferRequest(handle=buffer.handle)
        return (await self._connection.call("BufferService.Describe", request)).buffer

    async def devices(self) -> List[device_service_pb2.Device]:
        """The server's devices with their memory figures."""
        request = device_service_pb2.ListDevicesRequest()
        return list((await self._connection.call("DeviceService.List", request)).devices)

    async def describe_device(self, name: str) -> device_service_pb2.Device:
        """One device with its memory figures; NotFound for a name that no device has."""
        request = device_service_pb2.DescribeDeviceRequest(name=name)
        return (await self._connection.call("DeviceService.Describe", request)).device

    async def usage(self, all_tenants: bool = False) -> List[session_service_pb2.UsageResponse.TenantUse]:
        """What the caller's tenant has of each quota, and may have; of all tenants with the right to administer."""
        request = session_service_pb2.UsageRequest(all_tenants=all_tenants)
        return list((await self._connection.call("SessionService.Usage", request)).tenants)

    async def health(self) -> None:
        """Returns if the server serves; Unavailable if it says it does not."""
        if self._connection.closed:
            raise self._connection.closed_error()
        check = self._connection.channel.unary_unary(blocking.HEALTH)
        blocking.check_health(await self._connection.finish(check(b"")), self.target)

    async def flush_frees(self) -> None:
        """Returns when the buffers that the garbage collector found are given back."""
        await self._connection.flush_frees()

    async def close(self) -> None:
        """Gives back every buffer that is left, and closes the connection. Twice is once."""
        await self._connection.close()

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Any) -> None:
        await self.close()


describe({name: globals()[name] for name in __all__}, "aio.")
