"""What an attack has to work with: one server, as a stranger reaches it, and what it takes of the machine.

A row is a function with @attack: its docstring says what is promised. It may use one Target, and fails by an
assertion. The suite then looks at the server: that it still computes, and holds no more than before.
"""

from __future__ import annotations

import os
import pathlib
import socket
import sys
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

import grpc  # noqa: E402
import admin  # noqa: E402
import processes  # noqa: E402
import support  # noqa: E402

import kiln  # noqa: E402
from kiln.errors import from_rpc  # noqa: E402
from kiln.transport import wire  # noqa: E402
from kiln.v1 import buffer_service_pb2, dtype_pb2, graph_pb2, kernel_service_pb2, session_service_pb2  # noqa: E402
from owner import Owner  # noqa: E402
from processes import Usage  # noqa: E402

SESSION = "kiln-session-bin"
# No attack's single call may take longer.
TIMEOUT = 30.0
# Of a server with tenants, by the secret of each.
TENANTS = {"secret-a": "a", "secret-b": "b"}
UNARY = sorted(name for name, method in wire.METHODS.items() if not method.streams_in and not method.streams_out)
# An RPC that is not built yet says so to everybody.
NOT_BUILT = ("NOT_IMPLEMENTED", "UNIMPLEMENTED")


class Attack(NamedTuple):
    name: str
    run: Callable[["Target"], None]
    hole: str  # a promise that is not kept yet, and docs/safety.md says so; empty: it must hold
    server: str  # which of suite.py's

    @property
    def promise(self) -> str:
        return " ".join((self.run.__doc__ or "").split())


ATTACKS: List[Attack] = []


def attack(function: Optional[Callable[["Target"], None]] = None, *, hole: str = "", name: str = "",
           tenants: bool = False, local: bool = False, owned: bool = False, bombs: bool = False,
           regions: bool = False, apart: bool = False) -> Any:  # fmt: skip
    """Makes a row of a function, or, with a name, one more row of a table: against a server that is open to all, one
    with the tenants TENANTS, one that reads files of Target.folder and shares memory, one whose owner's files the row
    may change (Target.owner), one with these tenants, two compile threads and little time for each compilation, one
    with these tenants at a Unix socket, whose users name shared memory for tensors of a served model, or one that is open
    to all, and whose memory nobody looks at."""

    def add(made: Callable[["Target"], None]) -> Callable[["Target"], None]:
        wanted = {"tenants": tenants, "local": local, "owned": owned, "bombs": bombs, "regions": regions,
                  "apart": apart}  # fmt: skip
        server = next((name for name, is_wanted in wanted.items() if is_wanted), "open")
        ATTACKS.append(Attack(name or made.__name__, made, hole, server))
        return made

    return add if function is None else add(function)


class Outcome(NamedTuple):
    """Of a call: its answer, or the stable code of its failure and what it said."""

    answer: Any
    code: str
    error: Optional[kiln.KilnError]

    def __bool__(self) -> bool:
        return self.error is None


