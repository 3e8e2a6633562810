"""While tenants work, the file that says who they are is read again; and many at once want the last of a quota."""

from __future__ import annotations

import queue
import threading

import grpc
from attack import attack, refused, unknown
from attacks_streams import allocate, fence, hello
from kiln.transport import wire
from owner import HANDLES

A, B = "secret-a", "secret-b"
THREADS, ROUNDS = 64, 8


class Stream:
    """A stream of a tenant's, command by command."""

    def __init__(self, target, secret=A):
        self._commands = queue.Queue()
        self._number = 2
        self._answers = wire.stub(target.channel, "KernelService.Submit")(
            iter(self._commands.get, None), timeout=60, metadata=[("authorization", "Bearer " + secret)])  # fmt: skip
        self._commands.put(hello())
        self._commands.put(allocate(1, 7))
        assert next(self._answers).HasField("welcome") and next(self._answers).HasField("done")

    def works(self):
        """What it made is there, and the next command is answered."""
        read = fence(self._number)
        read.read.buffer.handle = 7
        self._commands.put(read)
        self._commands.put(fence(self._number + 1))
        self._number += 2
        assert next(self._answers).data == b"\0" * 64
        assert next(self._answers).HasField("fence")
        return True

    def ended(self):
        """The status with which the server ends it."""
        try:
            next(self._answers)
        except grpc.RpcError as error:
            self._commands.put(None)
            return error.code().name
        raise AssertionError("an answer that nobody asked for")

    def end(self):
        self._commands.put(None)
        assert not list(self._answers)


def _refusals(target):
    return sum("event=tenants_refused" in line for line in target.server.log)


def _known(target, secret):
    return bool(target.call("DeviceService.List", tenant=secret))


LONG = b"x" * (1 << 20)
BAD_FILES = {
    "nothing": None,
    "no text": bytes(range(256)) * 20,
    "a field that is none": b"wish: 1\n",
    "a tenant that has no name": b'tenant { token { sha256: "%s" } }' % (b"0" * 64),
    "a tenant twice": b'tenant { name: "x" } tenant { name: "x" }',
    "a hash that is none": b'tenant { name: "x" token { sha256: "5e" } }',
    "an issuer that is none": b'tenant { name: "x" jwt { issuer: "https://nobody" subject: "*" } }',
    "a name of lines": b'tenant { name: "x\\nevent=injected" token { sha256: "%s" } }' % (b"0" * 64),
    "a name with a NUL": b'tenant { name: "x\\000y" token { sha256: "%s" } }' % (b"0" * 64),
    "a name that is no UTF-8": b'tenant { name: "\xff\xfe" token { sha256: "%s" } }' % (b"0" * 64),
    "a name of a mebibyte": b'tenant { name: "%s" token { sha256: "%s" } }' % (LONG, b"0" * 64),
    "a name that leads out": b'tenant { name: "../x" token { sha256: "%s" } }' % (b"0" * 64),
    "messages in messages": b"tenant { " * 50_000,
    "half of itself": b'tenant { name: "x" token { sha256: "',
}


@attack(owned=True)
def tenants_file_that_is_bad(target):
    """A file with a fault is not in force, and the log says so in one line; the one before is, and streams go on."""
    stream = Stream(target)
    try:
        for name, data in BAD_FILES.items():
            before, since = _refusals(target), len(target.server.log)
            if data is None:
                target.owner.tenants.unlink()
            else:
                target.owner.write(data)
            target.owner.reload(target.server, lambda before=before: _refusals(target) > before)
            assert stream.works() and _known(target, A) and _known(target, B), name
            unknown(target, "secret-x")
            for line in target.server.log[since:]:
                assert not line.startswith("event=injected") and len(line) < 8192, (name, line[:200])
    finally:
        target.owner.write()
        since = len(target.server.log)
        target.owner.reload(target.server, lambda: any("reloaded=true" in line for line in target.server.log[since:]))
    stream.end()


@attack(owned=True)
def tenants_file_that_changes(target):
    """A good file is in force at once, in the middle of a stream: who is new is known, who is gone is not, and a stream
    that was let in before ends with why."""
    owner = target.owner
    stream, others = Stream(target), Stream(target, B)
    try:
        owner.secrets = {A: "a", B: "b", "secret-c": "c"}
        owner.write()
        owner.reload(target.server, lambda: _known(target, "secret-c"))
        assert stream.works() and others.works() and _known(target, A)
        owner.secrets = {B: "b"}
        owner.write()
        owner.reload(target.server, lambda: not _known(target, A))
        unknown(target, A)
        unknown(target, "secret-c")
        assert stream.ended() == "UNAUTHENTICATED" and others.works() and _known(target, B)
    finally:
        owner.secrets = {A: "a", B: "b"}
        owner.write()
        owner.reload(target.server, lambda: _known(target, A))
    assert others.works()
    others.end()


@attack(owned=True)
def quota_that_many_race_for(target):
    """However many ask at once, none has more than its quota: 64 threads never hold more handles than it says, and in
    the end exactly as many can be had as in the beginning."""
    held, most, faults = 0, 0, []
    lock = threading.Lock()

    def race():
        nonlocal held, most
        for _ in range(ROUNDS):
            made = target.call("BufferService.Allocate", bytes=64, tenant=B)
            if not made:
                if made.code != "QUOTA_EXCEEDED":
                    faults.append(made.error)
                continue
            with lock:
                held += 1
                most = max(most, held)
            # Counted as gone before it is: so what is counted here is never more than what is held there.
            with lock:
                held -= 1
            freed = target.call("BufferService.Free", handle=[made.answer.buffer.handle], tenant=B)
            if not freed:
                faults.append(freed.error)

    _take_all(target)
    threads = [threading.Thread(target=race) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults[:3]
    assert 0 < most <= HANDLES, most
    _take_all(target)


def _take_all(target):
    """All that the quota gives, and not one more; and gives it back."""
    handles = [target.call("BufferService.Allocate", bytes=64, tenant=B).answer.buffer.handle for _ in range(HANDLES)]
    error = refused(target.call("BufferService.Allocate", bytes=64, tenant=B), "QUOTA_EXCEEDED")
    assert (error.limit, error.limit_value) == ("handles", HANDLES), error
    assert _known(target, A)
    freed = target.call("BufferService.Free", handle=handles, tenant=B)
    assert freed, freed.error
