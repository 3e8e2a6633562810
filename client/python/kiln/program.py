"""A compiled graph, and calls of it.

    program = client.compile(graph)
    y = program(x, w)                        # arrays or Buffers in, arrays out
    y = program(x, w, out="buffers")         # results stay on the device

A call sends 32 bytes of hash and the arguments; the graph itself again only if the
server has forgotten it (NEED_GRAPH), once. Large arrays go and come in chunks, through
buffers that live as long as the call. ProgramLike is what kiln.aio's programs share.
"""

from __future__ import annotations

import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple, Type, Union

import numpy as np

from kiln import arrays, buffers, commands, encode
from kiln.arguments import At, AtShards, Takes
from kiln.buffers import Buffer, BufferLike
from kiln.transport.connection import Connection
from kiln.deferred import SHORT, SMALL, Deferred
from kiln.dtypes import BY_NUMBER
from kiln.errors import ConnectionLost, Internal, InvalidArgument, KilnError, Unavailable
from kiln.handles import Single
from kiln.hash import graph_hash
from kiln.interchange.pickled import load_program
from kiln.sharding import Shards, ShardsLike, shares
from kiln.v1 import buffer_service_pb2, executable_pb2, graph_pb2, kernel_service_pb2
from kiln.waiting import Waits, blocking
from kiln.transport.wire import INLINE

_EXECUTE, _FREE = "KernelService.Execute", "BufferService.Free"

# Seconds for which a server that had a program is taken to have it still. Who waits for an
# answer can be asked for the graph; with a command that nobody waits for, it goes along.
_KNOWN = 10.0

# What is to run for so many nanoseconds is a call: whoever waits may end it, by Ctrl-C or by cancelling a task.
_LONG = 250_000_000


class Run(NamedTuple):
    """What one call gave: results in the root's order, and what the server says of it."""

    results: Tuple[Any, ...]
    from_cache: bool
    timing: kernel_service_pb2.Timing


def checked_hash(graph: graph_pb2.Graph, said: bytes) -> bytes:
    """The graph's hash, computed here. A server that says another has mistaken the graph, and is not believed."""
    own = graph_hash(graph)
    if said != own:
        raise Internal(
            "the server says the graph's hash is %s, it is %s" % (said.hex(), own.hex()), code="HASH_MISMATCH"
        )
    return own


