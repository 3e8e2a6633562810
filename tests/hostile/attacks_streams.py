"""Streams of commands: out of order, twice, of others' sessions, without an end."""

from __future__ import annotations

from attack import DTYPES, answered, attack, refused, within
from kiln.v1 import kernel_service_pb2


def command(number, **fields):
    return kernel_service_pb2.SubmitRequest(command_id=number, **fields)


def hello(token=b""):
    message = kernel_service_pb2.SubmitRequest()
    message.hello.session_token = token
    return message


def fence(number):
    return command(number, fence=kernel_service_pb2.FenceCommand())


def allocate(number, handle, nbytes=64):
    return command(number, allocate=kernel_service_pb2.AllocateCommand(handle=handle, bytes=nbytes), answer=True)


def failures(outcome):
    assert outcome, outcome.error
    return [answer for answer in outcome.answer if answer.HasField("failed")]


@attack
def stream_without_a_hello(target):
    """A stream begins with a hello."""
    refused(target.submit_raw(fence(1)), "COMMAND_ORDER")


@attack
def stream_with_two_hellos(target):
    """And has one."""
    refused(target.submit_raw(hello(), hello()), "COMMAND_ORDER")


@attack
def stream_of_a_session_that_is_none(target):
    """A stream's session is there."""
    for token in (b"x" * 16, b"\0", b"y" * 5000):
        refused(target.submit_raw(hello(token)), "SESSION_EXPIRED", "UNKNOWN_HANDLE")


@attack
def stream_numbers_that_fall(target):
    """Commands' numbers rise."""
    for numbers in ((2, 1), (5, 5), (0,), ((1 << 64) - 1, 1)):
        outcome = target.submit_raw(hello(), *[fence(number) for number in numbers])
        refused(outcome, "COMMAND_ORDER")


@attack
def stream_of_empty_commands(target):
    """A command that is none is refused."""
    assert len(failures(target.submit(command(1)))) == 1


@attack
def stream_that_names_what_there_is(target):
    """A name is given once; 0 is none."""
    failed = failures(target.submit(allocate(1, 7), allocate(2, 7), allocate(3, 0)))
    assert [answer.command_id for answer in failed] == [2, 3], failed


@attack
def stream_that_names_anothers(target):
    """Names of one stream are unknown to another."""
    token = target.session()
    assert not failures(target.submit(allocate(1, 99), session=token))
    read = command(1)
    read.read.buffer.handle = 99
    assert len(failures(target.submit(read))) == 1
    refused(target.read(99), "UNKNOWN_HANDLE")
    target.end(token)


@attack
def stream_that_frees_anothers(target):
    """And cannot be freed by it."""
    token = target.session()
    handle = target.allocate(64, session=token)
    free = command(1, free=kernel_service_pb2.FreeCommand(handle=[handle]), answer=True)
    assert len(failures(target.submit(free))) == 1
    assert target.read(handle, session=token)
    target.end(token)


@attack
def stream_of_wild_ranges(target):
    """What a command gets wrong fails it, and poisons no other memory."""
    commands, number = [allocate(1, 5)], 1
    for offset, nbytes in ((64, 1), (0, 65), (1 << 63, 1), ((1 << 64) - 1, 8)):
        number += 1
        read = command(number)
        read.read.buffer.handle, read.read.buffer.offset, read.read.bytes = 5, offset, nbytes
        commands.append(read)
    number += 1
    good = command(number)
    good.read.buffer.handle = 5
    outcome = target.submit(*commands, good)
    assert len(failures(outcome)) == 4
    assert outcome.answer[-1].data == b"\0" * 64, outcome.answer[-1]


@attack
def stream_of_poison(target):
    """A failure's consequences name its first cause."""
    write = command(2)
    write.write.buffer.handle, write.write.buffer.offset, write.write.data = 5, 60, b"x" * 8
    read = command(3)
    read.read.buffer.handle = 5
    failed = failures(target.submit(allocate(1, 5), write, read))
    assert [answer.command_id for answer in failed] == [2, 3], failed
    assert failed[1].failed.cause_command_id == 2, failed[1]


@attack
def stream_that_allocates_without_end(target):
    """Memory that is not there fails its command alone."""
    before = target.device_memory()
    outcome = target.submit(allocate(1, 5, 1 << 60), allocate(2, 6, (1 << 64) - 1), allocate(3, 7, 64))
    assert [answer.command_id for answer in failures(outcome)] == [1, 2]
    assert target.gives_back_to(before)  # a stream's own names end with it


@attack
def stream_of_ten_thousand_fences(target):
    """Very many commands are answered, each."""
    outcome = within(30, lambda: target.submit(*[fence(i + 1) for i in range(10_000)]))
    assert outcome, outcome.error
    assert len([answer for answer in outcome.answer if answer.HasField("fence")]) == 10_000


@attack
def stream_taken_by_another(target):
    """The newest connection has the session: the older one ends, and no command runs twice."""
    token = target.session()
    from kiln.transport import wire
    import queue

    commands = queue.Queue()
    commands.put(hello(token))
    commands.put(allocate(1, 5))
    first = wire.stub(target.channel, "KernelService.Submit")(iter(commands.get, None), timeout=20)
    next(first), next(first)
    again = target.submit(allocate(1, 5), fence(2), session=token)
    assert not failures(again)
    refused(target.outcome(lambda: list(first)), "SESSION_BUSY")
    commands.put(None)
    target.end(token)


@attack
def stream_of_strange_types(target):
    """A type that is none makes nothing."""
    strange = command(1)
    strange.allocate.handle, strange.allocate.type.dtype = 5, 200
    negative = command(2)
    negative.allocate.handle, negative.allocate.type.dtype = 6, DTYPES["float32"]
    negative.allocate.type.shape.append(-5)
    assert len(failures(target.submit(strange, negative))) == 2


@attack
def stream_acknowledges_what_never_was(target):
    """An acknowledgement of the future is no harm."""
    answered(target.submit(command(1, fence=kernel_service_pb2.FenceCommand(), acknowledged=(1 << 64) - 1)))
