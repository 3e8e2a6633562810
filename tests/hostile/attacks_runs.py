"""Programs that run long, and what stops them; queues that fill."""

from __future__ import annotations

import threading
import time

from attack import DTYPES, Nodes, answered, attack, doubled, refused, within
from kiln.v1 import kernel_service_pb2


def busy(rounds, lanes=1):
    """A program of so many dependent multiplications, in one loop that cannot be shared out: `rounds` by hand."""
    nodes = Nodes()
    x = nodes.param(0, "float32", lanes)
    zero = nodes.const(0, "int64")
    loop = nodes.add("RANGE", nodes.const(rounds, "int64"))
    loop.range.axis_id.append(0)
    loop.range.type = 4  # LOOP
    counter = nodes.last()
    place = nodes.op("INDEX", x, zero)
    value = nodes.op("LOAD", place)
    sine = nodes.op("ADD", nodes.op("MUL", value, nodes.const(1.0001, "float32")), nodes.const(0.5, "float32"))
    store = nodes.op("STORE", place, sine)
    end = nodes.op("END", store, counter)
    return nodes.done(counter, place, value, sine, store, end, root="LINEAR")


def long_sum(size=1 << 16, rounds=1 << 16):
    """A reduction of size times rounds elements to size: parallel, and long."""
    nodes = Nodes()
    x = nodes.param(0, "float32", size, 1)
    wide = nodes.op("SIN", nodes.op("EXPAND", x, nodes.shape(size, rounds)))
    reduce = nodes.add("REDUCE", wide)
    reduce.reduce.op = 53  # ADD
    reduce.reduce.axis.append(1)
    return nodes.done(nodes.last())


def request_of(target, graph, nbytes, session=b""):
    request = kernel_service_pb2.ExecuteRequest(graph=graph)
    argument = request.arguments.add(slot=0)
    argument.buffer.handle = target.allocate(nbytes, session=session)
    return request


def stops(target, graph, nbytes, seconds):
    token = target.session()
    request = request_of(target, graph, nbytes, session=token)
    compiled = target.compile(graph)
    if compiled:
        outcome = within(seconds, lambda: target.call("KernelService.Execute", request, session=token, timeout=1))
        assert outcome.code in ("DEADLINE_PASSED", "DEADLINE_EXCEEDED", "OK"), outcome.error
        # The device is free again, too.
        within(seconds, lambda: refused_or_done(target))
    else:
        refused(compiled)
    target.end(token)


def refused_or_done(target):
    small = target.allocate(32)
    request = kernel_service_pb2.ExecuteRequest(graph=doubled(), result_mode=kernel_service_pb2.RESULT_INLINE)
    request.arguments.add(slot=0).buffer.handle = small
    ran = target.call("KernelService.Execute", request)
    assert ran, ran.error
    target.free(small)


@attack
def run_of_one_long_loop(target):
    """A loop that cannot be shared out stops soon after its deadline, and frees its device."""
    stops(target, busy(3_000_000_000), 4, 5)


@attack
def run_of_a_long_sum(target):
    """So does a parallel one."""
    stops(target, long_sum(), 4 << 16, 8)


@attack
def run_longer_than_any(target):
    """Work beyond the limit is refused before it runs, with the limit."""
    outcome = target.compile(busy(1 << 62))
    refused(outcome)


@attack
def run_that_is_cancelled(target):
    """A call that its client gives up is stopped, and what it held is given back."""
    before = target.device_memory()
    token = target.session()
    graph = long_sum()
    request = request_of(target, graph, 4 << 16, session=token)
    assert target.compile(graph)
    from kiln.transport import wire

    for _ in range(5):
        call = wire.stub(target.channel, "KernelService.Execute").future(
            request, timeout=60, metadata=[("kiln-session-bin", token)])  # fmt: skip
        time.sleep(0.02)  # so that some are queued, some begun
        call.cancel()
    target.end(token)
    within(15, lambda: refused_or_done(target))
    assert within(15, lambda: _returns(target, before))


def _returns(target, nbytes):
    end = time.monotonic() + 14
    while target.device_memory() > nbytes and time.monotonic() < end:
        time.sleep(0.05)
    return target.device_memory() <= nbytes