class ProgramLike(Single, Takes):
    """`device` (where it runs), `hash` (32 bytes), `signature`, `cost`, `kernels`, `from_cache`, `compile_us`, `graph`."""

    _buffer: Type[Any]  # of results, and of arrays on their way
    _shards: Type[Any]  # the same on several devices

    def __init__(self, connection: Any, graph: bytes, options: kernel_service_pb2.CompileOptions,
                 compiled: kernel_service_pb2.CompileResponse, device: Optional[str] = None):
        self._connection = connection
        self.device: str = connection.device if device is None else device
        self._graph = graph
        self.options = options
        sent = self.graph
        self.hash: bytes = checked_hash(sent, compiled.graph_hash)
        self.signature: executable_pb2.Signature = compiled.signature
        self.cost: executable_pb2.Cost = compiled.cost
        self.from_cache: bool = compiled.from_cache
        self.compile_us: int = compiled.compile_us
        self.kernels: int = compiled.kernels
        self._read_signature(sent, compiled, self.device or connection.devices[0])
        self._aliases = [row.aliases if row.HasField("aliases") else None for row in self.signature.results]
        self._small = sum(row.bytes for row in self.signature.results) <= INLINE
        self._slow = self.cost.run_ns >= _LONG
        self._prefix: Dict[Tuple[bool, bool], bytes] = {}
        self._known_until, self._known_at = time.monotonic() + _KNOWN, connection.target
        # A command runs on one device; and is not waited for where its results' memory is known before.
        self._single = not compiled.result_layouts and not compiled.parameter_layouts
        self._layouts = list(compiled.parameter_layouts)
        self._regular = self._single and not any(row.symbolic for row in self.signature.results)
        # What of a call may wait (deferred.py), and its results as buffers know them.
        self._waits = (self._regular and all(alias is None for alias in self._aliases) and self.cost.run_ns < SHORT
                       and 0 < len(self._aliases) and sum(row.bytes for row in self.signature.results) <= SMALL)  # fmt: skip
        place = self.device or connection.devices[0]
        self._kinds = [(place, row.bytes, BY_NUMBER[row.dtype], tuple(row.shape)) for row in self.signature.results]

    @property
    def graph(self) -> graph_pb2.Graph:
        """The graph as it was sent; indices in errors are of its nodes."""
        return graph_pb2.Graph.FromString(self._graph)

    def __repr__(self) -> str:
        takes = ["%s %s" % (BY_NUMBER[row.dtype].name, tuple(row.shape)) for row in self.signature.parameters]
        gives = ["%s %s" % (BY_NUMBER[row.dtype].name, tuple(row.shape)) for row in self.signature.results]
        return "<Program %s: (%s) -> (%s)>" % (self.hash.hex()[:8], ", ".join(takes), ", ".join(gives))

    # -- what a call sends

    def _begin(self, inline: bool, timing: bool) -> bytes:
        """An ExecuteRequest without its arguments."""
        prefix = self._prefix.get((inline, timing))
        if prefix is None:
            message = kernel_service_pb2.ExecuteRequest(graph_hash=self.hash, device=self.device)
            message.options.CopyFrom(self.options)
            message.result_mode = kernel_service_pb2.RESULT_INLINE if inline else kernel_service_pb2.RESULT_HANDLES
            message.want_timing = timing
            prefix = self._prefix[inline, timing] = message.SerializeToString()
        return prefix

    def _is_known(self) -> bool:
        """Whether the server is taken to have it still. If not, the graph goes along, and then it does."""
        if time.monotonic() <= self._known_until and self._known_at == self._connection.target:
            return True
        self._learned()
        return False

    def _learned(self) -> None:
        """The server has it."""
        self._known_until, self._known_at = time.monotonic() + _KNOWN, self._connection.target

    def _request(self, values: Mapping[int, Any], inline: bool, timing: bool) -> List[encode.Bytes]:
        """ExecuteRequest in pieces, of prepared values."""
        pieces: List[encode.Bytes] = [self._begin(inline, timing)]
        run: List[int] = []  # handles of slots in a row, up to `last`
        last = -1
        for slot, value in sorted(values.items(), key=lambda item: item[0]):
            if isinstance(value, At) and value.offset == 0:
                value = value.buffer
            if run and (slot != last + 1 or not isinstance(value, BufferLike)):
                pieces.append(encode.handle_arguments(last + 1 - len(run), run))
                run = []
            if isinstance(value, BufferLike):
                run.append(value.handle)
                last = slot
            elif isinstance(value, At):
                pieces.append(encode.handle_argument(slot, value.buffer.handle, value.offset))
            elif isinstance(value, ShardsLike):
                pieces.append(encode.shards_argument(slot, [(shard.handle, 0) for shard in value.shards]))
            elif isinstance(value, AtShards):
                pieces.append(encode.shards_argument(slot, [(at.buffer.handle, at.offset) for at in value.places]))
            elif slot in self._variables:
                pieces.append(encode.integer_argument(slot, value))
            else:
                dtype = self._parameters[slot].dtype.number
                pieces += encode.tensor_argument(slot, dtype, value.shape, arrays.byte_view(value))
        if run:
            pieces.append(encode.handle_arguments(last + 1 - len(run), run))
        return pieces

    # -- a call

    def _run(self, arguments: Union[Mapping[int, Any], Sequence[Any]], out: str, timing: bool,
             timeout: Optional[float], tag: str) -> Waits[Run]:
        values, large = self._prepare(arguments if isinstance(arguments, Mapping) else self._slots(arguments, {}))
        for _ in self._connection.targets:
            place = self._connection.pipeline
            try:
                return (yield from self._run_here(dict(values), large, out, timing, timeout, tag))
            except Unavailable as error:  # what is in no server's memory another one may do
                bound = any(isinstance(value, (BufferLike, ShardsLike, At, AtShards)) for value in values.values())
                if bound or not self._connection.others():
                    raise
                lost = isinstance(error, ConnectionLost) and not error.gone  # the next try tells more
                if not lost and not (yield from self._connection._elsewhere(error, place)):
                    raise
        return (yield from self._run_here(values, large, out, timing, timeout, tag))

    def _run_here(self, values: Dict[int, Any], large: List[int], out: str, timing: bool, timeout: Optional[float],
                  tag: str) -> Waits[Run]:
        as_arrays = wants_arrays(out)
        staged: Dict[int, Any] = {}
        try:
            for slot in large:
                values[slot] = staged[slot] = yield from self._stage(slot, values[slot])
            run = yield from self._execute(values, as_arrays and self._small, timing, timeout, tag)
            results = list(run.results)
            if not as_arrays or all(type(result) is np.ndarray for result in results):
                return run
            for at in fresh(run.results, values, staged):
                if isinstance(results[at], ShardsLike):
                    results[at] = yield from results[at]._read()
                else:
                    results[at] = yield results[at].numpy()
            return run._replace(results=tuple(results))
        finally:
            if as_arrays:
                for value in staged.values():
                    for buffer in value.shards if isinstance(value, ShardsLike) else [value]:
                        yield buffer.free()

    def _stage(self, slot: int, array: np.ndarray) -> Waits[Any]:
        """An array too large for a message, on its way: in a buffer or, on several devices, in shards."""
        layout = None if self._single else self._layouts[self._order.index(slot)]
        several = layout is not None and len(layout.device) > 1
        parts = [(self.device if layout is None else layout.device[0], array)]
        if several:
            split = layout.HasField("axis")
            parts = shares(array, layout.device, 0) if split else [(name, array) for name in layout.device]
        made = []
        for name, part in parts:
            memory = yield self._connection.allocate(buffers.type_request(name, part.shape, part.dtype))
            made.append(self._buffer(self._connection, memory))
            yield made[-1].write(np.ascontiguousarray(part))
        return self._shards(made, 0 if split else None) if several else made[0]

    def _execute(self, values: Mapping[int, Any], inline: bool, timing: bool, timeout: Optional[float],
                 tag: str) -> Waits[Run]:
        connection = self._connection
        unlimited = timeout is None and connection.timeout is None
        # A command has no deadline, and cannot be called back.
        as_command = unlimited and not self._slow and connection.pipeline.on
        if as_command and not timing:
            results = self._made(values, inline)
            if results is not None:
                return (yield from self._send(self._request(values, False, False), results, tag))
        names: Optional[List[int]] = None  # of its results, if it goes as a command
        if as_command and self._single:
            names = self._names_anew(inline)
        elif connection.busy(_EXECUTE):
            yield connection.settle(_EXECUTE)  # what went wrong before is not to be taken for what this lacks
        # A command answers with its results if they are inline, or with timing.
        pieces = self._request(values, inline, timing or bool(names))
        try:
            response = yield from self._answer(pieces, names, timeout, tag)
        except KilnError as error:
            if error.code != "NEED_GRAPH" or not error.own:
                raise
            pieces += encode.graph_field(self._graph)
            if names:  # the command that failed took them
                taken = [name for name in names if name]
                if taken:
                    yield from connection._performed(_FREE, buffer_service_pb2.FreeRequest(handle=taken))
                names = self._names_anew(inline)
            response = yield from self._answer(pieces, names, timeout, tag)
        self._learned()
        return Run(self._results(response, values), response.from_cache, response.timing)

    def _names_anew(self, inline: bool) -> List[int]:
        """For results that are made; 0 for a parameter's own memory."""
        if inline:
            return []
        return [0 if alias is not None else self._connection.pipeline.name() for alias in self._aliases]

    def _answer(self, pieces: List[encode.Bytes], names: Optional[List[int]], timeout: Optional[float],
                tag: str) -> Waits[kernel_service_pb2.ExecuteResponse]:
        if names is None:
            return (yield self._connection.send(_EXECUTE, b"".join(pieces), timeout, self._slow))
        response, _ = yield from self._connection._asked(_EXECUTE, commands.execute(pieces, names, tag))
        return response.executed

    def _made(self, values: Mapping[int, Any], inline: bool) -> Optional[List[Any]]:
        """The results, if a call need not be waited for: parameters' own buffers, and buffers yet to be made."""
        if not self._regular:
            return None
        results: List[Any] = []
        for alias in self._aliases:
            given = values.get(self._order[alias]) if alias is not None else None
            if isinstance(given, At):
                given = given.buffer
            if given is None and (inline or alias is not None):
                return None
            if given is not None and not isinstance(given, BufferLike):
                return None
            results.append(given)
        return results

    def _send(self, pieces: List[encode.Bytes], results: List[Any], tag: str) -> Waits[Run]:
        connection = self._connection
        if not self._is_known():
            pieces += encode.graph_field(self._graph)
        names = []
        for at, row in enumerate(self.signature.results):
            if results[at] is None:
                made = connection.described(row.bytes, self.device, row.dtype, row.shape)
                results[at] = self._buffer(connection, made)
                names.append(made.handle)
            else:
                names.append(0)
        yield from connection._commanded(_EXECUTE, commands.execute(pieces, names, tag))
        return Run(tuple(results), True, kernel_service_pb2.Timing())

    # -- what comes back

    def _results(self, response: kernel_service_pb2.ExecuteResponse, values: Mapping[int, Any]) -> Tuple[Any, ...]:
        results: List[Any] = []
        for result, alias in zip(response.results, self._aliases):
            if result.HasField("tensor"):
                tensor = result.tensor
                results.append(arrays.from_bytes(tensor.data, BY_NUMBER[tensor.dtype], tensor.shape))
            elif alias is not None:
                # The parameter's own handle: the caller's Buffer is it.
                given = values.get(self._order[alias])
                results.append(given.buffer if isinstance(given, At) else given)
            elif result.HasField("shards"):
                made = [self._buffer(self._connection, buffer) for buffer in result.shards.buffer]
                results.append(self._shards(made, result.shards.axis if result.shards.HasField("axis") else None))
            else:
                results.append(self._buffer(self._connection, result.buffer))
        return tuple(results)