class Target:
    """One server. Nothing that it is sent is made by our clients' checks."""

    def __init__(self, server: support.Server, token: str = "", folder: Optional[pathlib.Path] = None,
                 owner: Optional[Owner] = None):  # fmt: skip
        self.server = server
        self.owner = owner
        self.folder = folder  # what the server reads files of, if any
        self.token = token  # shown where a call says no other
        self.address = server.address
        self.process = server.process.pid
        self.channel = self.new_channel()

    def new_channel(self) -> grpc.Channel:
        # One of its own: gRPC would share the connection of a channel with the same options.
        return grpc.insecure_channel(self.address, [*wire.CHANNEL_OPTIONS, ("grpc.use_local_subchannel_pool", 1)])

    def close(self) -> None:
        self.channel.close()

    def call(self, name: str, request: Any = None, *, session: bytes = b"", timeout: float = TIMEOUT, tenant: str = "",
             channel: Optional[grpc.Channel] = None, **fields: Any) -> Outcome:
        """A unary call with `request`, or with one of `fields`; `tenant` is the secret of one."""
        request = wire.METHODS[name].request(**fields) if request is None else request
        stub = wire.stub(channel or self.channel, name)
        return self.outcome(lambda: stub(request, timeout=timeout, metadata=self._metadata(session, tenant)))

    def raw(self, name: str, data: bytes, timeout: float = TIMEOUT) -> Outcome:
        """A unary call with these bytes for a message."""
        stub = self.channel.unary_unary(wire.METHODS[name].path)
        return self.outcome(lambda: stub(data, timeout=timeout))

    def write(self, messages: Any, timeout: float = TIMEOUT, session: bytes = b"") -> Outcome:
        stub = wire.stub(self.channel, "BufferService.Write")
        return self.outcome(lambda: stub(iter(messages), timeout=timeout, metadata=self._metadata(session)))

    def read(self, handle: int, offset: int = 0, nbytes: int = 0, session: bytes = b"") -> Outcome:
        request = buffer_service_pb2.ReadRequest(bytes=nbytes)
        request.buffer.handle, request.buffer.offset = handle, offset
        stub = wire.stub(self.channel, "BufferService.Read")
        return self.outcome(
            lambda: b"".join(part.chunk for part in stub(request, timeout=TIMEOUT, metadata=self._metadata(session))))

    def submit(self, *commands: kernel_service_pb2.SubmitRequest, session: bytes = b"") -> Outcome:
        """The answers to these commands, behind a hello."""
        hello = kernel_service_pb2.SubmitRequest()
        hello.hello.session_token = session
        return self.submit_raw(hello, *commands)

    def submit_raw(self, *commands: kernel_service_pb2.SubmitRequest) -> Outcome:
        stub = wire.stub(self.channel, "KernelService.Submit")
        return self.outcome(lambda: list(stub(iter(commands), timeout=TIMEOUT)))

    def connect(self, timeout: float = 10.0) -> socket.socket:
        return socket.create_connection((self.server.address.split(":")[0], self.server.port), timeout=timeout)

    # -- What most attacks need first

    def allocate(self, nbytes: int = 64, session: bytes = b"") -> int:
        made = self.call("BufferService.Allocate", bytes=nbytes, session=session)
        assert made, made.error
        return made.answer.buffer.handle

    def free(self, *handles: int, session: bytes = b"") -> Outcome:
        return self.call("BufferService.Free", handle=handles, session=session)

    def session(self, lease: int = 60) -> bytes:
        opened = self.call("SessionService.Open", lease_seconds=lease)
        assert opened, opened.error
        return opened.answer.token

    def end(self, *tokens: bytes) -> None:
        for token in tokens:
            self.call("SessionService.Close", token=token)

    def compile(self, graph: graph_pb2.Graph, timeout: float = TIMEOUT, **options: Any) -> Outcome:
        return self.call("KernelService.Compile", graph=graph, timeout=timeout,
                         options=kernel_service_pb2.CompileOptions(**options))  # fmt: skip

    # -- What is looked at after each

    def healthy(self) -> bool:
        """Whether a new client's small program gives right values."""
        with kiln.connect(self.address, timeout=60, token=self.token or None) as client:
            return client.arange(8).numpy().tolist() == list(range(8))

    def usage(self) -> Usage:
        return processes.usage(self.process)

    def processor_seconds(self) -> float:
        """Of it and of the processes that it started."""
        ticks = 0
        for process in [self.process, *processes.children(self.process)]:
            try:
                fields = pathlib.Path("/proc/%d/stat" % process).read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def device_memory(self) -> int:
        listed = self.call("DeviceService.List")
        assert listed, listed.error
        return sum(device.memory_in_use_bytes for device in listed.answer.devices)

    def gives_back_to(self, before: int) -> bool:
        """Whether the devices come to hold no more than that. They may come to less: an earlier row's last run may not
        have ended when `before` was read."""
        return support.eventually(lambda: self.device_memory() <= before)

    def _metadata(self, session: bytes, token: str = "") -> Any:
        who = token or self.token
        return ([(SESSION, session)] if session else []) + ([("authorization", "Bearer " + who)] if who else [])

    def outcome(self, call: Callable[[], Any]) -> Outcome:
        try:
            return Outcome(call(), "OK", None)
        except grpc.RpcError as failure:
            error = from_rpc(failure, self.address)
            return Outcome(None, error.code or failure.code().name, error)


