"""What all clients of the load have in common: lives, calls, and how a failure of one is judged.

A worker is a thread with a connection of its own, by its tenant's way to the server. It has one life after the other:
opens what it needs, works for a while against what the model says, gives all back. A failure that a fault allows ends
a life, or makes a buffer doubtful; any other ends the run.
"""

from __future__ import annotations

import random
import threading
import time
import traceback
from typing import Any, Callable, List, Optional, Sequence

import grpc
from model import FORGOTTEN, Wrong
from world import World, wire

import kiln
from kiln.errors import from_rpc

# Seconds: no call may take so long, whatever is done to it.
LIMIT = 600.0
LEASE = 40
# Between two rounds, so that there is something left of the machine.
BREATH = 0.004


class Excused(Exception):
    """A call failed as a fault allows. `code` is the failure's."""

    def __init__(self, code: str):
        super().__init__(code)
        self.code = code


def code_of(error: kiln.KilnError) -> str:
    """Of a failure: the protocol's code, or gRPC's status where the server said none."""
    if error.detail is not None and error.code:
        return error.code
    if error.status is None:
        return error.code or type(error).__name__
    return error.status.name if error.code is None else error.code


class Worker(threading.Thread):
    """`last_good` is when its last call that succeeded began; `idle` is set while it has nothing on the server."""

    def __init__(self, world: World, crew: "Crew", tenant: str, number: int):
        super().__init__(name="%s of %s, %d" % (type(self).__name__, tenant, number), daemon=True)
        self.world, self.crew, self.tenant = world, crew, tenant
        self.random = random.Random("%d %s" % (world.seed, self.name))
        self.last_good = time.monotonic()
        self.rounds = 0
        self.idle = threading.Event()
        self.kills = 0

    def run(self) -> None:
        try:
            while not self.world.ended.is_set():
                if not self.crew.going.is_set():
                    self.idle.set()
                    self.crew.going.wait(0.1)
                    continue
                self.idle.clear()
                self.kills = self.world.kills_done
                try:
                    self.life()
                except Excused:
                    self.world.ended.wait(0.05)
        except Exception:
            self.world.fail("%s, in round %d:\n%s" % (self.name, self.rounds, traceback.format_exc()))
        finally:
            self.idle.set()

    def life(self) -> None:
        raise NotImplementedError

    def going(self) -> bool:
        """Whether to go on with a life; takes a breath."""
        self.rounds += 1
        return not self.world.ended.wait(BREATH) and self.crew.going.is_set() and self.kills == self.world.kills_done

    def good(self, began: float) -> None:
        self.last_good = max(self.last_good, began)

    def judge(self, error: kiln.KilnError, call: str) -> Excused:
        """What to raise for a failure that is allowed; raises Wrong for another."""
        code = code_of(error)
        if code in FORGOTTEN and self.gone():
            return Excused(code)
        if self.world.ended.is_set() or self.world.book.excuse(self.tenant, code, self.last_good):
            return Excused(code)
        raise Wrong("%s of tenant %s failed with %s, which nothing allows: %s (status %s, field %s, handle %s, limit %s)" % (
            call, self.tenant, code, error, error.status, error.field, error.handle, error.limit)) from error  # fmt: skip

    def gone(self) -> bool:
        """Whether what it had may be gone: the server was killed."""
        return self.kills != self.world.kills_begun