@attack
def runs_behind_a_long_one(target):
    """Calls that wait behind a long run end with their own deadlines."""
    token = target.session()
    graph = long_sum()
    request = request_of(target, graph, 4 << 16, session=token)
    assert target.compile(graph)
    codes = []

    def one(timeout):
        codes.append(target.call("KernelService.Execute", request, session=token, timeout=timeout).code)

    threads = [threading.Thread(target=one, args=(0.2 + 0.05 * i,)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    target.end(token)
    assert set(codes) <= {"OK", "DEADLINE_PASSED", "DEADLINE_EXCEEDED"}, codes
    within(15, lambda: refused_or_done(target))


@attack
def answers_that_are_not_read(target):
    """A stream whose answers nobody reads is held back, and costs no more than its bound."""
    from kiln.transport import wire

    token = target.session()
    handle = target.allocate(1 << 20, session=token)
    channel = target.new_channel()
    commands = []
    hello = kernel_service_pb2.SubmitRequest()
    hello.hello.session_token = token
    commands.append(hello)
    for i in range(300):
        read = kernel_service_pb2.SubmitRequest(command_id=i + 1)
        read.read.buffer.handle = handle
        commands.append(read)
    before = target.usage().resident
    call = wire.stub(channel, "KernelService.Submit")(iter(commands), timeout=20)
    within(10, target.healthy)
    assert target.usage().resident - before < 256 << 20, "%d MiB" % ((target.usage().resident - before) >> 20)
    call.cancel()
    channel.close()
    target.end(token)


@attack
def results_inline_beyond_a_message(target):
    """Results by value that no message holds are refused before anything runs."""
    nodes = Nodes()
    x = nodes.param(0, "float32", 1)
    graph = nodes.done(nodes.op("EXPAND", x, nodes.shape(1 << 30)))
    request = request_of(target, graph, 4)
    request.result_mode = kernel_service_pb2.RESULT_INLINE
    refused(target.call("KernelService.Execute", request))
    target.free(request.arguments[0].buffer.handle)


@attack
def memory_that_is_not_there(target):
    """A program whose memory no device has fails as that, and leaves none behind."""
    before = target.device_memory()
    nodes = Nodes()
    x = nodes.param(0, "float32", 1)
    graph = nodes.done(nodes.op("CONTIGUOUS", nodes.op("EXPAND", x, nodes.shape(1 << 38))))
    request = request_of(target, graph, 4)
    refused(target.call("KernelService.Execute", request))
    target.free(request.arguments[0].buffer.handle)
    assert target.gives_back_to(before)


@attack
def gradients_of_what_has_none(target):
    """A gradient is of a float, of a result and a slot that are there."""
    for graph, result, slots in ((doubled(8, "int32"), 0, [0]), (doubled(), 7, [0]), (doubled(), 0, [9]), (doubled(), 0, [])):
        answered(target.call("KernelService.Gradient", graph=graph, result=result, wrt_slot=slots))


@attack
def recordings_of_nothing(target):
    """A recording names programs that are there; a replay, a recording that is."""
    answered(target.call("KernelService.RecordSequence"))
    for value in (b"", b"\0" * 32, b"x" * 32, b"y" * 10_000):
        outcome = answered(target.raw("KernelService.ReplaySequence", b"\x0a" + bytes([len(value) % 128]) + value[:127]))
        assert not outcome, "it was replayed"


@attack
def collectives_that_do_not_fit(target):
    """Participants of a collective are devices that are there, with memory of the right size."""
    one = target.allocate(64)
    for kind in ("AllReduce", "Broadcast", "Gather", "Scatter", "ReduceScatter", "AllGather", "Reduce"):
        name = "CollectiveService." + kind
        answered(target.call(name))
        request = _collective(kind, one, 1 << 62)
        refused(target.call(name, request))
    target.free(one)


def _collective(kind, handle, count):
    from kiln.transport import wire

    request = wire.METHODS["CollectiveService." + kind].request(count=count, dtype=DTYPES["float32"])
    request.input.add(handle=handle)
    request.output.add(handle=handle)
    return request


@attack
def watchers_by_the_dozen(target):
    """Who watches devices and goes is forgotten."""
    from kiln.transport import wire

    channel = target.new_channel()
    stub = wire.stub(channel, "DeviceService.Watch")
    calls = [stub(wire.METHODS["DeviceService.Watch"].request(), timeout=20) for _ in range(30)]
    within(10, target.healthy)
    for call in calls:
        call.cancel()
    channel.close()