def wants_arrays(out: str) -> bool:
    if out not in ("arrays", "buffers"):
        raise InvalidArgument("out=%r" % (out,), remedy='"arrays" or "buffers"')
    return out == "arrays"


def fresh(results: Tuple[Any, ...], values: Mapping[int, Any], staged: Mapping[int, Any]) -> Set[int]:
    """Which results are in buffers that the caller has not given."""
    given = {id(value.buffer if isinstance(value, At) else value) for slot, value in values.items() if slot not in staged}
    return {at for at, result in enumerate(results)
            if isinstance(result, (BufferLike, ShardsLike)) and id(result) not in given}  # fmt: skip


def unwrap(results: Tuple[Any, ...]) -> Any:
    """One result is itself; several are a tuple; none is None."""
    return results[0] if len(results) == 1 else results or None


class Program(ProgramLike):
    """A program on the server, by hash. Threads: any; copies are the same program."""

    _connection: Connection
    _buffer = Buffer
    _shards = Shards

    def _pickled(self) -> Any:
        device = "" if self.device == self._connection.device else self.device
        return load_program, (self._graph, self.options.SerializeToString(), device)

    def __call__(self, *args: Any, out: str = "arrays", timeout: Optional[float] = None, **named: Any) -> Any:
        """Runs it once.

        Positional arguments go to the parameters in ascending order of slot, keyword
        arguments to the parameter or variable of that name: Buffers, arrays of the
        parameter's dtype and shape, At(buffer, offset), integers for variables. A
        parameter that the program stores to is updated in place if it is a Buffer.

        Returns the result, or a tuple of several: read-only arrays, or Buffers with
        out="buffers". A result that is an updated parameter is the Buffer that was given.

        Raises ShapeError, DTypeError, InvalidArgument (code MISSING_ARGUMENT, …) and what
        the server says.
        """
        return unwrap(self.run(self._slots(args, named), out=out, timeout=timeout).results)

    def run(self, arguments: Union[Mapping[int, Any], Sequence[Any]], *, out: str = "arrays", timing: bool = False,
            timeout: Optional[float] = None, tag: str = "") -> Run:
        """As a call, with arguments by slot (a dict) or in order, and with the server's timing if asked.

        `tag` comes back with a failure, where the call was not waited for (`error.tag`).
        """
        return blocking(self._run(arguments, out, timing, timeout, tag))

    def _put_off(self, values: Dict[int, Any]) -> Optional[List[Buffer]]:
        """The results of a call that is sent when it is known what is wanted of it (deferred.py); None where it cannot wait.

        `values` are buffers and arrays for all slots: of the parameters' types, row-major, and together no more than
        SMALL bytes of arrays.
        """
        connection = self._connection
        pipeline = connection.pipeline
        if not (self._waits and pipeline.on) or connection.timeout is not None or connection.closed:
            return None
        if pipeline.ended is not None or pipeline.full:
            return None
        with pipeline.order:
            pipeline.send_off()
            call = Deferred(self, values)
            results = call.buffers()
            pipeline.waiting = call
        return results
