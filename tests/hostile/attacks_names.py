"""Names and labels of clients, of whatever bytes; and metadata by the thousand."""

from __future__ import annotations

from attack import DTYPES, Nodes, answered, attack, doubled, refused, within
from kiln.transport import wire
from kiln.v1 import kernel_service_pb2

STANDS_FOR = "PLACEHOLDER_OF_THE_NAME"
INJECTED = b"event=injected level=info"
ODD = {
    "lines": b"x\n" + INJECTED + b"\r\n" + INJECTED,
    "a NUL": b"x\0y",
    "no UTF-8": b"\xff\xfe\xc0\x80\xed\xa0\x80",
    "an escape": b"\x1b[2J\x1b]0;x\x07",
    "formats": b"%s%n%x{}{0}${x}",
    "quotes": b'"\'\\`$(x)|;<>&',
    "a path": b"../../../etc/passwd",
    "right to left": "\u202e\u2066x".encode(),
    "a mebibyte": b"x" * (1 << 20),
}


def _with_name(message, name):
    """The message's bytes with STANDS_FOR, which stands in one string of it, made `name`: protobuf here would refuse to."""
    data = message.SerializeToString()
    size = min(len(name), len(STANDS_FOR))
    return data.replace(STANDS_FOR.encode(), name[:size].ljust(len(STANDS_FOR), b"_"))


def _tagged():
    graph = doubled(6)
    for node in graph.nodes:
        node.tag = STANDS_FOR
    return graph


def _named():
    """A program that has a name."""
    nodes = Nodes()
    x = nodes.param(0, "float32", 6)
    nodes.graph.nodes[x].buffer.name = STANDS_FOR
    return nodes.done(nodes.op("ADD", x, x))


def _device():
    return kernel_service_pb2.CompileRequest(graph=doubled(6), device=STANDS_FOR)


REQUESTS = {
    "a_node": ("KernelService.Compile", lambda: kernel_service_pb2.CompileRequest(graph=_tagged())),
    "a_parameter": ("KernelService.Compile", lambda: kernel_service_pb2.CompileRequest(graph=_named())),
    "a_device": ("KernelService.Compile", _device),
    "an_allocation": ("BufferService.Allocate",
                      lambda: wire.METHODS["BufferService.Allocate"].request(bytes=8, device=STANDS_FOR)),
    "a_file": ("BufferService.Load", lambda: wire.METHODS["BufferService.Load"].request(file=STANDS_FOR)),
}  # fmt: skip


def _clean_log(target, since):
    for line in target.server.log[since:]:
        assert not line.encode(errors="replace").startswith(INJECTED), line
        assert len(line) < 8192 and "\x1b" not in line and "\0" not in line, line[:200]


def _name_of(what, method, make):
    def run(target):
        since = len(target.server.log)
        for name in ODD.values():
            outcome = answered(target.raw(method, _with_name(make(), name)))
            if outcome.error is not None:
                assert len(outcome.error.message) < 4096, outcome.error
        _clean_log(target, since)

    run.__doc__ = "Whatever bytes a name of %s has, it is a name or refused, and no line of the log." % what.replace("_", " ")
    attack(run, name="name_of_" + what, local=what == "a_file")


for _what, (_method, _make) in REQUESTS.items():
    _name_of(_what, _method, _make)


@attack
def name_of_a_mebibyte(target):
    """A long name is one, and an error that has it is short."""
    name = "x" * (1 << 20)
    error = refused(target.call("KernelService.Compile", graph=doubled(6), device=name), "UNKNOWN_DEVICE")
    assert len(str(error)) < 8192, len(str(error))
    graph = doubled(6)
    for node in graph.nodes:
        node.tag = name
        node.dtype = DTYPES["int64"]
    for outcome in (target.compile(_tagged()), target.compile(graph)):
        answered(outcome)
        assert outcome.error is None or len(str(outcome.error)) < 8192


@attack
def name_of_a_command(target):
    """A command's tag comes back as it was sent, in its own stream, and in no log."""
    since = len(target.server.log)
    for name in ODD.values():
        try:
            tag = name.decode()
        except UnicodeDecodeError:
            continue
        free = kernel_service_pb2.SubmitRequest(command_id=1, tag=tag)
        free.free.handle.append(99)
        outcome = answered(target.submit(free))
        assert not outcome or outcome.answer[-1].failed.tag in (tag, tag[:2048] + "...", ""), outcome.answer[-1]
    _clean_log(target, since)


@attack
def name_of_a_session(target):
    """A session's name is one that the server gave: whatever else comes is unknown."""
    for name in (*ODD.values(), b"", b"\0" * 16, bytes(range(256))):
        if len(name) > 4096:
            continue
        outcome = target.call("BufferService.Allocate", bytes=8, session=name)
        if name:
            refused(outcome, "SESSION_EXPIRED", "UNKNOWN_HANDLE")
        elif outcome:
            target.free(outcome.answer.buffer.handle)


# -- Metadata


def _with_metadata(name, make, taken, promise):
    def run(target):
        channel = target.new_channel()
        stub = wire.stub(channel, "DeviceService.List")
        request = wire.METHODS["DeviceService.List"].request()
        outcome = target.outcome(lambda: within(15, lambda: stub(request, timeout=10, metadata=make())))
        assert bool(outcome) == taken, outcome.error or "it was taken"
        # It ends the call, and not the connection's neighbours.
        assert within(10, target.healthy)
        channel.close()

    run.__doc__ = promise
    attack(run, name="metadata_" + name)


for _name, _make, _taken, _promise in (
    ("of_a_few_keys", lambda: [("x-key-%d" % i, "y") for i in range(20)], True, "Keys that mean nothing are no harm."),
    ("of_ten_thousand_keys", lambda: [("x-key-%d" % i, "y") for i in range(10_000)], False, "There is a bound to all keys together,"),
    ("of_one_key_ten_thousand_times", lambda: [("x", "y")] * 10_000, False, "also if they are the same,"),
    ("of_a_large_value", lambda: [("x", "y" * (1 << 20))], False, "to a value,"),
    ("of_a_large_key", lambda: [("x" * (1 << 20), "y")], False, "to a key,"),
    ("of_large_sessions", lambda: [("kiln-session-bin", b"\xff" * (1 << 18))] * 4, False, "also to one that we read."),
):  # fmt: skip
    _with_metadata(_name, _make, _taken, _promise)


@attack
def metadata_of_many_calls(target):
    """A hundred calls at once with as much as is taken leave nothing behind."""
    channel = target.new_channel()
    stub = wire.stub(channel, "DeviceService.List")
    request = wire.METHODS["DeviceService.List"].request()
    before = target.usage().resident
    calls = [stub.future(request, timeout=20, metadata=[("x-key-%d" % i, "y" * 4000)]) for i in range(100)]
    for call in calls:
        target.outcome(call.result)
    assert target.usage().resident - before < 64 << 20
    channel.close()
