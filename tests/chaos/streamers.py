"""Clients that send commands without waiting: the Python client's stream, which takes itself up again.

Commands take effect once and in order, whatever becomes of connections. So the model knows every byte, and doubts
nothing: a buffer has what the last command made of it, or says that this command failed.
"""

from __future__ import annotations

import time
from typing import Any, Callable, List, Tuple

import numpy as np
import programs
import world  # noqa: F401: finds the package
from load import LEASE, Excused, Worker, code_of
from model import Wrong

import kiln

MOST = 8  # buffers


class Streams(Worker):
    """Rounds of commands: buffers with handles of the client's choice, programs, recordings; a read ends each."""

    def life(self) -> None:
        self.last_contact = time.monotonic()
        self.client = self.guarded("connect", lambda: kiln.connect(
            self.world.route(self.tenant).address, token_file=str(self.world.owner.secret_file(self.tenant)),
            tls=str(self.world.owner.authority), lease=LEASE, shared_memory=False, connect_timeout=LEASE))  # fmt: skip
        try:
            self.held: List[Tuple[Any, np.ndarray]] = []
            self.affine, self.sum = programs.Affine(*programs.pair(self.random)), programs.Gather(self.random.randrange(99))
            self.begin()
            for _ in range(self.random.randrange(8, 24)):
                if not self.going():
                    break
                self.guarded("a round of commands", self.round)
        except Excused as failure:
            if failure.code == "EXECUTOR_LOST" and not self.gone():
                self.after_lost_executor()
            raise
        finally:
            self.client.close()

    def begin(self) -> None:
        def compile_all() -> None:
            self.run_affine = self.client.compile(self.affine.graph())
            self.run_sum = self.client.compile(self.sum.graph())
            x, y = kiln.Memory(0), kiln.Memory(1)
            self.recording = self.client.record([(self.run_sum, [x, y]), (self.run_sum, [y, x])])

        self.guarded("compiling", compile_all)

    def guarded(self, what: str, use: Callable[[], Any]) -> Any:
        began = time.monotonic()
        try:
            result = use()
        except kiln.KilnError as error:
            raise self.judge(error, what) from error
        self.good(began)
        self.last_contact = began
        return result

    def gone(self) -> bool:
        return super().gone() or time.monotonic() - self.last_contact >= LEASE

    def round(self) -> None:
        for _ in range(self.random.randrange(3, 16)):
            kinds = [(self.make, 3), (self.compute, 5), (self.add, 5), (self.replay, 4), (self.copy, 3), (self.fill, 1), (self.free, 3)]
            self.random.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]()
        self.client.fence()
        if self.held:
            self.check(*self.random.choice(self.held))

    def check(self, buffer: Any, values: np.ndarray) -> None:
        data = buffer.numpy()
        if not np.array_equal(data, values):
            at = int(np.argmax(data != values))
            raise Wrong("a stream's buffer has %s at [%d], not %s" % (data[at : at + 4], at, values[at : at + 4]))

    def after_lost_executor(self) -> None:
        """What its programs were writing says so, for as long as it is there; all else is as it was sent."""
        for buffer, values in self.held:
            try:
                self.check(buffer, values)
            except kiln.KilnError as error:
                if code_of(error) != "EXECUTOR_LOST":
                    raise self.judge(error, "a read after its executor was lost") from error

    # -- commands

    def make(self) -> None:
        if len(self.held) >= MOST:
            self.free()
        values = programs.numbers(self.random.getrandbits(32))
        self.held.append((self.client.buffer(values), values))

    def pick(self) -> int:
        while not self.held:
            self.make()
        return self.random.randrange(len(self.held))

    def two(self) -> Tuple[int, int]:
        while len(self.held) < 2:
            self.make()
        one, other = self.random.sample(range(len(self.held)), 2)
        return one, other

    def became(self, at: int, values: np.ndarray) -> None:
        self.held[at] = (self.held[at][0], values)

    def compute(self) -> None:
        if len(self.held) >= MOST:
            self.free()
        x, values = self.held[self.pick()]
        self.held.append((self.run_affine(x, out="buffers"), self.affine.of(values)))

    def add(self) -> None:
        one, other = self.two()
        (x, was), (y, values) = self.held[one], self.held[other]
        self.became(one, self.sum.of(was, values))
        self.run_sum(x, y, out="buffers")

    def replay(self) -> None:
        one, other = self.two()
        (x, was), (y, values) = self.held[one], self.held[other]
        first = self.sum.of(was, values)
        self.became(one, first)
        self.became(other, self.sum.of(values, first))
        self.recording(x, y)

    def copy(self) -> None:
        one, other = self.two()
        self.became(one, self.held[other][1])
        self.held[one][0].copy_from(self.held[other][0])

    def fill(self) -> None:
        at, value = self.pick(), self.random.randrange(1 << 31)
        self.became(at, np.full(programs.SIZE, value, np.int32))
        self.held[at][0].fill(value)

    def free(self) -> None:
        if self.held:
            self.held.pop(self.random.randrange(len(self.held)))[0].free()