# A call that ended so was not judged.
NO_REFUSAL = ("INTERNAL_FAULT", "INTERNAL", "UNKNOWN", "UNAVAILABLE", "DEADLINE_PASSED", "DEADLINE_EXCEEDED", "CANCELLED")


def refused(outcome: Outcome, *codes: str) -> kiln.KilnError:
    """The error, which must have one of these codes, say something, and be no fault of the server's."""
    assert outcome.error is not None, "it was accepted: %.200s" % outcome.answer
    assert outcome.code in codes if codes else outcome.code not in NO_REFUSAL, outcome.error
    assert outcome.error.message, "it says nothing"
    return outcome.error


def answered(outcome: Outcome) -> Outcome:
    """Whether it succeeds is open, but a failure is not the server's fault, and not a broken connection."""
    assert outcome.code not in ("INTERNAL_FAULT", "INTERNAL", "UNKNOWN", "UNAVAILABLE"), outcome.error
    return outcome


def unknown(target: "Target", token: str) -> None:
    """Who shows this is served nothing."""
    for method in UNARY:
        outcome = target.call(method, tenant=token)
        assert outcome.code in ("NOT_AUTHENTICATED", *NOT_BUILT), (method, outcome.error or outcome.answer)


def within(seconds: float, call: Callable[[], Any]) -> Any:
    begin = time.monotonic()
    result = call()
    took = time.monotonic() - begin
    assert took < seconds, "it took %.1f s, and may take %.1f" % (took, seconds)
    return result


# -- Graphs, node by node, as no builder of ours would make them

DTYPES: Dict[str, int] = {name.lower(): number for name, number in dtype_pb2.DType.items()}


class Nodes:
    """A graph that grows. Each method returns the number of the node that it adds."""

    def __init__(self) -> None:
        self.graph = graph_pb2.Graph()

    def add(self, op: str, *src: int, dtype: str = "") -> Any:
        node = self.graph.nodes.add(op=graph_pb2.Op.Value(op), src=src)
        if dtype:
            node.dtype = DTYPES[dtype]
        return node

    def last(self) -> int:
        return len(self.graph.nodes) - 1

    def op(self, op: str, *src: int, dtype: str = "") -> int:
        self.add(op, *src, dtype=dtype)
        return self.last()

    def const(self, value: Any, dtype: str) -> int:
        node = self.add("CONST")
        node.constant.dtype = DTYPES[dtype]
        if dtype.startswith("float"):
            node.constant.f = value
        else:
            node.constant.i = value
        return self.last()

    def shape(self, *sizes: int) -> int:
        return self.op("STACK", *[self.const(size, "weakint") for size in sizes])

    def buffer(self, op: str, shape: int, slot: int, dtype: str, **rest: Any) -> int:
        node = self.add(op, shape)
        node.buffer.slot, node.buffer.dtype = slot, DTYPES[dtype]
        for name, value in rest.items():
            setattr(node.buffer, name, value)
        return self.last()

    def param(self, slot: int, dtype: str, *sizes: int) -> int:
        return self.buffer("PARAM", self.shape(*sizes), slot, dtype)

    def done(self, *values: int, root: str = "TUPLE") -> graph_pb2.Graph:
        self.op(root, *values)
        return self.graph


def doubled(size: int = 8, dtype: str = "float32") -> graph_pb2.Graph:
    """x + x."""
    nodes = Nodes()
    x = nodes.param(0, dtype, size)
    return nodes.done(nodes.op("ADD", x, x))


__all__ = ["Attack", "ATTACKS", "DTYPES", "NOT_BUILT", "Nodes", "Outcome", "Owner", "TIMEOUT", "Target", "UNARY", "Usage", "TENANTS",
           "admin", "answered", "attack", "doubled", "refused", "session_service_pb2", "unknown", "within"]  # fmt: skip
