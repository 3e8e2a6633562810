"""A Kiln server, as Python sees it.

    with kiln.connect("localhost:7437") as client:
        graph = kiln.Graph()
        x = graph.param("x", (32, 64), "float32")
        graph.output(kiln.softmax(x, axis=-1))
        program = client.compile(graph)
        y = program(np.zeros((32, 64), np.float32))

Every failure is a KilnError (kiln/errors.py). A Client may be used from many threads
at once; calls block (kiln.aio has the same without; ClientLike is what they share).
"""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Type, Union

import numpy as np

from kiln import arrays, buffers, recording

from kiln.buffers import Buffer
from kiln.collectives import Collectives
from kiln.transport.addresses import addresses_of
from kiln.transport.connection import Connection, Traffic
from kiln.transport.credentials import TLS, Credentials
from kiln.dtypes import dtype as dtype_of
from kiln.errors import Unavailable
from kiln.functional import current
from kiln.handles import Single
from kiln.made import Making
from kiln.program import Program
from kiln.recording import Recording, Steps
from kiln.requests import check_files, compile_request, explain_request, gradient_request, options_with
from kiln.served import models as served
from kiln.served.tensors import Version
from kiln.session import LEASE
from kiln.transport.opening import Opening, first
from kiln.inference import grpc_service_pb2 as pb
from kiln.interchange.progress import Progress
from kiln.sharding import Shards, shares
from kiln.v1 import buffer_service_pb2, debug_service_pb2, device_service_pb2, graph_pb2, kernel_service_pb2
from kiln.v1 import session_service_pb2
from kiln.waiting import Waits, blocking


class Gradient(NamedTuple):
    """A gradient's graph, and the type of each of its results (kiln.v1.Signature.Result)."""

    graph: graph_pb2.Graph
    results: Sequence[Any]


# Its messages are not generated: what serves answers status 1, SERVING, and no more.
HEALTH = "/grpc.health.v1.Health/Check"


def check_health(answer: bytes, target: str) -> None:
    if answer != b"\x08\x01":
        raise Unavailable("the server at %s says it does not serve" % target)


def load_request(default: str, file: str, names: Sequence[str],
                 device: Optional[str]) -> buffer_service_pb2.LoadRequest:
    if isinstance(names, str):
        raise TypeError("names is a list of names")
    return buffer_service_pb2.LoadRequest(file=file, tensor=names, device=default if device is None else device)


def upload_array(value: Any, dtype: Any) -> np.ndarray:
    """What Client.buffer sends: in `dtype`, or in its own."""
    kind = None if dtype is None else dtype_of(dtype)
    array = arrays.host_array(value, kind)
    return array if kind is None else array.astype(kind.numpy, copy=False)


