"""What random sequences of calls (sequences.py) expect: memory in numpy, and which call has poisoned which of it.

The rule is docs/protocol.md's. What a command that fails would have made or written is poisoned with
the first cause, and so is what is made from what is poisoned; elements that are overwritten by what
succeeds are healthy again. Where nothing was made, nothing can be overwritten. A use that is waited
for raises the cause; fence() raises the first that nobody has been told.

A call that is no command (it has a deadline, runs on several devices, or its client has no stream)
is answered itself, and poisons nothing, unless it was stopped in the middle: what it was writing is
then poisoned by a cause that comes before those of all commands.
"""

from __future__ import annotations

import collections
from typing import Any, Callable, List, NamedTuple, Optional, Tuple

import support  # noqa: F401: finds the package
import numpy as np

import kiln

SIZE = 8  # elements of most buffers, and of every parameter and result but a few


class Cause(NamedTuple):
    """Of failures: the number of the call, the tag that comes back with it, and its code; one of several, where a
    call has several faults, or a race decides."""

    order: int
    tag: Optional[str]
    codes: Tuple[str, ...]


# Of a call that was stopped: whether the server saw the deadline or the client's cancellation first.
STOPPED = Cause(0, None, ("DEADLINE_PASSED", "CALL_CANCELLED"))


def earliest(causes: Any) -> Optional[Cause]:
    return min((cause for cause in causes if cause), key=lambda cause: cause.order, default=None)


class Memory:
    """What a memory's elements are, and what poisoned each; or that it was not made."""

    def __init__(self, values: np.ndarray, cause: Optional[Cause] = None, made: bool = True):
        self.values, self.causes, self.made = values, [cause] * len(values), made


class Slot:
    """A Buffer of the client's and the part of a Memory that it shows."""

    def __init__(self, buffer: Any, memory: Memory, device: str, start: int = 0, count: Optional[int] = None):
        self.buffer, self.memory, self.device = buffer, memory, device
        self.part = slice(start, start + (len(memory.values) - start if count is None else count))

    @property
    def size(self) -> int:
        return self.part.stop - self.part.start

    @property
    def values(self) -> np.ndarray:
        return self.memory.values[self.part]

    @property
    def cause(self) -> Optional[Cause]:
        """The first of what poisons an element of it."""
        return earliest(self.memory.causes[self.part])

    def mark_poisoned(self, cause: Cause) -> None:
        self.memory.causes[self.part] = [there or cause for there in self.memory.causes[self.part]]

    def overwrite(self, values: np.ndarray, start: int = 0) -> None:
        begin = self.part.start + start
        self.memory.values[begin : begin + len(values)] = values
        self.memory.causes[begin : begin + len(values)] = [None] * len(values)

    def meets(self, other: "Slot") -> bool:
        """Whether they share an element."""
        return self.memory is other.memory and self.part.start < other.part.stop and other.part.start < self.part.stop


def first(*slots: Slot) -> Optional[Cause]:
    """The first cause of what is poisoned among them."""
    return earliest(slot.cause for slot in slots)


def first_of_call(*slots: Slot) -> Optional[Cause]:
    """The same of a call that is no command: it stumbles over the first, in the order given, that was not made."""
    return next((slot.cause for slot in slots if not slot.memory.made), None) or first(*slots)


class Expectations:
    """Of one client: what its calls raise, and what they leave.

    `stream` says whether it has a stream. `calls` numbers its calls.
    """

    def __init__(self, client: Any, stream: bool):
        self.client, self.stream, self.calls = client, stream, 0
        self.counts: "collections.Counter[str]" = collections.Counter()
        self._untold: List[Tuple[int, Cause]] = []

    @property
    def tag(self) -> str:
        return "call %d" % self.calls

    def either(self, met: Optional[Cause], own: Optional[Cause]) -> Optional[Cause]:
        """What a call is told that meets a cause and has faults of its own: the cause, if it is a command."""
        if met and own and not self.stream:
            return met._replace(codes=met.codes + own.codes)
        return met or own

    def failure(self, *codes: str, tagged: bool = False) -> Optional[Cause]:
        """That this call fails by itself, for one of these faults; None if it has none."""
        return Cause(self.calls, self.tag if tagged else None, codes) if codes else None

    def raises(self, cause: Cause, use: Callable[[], Any], told: bool = True) -> None:
        """`use` is waited for and meets `cause`. As a call of its own (not `told`) it knows nothing of commands."""
        told = told and self.stream
        self.counts["failed"] += 1
        try:
            use()
        except kiln.KilnError as error:
            wanted = (cause.codes, cause.tag if told else None)
            assert error.code in cause.codes and error.tag == wanted[1], (wanted, error, error.tag)
            if told and cause.order:
                self._untold = [(order, other) for order, other in self._untold if order != cause.order]
            return
        raise AssertionError("nothing was raised: %s" % (cause,))

    def asked(self, cause: Optional[Cause], use: Callable[[], Any], *outputs: Slot) -> Any:
        """A command that is waited for, or a call where there is no stream: its answer, None if it fails."""
        if cause is None:
            return use()
        self.raises(cause, use)
        if self.stream:
            for slot in outputs:
                slot.mark_poisoned(cause)
        return None

    def sent(self, cause: Optional[Cause], use: Callable[[], Any], *outputs: Slot) -> Any:
        """A command that nobody waits for, or a call where there is no stream: what it gives at once."""
        if cause is None:
            return use()
        if not self.stream:
            return self.raises(cause, use)
        result = use()
        self.counts["failed"] += 1
        # Of what a stopped call has poisoned each command fails for itself.
        self._untold.append((cause.order or self.calls, cause))
        for slot in outputs:
            slot.mark_poisoned(cause)
        return result

    def fence(self) -> None:
        if not self._untold:
            return self.client.fence()
        self.raises(self._untold[0][1], self.client.fence)
        self._untold = []

    def same(self, found: Any, wanted: np.ndarray) -> None:
        np.testing.assert_array_equal(found, wanted)