class Caller(Worker):
    """A worker that makes single calls."""

    channel: grpc.Channel
    token = b""  # of its session
    renewed = 0.0

    def connect(self) -> None:
        self.channel = self.world.channel(self.world.route(self.tenant).address)

    def call(self, name: str, *, session: Optional[bytes] = None, **fields: Any) -> Any:
        return self.calling(name, lambda stub, **how: stub(wire.METHODS[name].request(**fields), **how), session)

    def calling(self, name: str, use: Callable[..., Any], session: Optional[bytes] = None,
                expected: Sequence[str] = ()) -> Any:
        """What `use` makes of the call's stub, with deadline and metadata to pass on; the KilnError, if its code is one
        of `expected`."""
        began = time.monotonic()
        try:
            metadata = self.world.metadata(self.tenant, self.token if session is None else session)
            answer = use(wire.stub(self.channel, name), timeout=LIMIT, metadata=metadata, wait_for_ready=True)
        except grpc.RpcError as failure:
            answer = from_rpc(failure, self.world.route(self.tenant).address)
            if code_of(answer) not in expected:
                raise self.judge(answer, name) from failure
        self.good(began)
        return answer

    def refused(self, name: str, codes: Sequence[str], session: bytes = b"", use: Optional[Callable[..., Any]] = None,
                **fields: Any) -> None:
        """The call must be refused with one of these codes; a fault may come between."""
        use = use or (lambda stub, **how: stub(wire.METHODS[name].request(**fields), **how))
        answer = self.calling(name, use, session, expected=codes)
        if not isinstance(answer, kiln.KilnError):
            raise Wrong("%s was answered, and should be refused with %s: %.200s" % (name, " or ".join(codes), answer))

    def open(self) -> None:
        began = time.monotonic()
        answer = self.call("SessionService.Open", session=b"", lease_seconds=LEASE)
        self.token, self.renewed = answer.token, began
        if super().gone():  # by which server it was opened, nobody knows
            self.end()
            raise Excused("UNAVAILABLE")
        self.world.published.append((self.tenant, "session", answer.token))

    def renew(self) -> None:
        if time.monotonic() - self.renewed < LEASE / 8:
            return
        began = time.monotonic()
        self.call("SessionService.Renew", session=b"", token=self.token)
        self.renewed = began

    def gone(self) -> bool:
        return super().gone() or (self.token != b"" and time.monotonic() - self.renewed >= LEASE)

    def take_up(self) -> None:
        """The session by another connection, within its lease."""
        self.channel.close()
        self.connect()
        began = time.monotonic()
        answer = self.call("SessionService.Open", session=b"", resume_token=self.token, lease_seconds=LEASE)
        if not answer.resumed:
            if not self.gone():
                raise Wrong("a session was not taken up, %.1f s after its lease of %d s began" % (
                    time.monotonic() - self.renewed, LEASE))  # fmt: skip
            self.token = answer.token
            self.end()
            raise Excused("SESSION_EXPIRED")
        self.renewed = began

    def end(self) -> None:
        """Closes the session. What a fault keeps it from ends with the lease; so it is tried again for a while. A try
        that was not answered may have closed it, so the next one may find nothing."""
        may_be_closed: Sequence[str] = ()
        for _ in range(50):
            try:
                self.calling("SessionService.Close", lambda stub, **how: stub(
                    wire.METHODS["SessionService.Close"].request(token=self.token), **how), b"", may_be_closed)  # fmt: skip
            except Excused as failure:
                if failure.code in FORGOTTEN or self.world.ended.wait(0.1):
                    break
                may_be_closed = ("UNKNOWN_HANDLE",)
                continue
            break
        self.token = b""


class Crew:
    """All workers. They work while `going` is set."""

    def __init__(self, world: World):
        self.world = world
        self.going = threading.Event()
        self.workers: List[Worker] = []

    def add(self, kind: Any, tenant: str, count: int = 1) -> None:
        for _ in range(count):
            self.workers.append(kind(self.world, self, tenant, len(self.workers)))

    def start(self) -> None:
        self.going.set()
        for worker in self.workers:
            worker.start()

    def pause(self) -> None:
        """Returns when no worker has anything on the server."""
        self.going.clear()
        self.world.wait("the load has come to rest", lambda: all(worker.idle.is_set() for worker in self.workers))

    def go_on(self) -> None:
        self.going.set()

    def rounds(self) -> List[int]:
        return [worker.rounds for worker in self.workers]

    def wait_for_rounds(self, count: int) -> None:
        """Until each has made so many more, or failed."""
        goals = [rounds + count for rounds in self.rounds()]
        self.world.wait("%d rounds of each worker" % count, lambda: all(map(int.__ge__, self.rounds(), goals)))

    def last_good(self) -> List[float]:
        return [worker.last_good for worker in self.workers]


__all__ = ["BREATH", "Caller", "Crew", "Excused", "LEASE", "LIMIT", "Worker", "code_of"]