def connect(target: Union[str, Sequence[str], None] = None, *, token: Optional[str] = None,
            token_file: Optional[str] = None,
            tls: Optional[TLS] = None, certificate: Optional[str] = None, key: Optional[str] = None,
            insecure: bool = False, device: str = "", connect_timeout: Optional[float] = None,
            timeout: Optional[float] = None, metadata: Sequence[Tuple[str, str]] = (), lease: int = LEASE,
            shared_memory: bool = True, stream: bool = True, **options: Any) -> "Client":
    """Connects to a kilnd at "host:port"; without an address, where KILN_ADDR says, or on this machine.

    Of several addresses ("a:7437,b:7437") it takes the first that answers, and others where that one stops or is
    gone: for programs and calls with arrays. Buffers end with their server; using one says so. Ports and
    paths: kiln/transport/addresses.py.

    The client is then the current one, on which kiln.array and functions of numpy arrays work.

    token            says who asks: sent with every call, as a bearer token
    token_file       a file that has it, read again when it changes
    tls              True for the system's roots, a file of PEM roots, or grpc credentials; False: no encryption
    certificate, key files of this client's own, PEM, for a server that knows its clients so
    insecure         lets a token travel to another machine without encryption, where something else encrypts
    device           where graphs are compiled and buffers allocated; "": the server's first
    connect_timeout  seconds to wait for the server; None: 10, and not much more than one where it refuses connections
    timeout          seconds any one call may take; None: no limit
    lease            seconds after which a server that hears nothing more of this process
                     frees its buffers; 0: never
    shared_memory    whether to move data through memory that is shared with a server on this
                     machine, if it offers that; Client.transport says what came of it
    stream           whether what need not be waited for is not: buffers are made and written, and
                     programs run with out="buffers", in one flight. What fails is then raised
                     where its result is first used. It needs a lease, and a server that has it
    options          of all that this client compiles, as Client.compile takes them: no_contraction, …

    Raises NoServer if nothing answers in time, WrongVersion if it speaks another
    protocol, Unauthenticated for a wrong token, NotFound for an unknown device.
    Of credentials that are not given, the environment is asked (kiln/transport/credentials.py).
    """
    addresses = addresses_of(current.address() if target is None else target)
    defaults = options_with(kernel_service_pb2.CompileOptions(), options)
    credentials = Credentials(addresses[0], token, token_file, tls, certificate, key, insecure, metadata)

    def make(address: str) -> Connection:
        credentials.check(address)
        return Connection(address, credentials, timeout=timeout, device=device, lease=lease)

    how = Opening(make, lease, connect_timeout, stream, shared_memory, credentials.may_follow)
    client = Client(blocking(first(how, addresses)), defaults)
    current.announce(client)
    return client


class ClientLike(Single, Collectives, Making):
    """`features` and `server_version` are what the server says of itself; `options` (kiln.v1.CompileOptions)
    are those of what is compiled where nothing else is said."""

    def __init__(self, connection: Any, options: kernel_service_pb2.CompileOptions):
        self._connection = connection
        self.options = options
        self._makers = {}
        self._kept: Dict[str, Any] = {}  # programs of kiln.functional's

    @property
    def features(self) -> FrozenSet[str]:
        """What the server says that it can, by names."""
        return frozenset(self._connection.server.features)

    @property
    def server_version(self) -> str:
        """The server's release."""
        return self._connection.server.server_version

    @property
    def target(self) -> str:
        """The address of the server that it is at."""
        return self._connection.target

    @property
    def device(self) -> str:
        """Where graphs are compiled and buffers allocated, unless a call says otherwise."""
        return self._connection.device

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._connection.closed

    @property
    def traffic(self) -> Dict[str, Traffic]:
        """Calls and bytes so far, by call ("KernelService.Execute")."""
        return self._connection.traffic

    @property
    def transport(self) -> str:
        """How data moves: "shared memory", "unix socket" or "tcp"."""
        if self._connection.shared_memory is not None:
            return "shared memory"
        return "unix socket" if self.target.startswith("unix:") else "tcp"

    def shared_empty(self, shape: Any, dtype: Any = "float32") -> np.ndarray:
        """An array of zeros that write(), read_into() and buffer() move without a copy on this side.

        Where the server shares no memory it is an array like any other.
        """
        kind, sizes = dtype_of(dtype).numpy, arrays.shape_of(shape)
        shared = self._connection.shared_memory
        return np.zeros(sizes, kind) if shared is None else shared.empty(sizes, np.dtype(kind))

    def _upload(self, value: Any, dtype: Any, device: Optional[str], progress: Optional[Progress]) -> Waits[Any]:
        array = upload_array(value, dtype)
        result = yield self.empty(array.shape, array.dtype, device=device)
        try:
            if array.size:
                yield result.write_bytes(arrays.byte_view(array), progress=progress)
        except BaseException:
            yield result.free()
            raise
        return result


