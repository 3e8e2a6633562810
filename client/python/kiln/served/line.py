"""Requests of a stream that have no answer yet, in their order: whose an answer is, and whose time is up.

A server runs a stream's requests one after the other, and says with each answer, by its id, whose it is. So the first
in the line is the one that it is busy with: that one's timeout runs, from when it was sent or the one before it was
answered. One whose time is up stays in the line: its answer may still come, and is then dropped.
"""

from __future__ import annotations

import collections
from typing import Any, Deque, List, NamedTuple, Optional

from kiln.errors import DeadlineExceeded, Internal, KilnError
from kiln.served.tensors import Ask, streamed


class Due(NamedTuple):
    """An answer that is to come."""

    future: Any
    ask: Ask
    sent: int  # bytes
    since: float  # when it was sent

    def take(self, message: bytes) -> None:
        """The future has its answer, or its failure: also one that is none of Kiln's, as where memory is short."""
        if self.future.done():  # whoever wanted it has gone
            return
        try:
            outputs = streamed(message, self.ask.outputs, self.ask.id)
        except Exception as error:
            self.future.set_exception(error)
            return
        self.future.set_result(outputs)

    def fail(self, error: KilnError) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def give_up(self) -> None:
        self.fail(DeadlineExceeded("no answer within %g s, the request's deadline" % (self.ask.timeout or 0)))


class Line:
    """Of one stream. Threads: one at a time; each Due comes out of it once, by answered(), late() or rest()."""

    def __init__(self) -> None:
        self._dues: Deque[Due] = collections.deque()
        self._late = 0  # how many, from the first on, have timed out: their answers are dropped
        self._since = 0.0  # when the server, as far as is known, began with the first that has not timed out
        self._before = ""  # the id that was answered last

    def __len__(self) -> int:
        return len(self._dues)

    def append(self, due: Due) -> None:
        self._dues.append(due)

    def answered(self, id: Optional[str], now: float) -> Optional[Due]:
        """Whose an answer with this id is, or None where nobody wants it; without an id it is the first's.

        Raises Internal for one that is neither the first's nor comes a second time.
        """
        if not self._dues or id not in (None, self._dues[0].ask.id):
            if id and id == self._before:
                return None
            raise Internal("the server answered a request that is not the next: %r" % (id or ""))
        due, self._since = self._dues.popleft(), now
        self._before = due.ask.id
        if self._late:
            self._late -= 1
            return None
        return due

    @property
    def deadline(self) -> Optional[float]:
        """When late() has somebody, if no answer comes before."""
        if self._late == len(self._dues):
            return None
        due = self._dues[self._late]
        return None if due.ask.timeout is None else max(due.since, self._since) + due.ask.timeout

    def late(self, now: float) -> Optional[Due]:
        """One whose time is up."""
        end = self.deadline
        if end is None or end > now:
            return None
        self._late, self._since = self._late + 1, now
        return self._dues[self._late - 1]

    @property
    def given_up(self) -> bool:
        """Whether answers are to come, and nobody waits for one."""
        return 0 < len(self._dues) == self._late

    def rest(self) -> List[Due]:
        """All that somebody waits for; they leave the line."""
        dues, self._dues = list(self._dues)[self._late :], collections.deque()
        self._late = 0
        return dues


def fail_all(dues: List[Due], error: Any) -> None:
    """Each with an error of its own, which `error` makes. What a callback of one raises keeps it from no other."""
    for due in dues:
        try:
            due.fail(error())
        except BaseException:  # SystemExit: all else concurrent.futures logs itself
            pass
