"""Device memory: handles that are not there, places that are outside, bytes of others."""

from __future__ import annotations

import random
import threading

from attack import DTYPES, Nodes, answered, attack, doubled, refused, within
from kiln.v1 import buffer_service_pb2, kernel_service_pb2, tensor_pb2

WILD = (1, 2, 0xFF, 1 << 31, 1 << 32, 1 << 63, (1 << 64) - 1, 0xDEADBEEF)
EDGES = (1, 64, 65, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
SECRET = b"\xa5"
FLOAT = DTYPES["float32"]


def ref(handle, offset=0):
    return tensor_pb2.BufferRef(handle=handle, offset=offset)


@attack
def handles_that_were_never_given(target):
    """A guessed handle is unknown, in each call that takes one."""
    for handle in WILD:
        refused(target.free(handle), "UNKNOWN_HANDLE")
        refused(target.read(handle), "UNKNOWN_HANDLE")
        refused(target.call("BufferService.Describe", handle=handle), "UNKNOWN_HANDLE")
        refused(target.call("BufferService.Fill", buffer=ref(handle), pattern=b"\1"), "UNKNOWN_HANDLE")
        refused(target.call("BufferService.Copy", **{"from": ref(handle)}, to=ref(handle), bytes=1), "UNKNOWN_HANDLE")
        refused(target.call("BufferService.View", of=ref(handle)), "UNKNOWN_HANDLE")


@attack
def handles_guessed_by_the_thousand(target):
    """Of 65,536 guessed handles none is anything: reads in one stream, each answered as unknown."""
    seed = random.Random(3)
    for _ in range(64):
        handles = [seed.getrandbits(64) | 1 for _ in range(1024)]
        error = refused(target.free(*handles), "UNKNOWN_HANDLE")
        assert error.handle in handles, error


@attack
def handles_beside_one_that_is(target):
    """Handles say nothing of each other."""
    handle = target.allocate()
    for other in (handle ^ 1, handle + 1, handle - 1, handle >> 1, handle ^ (1 << 63)):
        refused(target.read(other & ((1 << 64) - 1)), "UNKNOWN_HANDLE")
    target.free(handle)


@attack
def handle_that_was_freed(target):
    """What was freed is gone, and is freed once."""
    handle = target.allocate()
    assert target.free(handle)
    refused(target.free(handle))
    refused(target.read(handle))
    other = target.allocate()
    refused(target.free(other, other))
    target.free(other)


@attack
def reads_outside(target):
    """A read stays inside its buffer."""
    handle = target.allocate(64)
    for offset in EDGES[1:]:
        for nbytes in EDGES:
            if (offset, nbytes) != (64, 0):
                refused(target.read(handle, offset, nbytes), "OUT_OF_BOUNDS")
    for nbytes in EDGES[2:]:
        refused(target.read(handle, 0, nbytes), "OUT_OF_BOUNDS")
    target.free(handle)


@attack
def writes_outside(target):
    """A write stays inside its buffer, whatever its header says."""
    handle = target.allocate(64)
    for offset, nbytes in ((64, 1), (1, 64), (1 << 63, 8), ((1 << 64) - 1, 2), (0, 65), (0, (1 << 64) - 1)):
        header = buffer_service_pb2.WriteRequest()
        header.header.buffer.handle, header.header.buffer.offset, header.header.bytes = handle, offset, nbytes
        chunk = buffer_service_pb2.WriteRequest(chunk=b"x" * 8)
        refused(target.write([header, chunk]))
    target.free(handle)


@attack
def uploads_that_lie(target):
    """More bytes than promised, fewer, none, a header twice, a chunk before it."""
    handle = target.allocate(64)

    def header(nbytes):
        message = buffer_service_pb2.WriteRequest()
        message.header.buffer.handle, message.header.bytes = handle, nbytes
        return message

    chunk = buffer_service_pb2.WriteRequest(chunk=b"x" * 16)
    refused(target.write([header(8), chunk]), "TOO_MUCH_DATA")
    refused(target.write([header(64), chunk]), "TRUNCATED_UPLOAD")
    refused(target.write([header(16), header(16), chunk]))
    refused(target.write([chunk, header(16)]))
    refused(target.write([]))
    refused(target.write([buffer_service_pb2.WriteRequest()]))
    target.free(handle)


@attack
def views_outside(target):
    """A view lies inside what it is a view of."""
    handle = target.allocate(64)
    for offset, nbytes in ((0, 65), (64, 1), (1 << 63, 1), ((1 << 64) - 1, 2), (32, 33)):
        refused(target.call("BufferService.View", of=ref(handle, offset), bytes=nbytes))
    refused(target.call("BufferService.View", of=ref(handle), dtype=FLOAT, shape=[1 << 62, 8]))
    refused(target.call("BufferService.View", of=ref(handle), dtype=FLOAT, shape=[-1]))
    target.free(handle)


@attack
def views_of_views(target):
    """A view of a view keeps to both, and the memory goes with the last."""
    before = target.device_memory()
    handle = target.allocate(4096)
    handles = [handle]
    for _ in range(100):
        made = target.call("BufferService.View", of=ref(handles[-1], 1))
        assert made, made.error
        handles.append(made.answer.buffer.handle)
    assert target.free(handle)
    got = target.read(handles[-1])
    assert got and len(got.answer) == 4096 - 100
    refused(target.read(handles[-1], 0, 4096 - 99), "OUT_OF_BOUNDS")
    assert target.free(*handles[1:])
    assert target.gives_back_to(before)


@attack
def fills_and_copies_outside(target):
    """So does a fill, and a copy."""
    one, two = target.allocate(64), target.allocate(32)
    for nbytes in EDGES[2:]:
        refused(target.call("BufferService.Fill", buffer=ref(one), bytes=nbytes, pattern=b"\1"))
        refused(target.call("BufferService.Copy", **{"from": ref(one)}, to=ref(two), bytes=nbytes))
    for pattern in (b"", b"abc", b"x" * 9, b"x" * 100_000):
        refused(target.call("BufferService.Fill", buffer=ref(one), bytes=7, pattern=pattern))
    refused(target.call("BufferService.Copy", **{"from": ref(one, 60)}, to=ref(two), bytes=8))
    target.free(one, two)


@attack
def allocations_without_end(target):
    """More memory than there is, and sizes that go round, are refused with the limit."""
    for nbytes in (1 << 40, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1):
        refused(target.call("BufferService.Allocate", bytes=nbytes), "OUT_OF_MEMORY", "SIZE_OVERFLOW")
    for shape in ([1 << 62, 8], [-1], [1 << 32, 1 << 32], [1 << 20] * 8):
        refused(target.call("BufferService.Allocate", type={"dtype": FLOAT, "shape": shape}))
    refused(target.call("BufferService.Allocate", type={"dtype": 99, "shape": [1]}))
    refused(target.call("BufferService.Allocate", bytes=8, device="CPU:99"), "UNKNOWN_DEVICE")


@attack
def allocations_that_leave_holes(target):
    """Buffers of whatever size, every second one freed, do not use up the memory mappings of the process."""
    for nbytes, count in ((256 << 10, 4096), ((1 << 20) + 4096, 1024), ((4 << 20) + 4096, 400), (40 << 20, 32)):
        before = target.usage().mappings
        handles = [target.allocate(nbytes) for _ in range(count)]
        assert target.free(*handles[::2])
        # Who is refused has had all that lies idle given back to the system.
        refused(target.call("BufferService.Allocate", bytes=1 << 50), "OUT_OF_MEMORY")
        more = target.usage().mappings - before
        assert target.free(*handles[1::2])
        assert more < 150, "%d mappings for %d buffers of %d bytes" % (more, count, nbytes)


@attack
def memory_of_another_is_zero(target):
    """Memory that another client wrote to and gave back is zero for whoever gets it."""
    for nbytes in (64, 4096, 1 << 20, (8 << 20) + 64):
        first = target.allocate(nbytes)
        assert target.call("BufferService.Fill", buffer=ref(first), pattern=SECRET)
        assert target.free(first)
        for _ in range(3):
            second = target.allocate(nbytes)
            got = target.read(second)
            assert got and got.answer == b"\0" * nbytes, "%d bytes of another's" % got.answer.count(SECRET)
            target.free(second)


@attack
def buffers_of_a_session_are_nobody_elses(target):
    """A session's handle is unknown without its token, and with another's."""
    mine, other = target.session(), target.session()
    handle = target.allocate(64, session=mine)
    for session in (b"", other):
        refused(target.read(handle, session=session), "UNKNOWN_HANDLE")
        refused(target.free(handle, session=session), "UNKNOWN_HANDLE")
        refused(target.call("BufferService.Describe", handle=handle, session=session), "UNKNOWN_HANDLE")
        refused(target.call("BufferService.View", of=ref(handle), session=session), "UNKNOWN_HANDLE")
        refused(target.call("BufferService.Fill", buffer=ref(handle), pattern=b"\1", session=session), "UNKNOWN_HANDLE")
    target.end(mine, other)
    refused(target.read(handle), "UNKNOWN_HANDLE")


@attack
def sessions_that_were_never_opened(target):
    """A token that stands for nothing is refused, of any length."""
    for token in (b"\0", b"x" * 16, b"\xff" * 16, b"y" * 15, b"z" * 17, b"w" * 3000):
        refused(target.call("BufferService.Allocate", bytes=64, session=token))
        refused(target.call("SessionService.Renew", token=token))
        refused(target.call("SessionService.Close", token=token))


@attack
def sessions_that_are_closed(target):
    """A closed session is gone with what it had."""
    before = target.device_memory()
    token = target.session()
    for _ in range(50):
        target.allocate(100_000, session=token)
    target.end(token)
    refused(target.call("BufferService.Allocate", bytes=64, session=token))
    assert target.gives_back_to(before)


@attack
def leases_at_their_ends(target):
    """A lease is at most what the server grants."""
    for lease in (1, 0xFFFFFFFF):
        opened = target.call("SessionService.Open", lease_seconds=lease)
        assert opened and 0 < opened.answer.lease_seconds < 1 << 31
        target.end(opened.answer.token)


@attack
def frees_race_reads(target):
    """A buffer that is freed while it is read is read as a whole, or unknown."""
    for _ in range(20):
        handle = target.allocate(1 << 20)
        assert target.call("BufferService.Fill", buffer=ref(handle), pattern=b"\7")
        got = []
        readers = [threading.Thread(target=lambda h=handle: got.append(target.read(h))) for _ in range(4)]
        for reader in readers:
            reader.start()
        target.free(handle)
        for reader in readers:
            reader.join()
        for each in got:
            assert (each and each.answer == b"\7" * (1 << 20)) or each.code in ("UNKNOWN_HANDLE", "HANDLE_FREED"), each.code


@attack
def frees_race_each_other(target):
    """Of many who free one handle, one does."""
    for _ in range(20):
        handle = target.allocate()
        got = []
        racers = [threading.Thread(target=lambda h=handle: got.append(bool(target.free(h)))) for _ in range(8)]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
        assert sum(got) == 1, got


@attack
def programs_with_wrong_arguments(target):
    """Arguments fit their program: number, size, dtype, device, kind."""
    graph = doubled()
    good, small, wrong = target.allocate(32), target.allocate(16), target.allocate(64)

    def run(*arguments):
        request = kernel_service_pb2.ExecuteRequest(graph=graph)
        for slot, handle, offset in arguments:
            argument = request.arguments.add(slot=slot)
            argument.buffer.handle, argument.buffer.offset = handle, offset
        return target.call("KernelService.Execute", request)

    refused(run(), "MISSING_ARGUMENT")
    refused(run((0, small, 0)), "BUFFER_SIZE_MISMATCH", "OUT_OF_BOUNDS")
    refused(run((0, good, 4)), "BUFFER_SIZE_MISMATCH", "OUT_OF_BOUNDS")
    refused(run((0, good, (1 << 64) - 4)))
    refused(run((1, good, 0)))
    refused(run((0, good, 0), (0, good, 0)))
    refused(run((0, 12345, 0)), "UNKNOWN_HANDLE")
    ran = run((0, good, 0))
    assert ran, ran.error
    target.free(good, small, wrong, *[result.buffer.handle for result in ran.answer.results])


@attack
def tensors_that_lie(target):
    """A tensor by value has the bytes that its type says."""
    for shape, data in (([8], b""), ([8], b"x" * 31), ([8], b"x" * 33), ([1 << 40], b"x"), ([-8], b"x" * 32), ([], b"x" * 32)):
        request = kernel_service_pb2.ExecuteRequest(graph=doubled())
        argument = request.arguments.add(slot=0)
        argument.tensor.dtype, argument.tensor.data = FLOAT, data
        argument.tensor.shape.extend(shape)
        refused(target.call("KernelService.Execute", request))


@attack
def results_that_nobody_frees(target):
    """What a session's runs leave goes with the session."""
    before = target.device_memory()
    token = target.session()
    nodes = Nodes()
    x = nodes.param(0, "float32", 1024)
    request = kernel_service_pb2.ExecuteRequest(graph=nodes.done(nodes.op("ADD", x, x)))
    argument = request.arguments.add(slot=0)
    argument.buffer.handle = target.allocate(4096, session=token)
    for _ in range(100):
        ran = target.call("KernelService.Execute", request, session=token)
        assert ran, ran.error
    target.end(token)
    assert target.gives_back_to(before)


@attack
def hash_that_nobody_compiled(target):
    """A hash that stands for no program asks for its graph."""
    for value in (b"", b"\0" * 32, b"\xff" * 32, b"x" * 31, b"x" * 33, b"x" * 100_000):
        request = kernel_service_pb2.ExecuteRequest(graph_hash=value)
        outcome = answered(target.call("KernelService.Execute", request))
        assert not outcome, "it ran"


@attack
def hash_of_another_graph(target):
    """A graph does not take another's place under its hash."""
    first = target.compile(doubled(11))
    assert first, first.error
    request = kernel_service_pb2.ExecuteRequest(graph_hash=first.answer.graph_hash, graph=doubled(12))
    refused(target.call("KernelService.Execute", request))


@attack
def explanations_of_nothing(target):
    """Explain, ListPrograms and Tune are bounded, and say so."""
    for name in ("DebugService.Explain", "DebugService.ListPrograms"):
        within(20, lambda name=name: answered(target.call(name)))


@attack
def times_and_evictions_of_nothing(target):
    """Time, Evict and State are bounded, and refuse what is not there."""
    refused(target.call("DebugService.Time"), "BAD_ARGUMENT")
    refused(target.call("DebugService.Time", repeat=(1 << 32) - 1), "BAD_ARGUMENT")
    refused(target.call("DebugService.Evict"), "BAD_ARGUMENT")
    refused(target.call("DebugService.Evict", graph_hash=b"\0" * 32), "NEED_GRAPH")
    state = target.call("DebugService.State", max_rows=(1 << 32) - 1, history_seconds=(1 << 32) - 1)
    assert state and all(len(row.busy) <= 180 for row in state.answer.history), state.error