class Client(ClientLike):
    """Made by connect()."""

    _connection: Connection
    _server: Optional[Any] = None  # what ends with this client (kiln.local)

    # -- programs

    def compile(self, graph: Any, *, constants: Iterable[Any] = (), device: Optional[str] = None,
                **options: Any) -> Program:
        """Compiles a Graph or a kiln.v1.Graph, or finds it compiled.

        The program runs on `device`, or on the client's; what is on several says so itself.

        `constants` are parameters that stay the same over many calls, such as weights: slots,
        names, or Tensors. Copies of them in the order in which kernels read them are kept on
        the device with the buffers, for as long as nothing writes to these.
        Options: no_contraction, deterministic, fast_math, strict, beam, beam_budget_ms
        (kiln.v1.CompileOptions); those that are not given are the client's.
        Raises InvalidArgument or Unimplemented with the node at fault: `error.node`,
        `error.op`, `error.tag`.
        """
        return self._compiled(compile_request(self, graph, options, constants, device))

    def _compiled(self, request: kernel_service_pb2.CompileRequest) -> Program:
        response = self._connection.call("KernelService.Compile", request)
        return Program(self._connection, request.graph.SerializeToString(), request.options, response, request.device)

    def record(self, steps: Steps) -> Recording:
        """Calls of programs in a row, to be replayed in one round trip: [(program, arguments), …] (kiln.recording).

        Raises InvalidArgument where a call cannot be: `error.field` names it ("steps[3]").
        """
        return recording.record(self._connection, steps)

    def fence(self) -> None:
        """Returns when all that was asked for is done; raises the first failure that nobody has been told."""
        self._connection.fence()

    def gradient(self, graph: Any, wrt: Sequence[Any], *, result: int = 0, cotangent: Optional[int] = None,
                 include_results: bool = False) -> Gradient:
        """The graph of a result's gradient with respect to parameters (slots, or Tensors that are parameters).

        `cotangent` is a slot that the graph does not use: its PARAM then weights the
        result's elements; without it the result must have one element. For compile(), or
        for Graph.append().
        """
        request = gradient_request(graph, wrt, result, cotangent, include_results)
        response = self._connection.call("KernelService.Gradient", request)
        return Gradient(response.graph, list(response.results))

    def explain(self, program: Any, *, stages: Sequence[str] = (), source: str = "",
                options: Any = None) -> debug_service_pb2.ExplainResponse:
        """Every stage of a compilation as text, of a Graph, a Program or a hash in the cache.

        `source` compiles to source in a language instead, c, cuda, hip, opencl or metal, or to a
        GPU's assembly: sm_90a, gfx942.
        """
        request = explain_request(self, program, stages, source, options)
        return self._connection.call("DebugService.Explain", request)

    def programs(self) -> debug_service_pb2.ListProgramsResponse:
        """What the server has compiled, and how often each was found."""
        return self._connection.call("DebugService.ListPrograms", debug_service_pb2.ListProgramsRequest())

    # -- models that the server serves

    def models(self) -> List[Version]:
        """Which there are (kilnd --models), in which versions, and what has become of each.

        Raises PermissionDenied without the right to administer, InvalidArgument where the server has no folder of models.
        """
        return served.versions_of(self._connection.call(served.INDEX, pb.RepositoryIndexRequest()))

    def model(self, name: str, version: str = "") -> served.Model:
        """A model, by its version or the greatest that is ready: kiln.served. Raises NotFound."""
        asked = pb.ModelMetadataRequest(name=name, version=version)
        return served.Model(self._connection, name, version, self._connection.call(served.METADATA, asked))

    # -- buffers

    def buffer(self, value: Any, dtype: Any = None, *, device: Optional[str] = None,
               progress: Optional[Progress] = None) -> Buffer:
        """A Buffer with an array's dtype, shape and content (lists and numbers as numpy reads them).

        `progress(bytes done, bytes in all)`, or `update(bytes more)`, follows the upload; what it raises ends it. An
        array that is not contiguous is copied once. Raises UnsupportedDType, and
        ResourceExhausted where the device is full.
        """
        return blocking(self._upload(value, dtype, device, progress))

    def empty(self, shape: Any, dtype: Any = "float32", *, device: Optional[str] = None) -> Buffer:
        """A Buffer of zeros. Raises ShapeError, UnsupportedDType, ResourceExhausted."""
        request = buffers.type_request(self.device if device is None else device, shape, dtype)
        return Buffer(self._connection, self._connection.allocate(request))

    zeros = empty

    def shards(self, value: Any, devices: Sequence[str], axis: Optional[int] = 0) -> Shards:
        """An array on several devices: an equal share of its rows each or, with axis=None, the whole on each
        (then as rows of an array of one more axis: what a parameter that is whole on each takes).

        Raises ShapeError where the shares are not equal, and what buffer() does.
        """
        return Shards([self.buffer(part, device=name) for name, part in shares(value, devices, axis)], 0)

    def arange(self, start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Buffer:
        """numpy.arange in a Buffer, made on the device, with numpy's dtype unless one is given.

        Raises InvalidArgument; DTypeError for fractions in a dtype of integers, and what the dtype does not hold.
        """
        return blocking(self._arange(start, stop, step, dtype))

    def random(self, shape: Any, dtype: Any = "float32", *, seed: int) -> Buffer:
        """Random numbers in a Buffer, made on the device: the same for the same seed, everywhere.

        Floats lie in [0, 1), integers anywhere; kiln.made says how. Raises DTypeError.
        """
        return blocking(self._random(shape, dtype, seed))

    def tensors(self, file: str) -> List[buffer_service_pb2.StoredTensor]:
        """Name, type and bytes of each tensor in a .npy or .safetensors file of the server's data folder.

        Raises InvalidArgument where there is no such file; Unimplemented without a data folder.
        """
        check_files(self)
        request = buffer_service_pb2.ListTensorsRequest(file=file)
        return list(self._connection.call("BufferService.ListTensors", request).tensors)

    def load(self, file: str, names: Sequence[str] = (), *, device: Optional[str] = None) -> Dict[str, Buffer]:
        """Buffers with the tensors of these names, or all, of a file that the server reads itself.

        A .npy has one, of the name "". Raises what tensors() does, and ResourceExhausted.
        """
        check_files(self)
        answer = self._connection.call("BufferService.Load", load_request(self.device, file, names, device))
        return {row.name: Buffer(self._connection, row.buffer) for row in answer.tensors}

    def allocate(self, nbytes: int, *, device: Optional[str] = None, wait: bool = False) -> Buffer:
        """Memory without a type: as a Buffer, uint8 of shape (nbytes,).

        With `wait`, and where it is much, ResourceExhausted is raised here, and not where it is first used.
        """
        request = buffers.bytes_request(self.device if device is None else device, nbytes)
        return Buffer(self._connection, self._connection.allocate(request, wait))

    def describe(self, buffer: Buffer) -> buffer_service_pb2.BufferDescription:
        """What the server knows of a buffer."""
        request = buffer_service_pb2.DescribeBufferRequest(handle=buffer.handle)
        return self._connection.call("BufferService.Describe", request).buffer

    # -- the server

    def devices(self) -> List[device_service_pb2.Device]:
        """The server's devices with their memory figures."""
        request = device_service_pb2.ListDevicesRequest()
        return list(self._connection.call("DeviceService.List", request).devices)

    def describe_device(self, name: str) -> device_service_pb2.Device:
        """One device with its memory figures; NotFound for a name that no device has."""
        request = device_service_pb2.DescribeDeviceRequest(name=name)
        return self._connection.call("DeviceService.Describe", request).device

    def usage(self, all_tenants: bool = False) -> List[session_service_pb2.UsageResponse.TenantUse]:
        """What the caller's tenant has of each quota, and may have; of all tenants with the right to administer."""
        request = session_service_pb2.UsageRequest(all_tenants=all_tenants)
        return list(self._connection.call("SessionService.Usage", request).tenants)

    def health(self) -> None:
        """Returns if the server serves; Unavailable if it says it does not."""
        check = self._connection.channel.unary_unary(HEALTH)
        check_health(self._connection.start(check, b""), self.target)

    def flush_frees(self) -> None:
        """Returns when the buffers that the garbage collector found are given back."""
        self._connection.flush_frees()

    def close(self) -> None:
        """Gives back every buffer that is left, and closes the connection. Twice is once."""
        self._connection.close()
        if self._server is not None:
            self._server.stop()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Any) -> None:
        self.close()
