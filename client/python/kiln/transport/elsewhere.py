"""Another server in the place of one that stops, or is gone: kiln.connect("a:7437,b:7437").

A client knows its programs, graphs and all, so another server of the list can take them over. What goes there by
itself is what is not bound to the first one: compiling, looking, and programs whose arguments are all arrays of this
process. A buffer is memory of its server and ends with it; so does what refers to one. Using it says so.
"""

from __future__ import annotations

import logging
from typing import Any, Callable, Dict, List, Sequence, Set

from kiln.errors import KilnError, NoServer, Unavailable
from kiln.waiting import Waits

log = logging.getLogger("kiln")


def leaves(error: KilnError) -> bool:
    """Whether the server will do nothing more, nor has done what failed so."""
    return error.code == "SHUTTING_DOWN" or isinstance(error, NoServer)


class Follows:
    """What a connection needs for it. `parts` are all that belongs to one server."""

    parts: Sequence[str]
    target: str
    closed: bool
    pipeline: Any
    live: Set[int]
    targets: Sequence[str]  # the list
    reach: Callable[[Sequence[str]], Waits[Any]]  # a connection to the first of these that answers
    _moving: Any  # a lock, awaited where calls are
    _left: Dict[int, str]  # handles of other servers, which had them

    def _elsewhere(self, error: KilnError, place: Any) -> Waits[bool]:
        """Whether the client is at another server than it was, whose pipeline was `place`, as that one failed so."""
        if not self.others() or not (leaves(error) or getattr(error, "gone", False)):
            return False
        yield self._moving.acquire()
        try:
            if self.pipeline is not place or self.closed:  # another thread was here
                return not self.closed
            try:
                other = yield from self.reach(self.others())
            except Unavailable as failed:
                log.warning("%s is gone, and no other server answers: %s", self.target, failed)
                return False
            log.warning("%s is gone (%s): now at %s; what was in its memory is lost",
                        self.target, error.message, other.target)  # fmt: skip
            self._left.update(dict.fromkeys(self.live, self.target))
            self._swap(other)
            yield self._let_go(other)
            return True
        finally:
            self._moving.release()

    def others(self) -> Sequence[str]:
        """Of the list, from the next one on. A server that was found behind one of it is none of them."""
        at = self.targets.index(self.target) if self.target in self.targets else len(self.targets)
        return [*self.targets[at + 1 :], *self.targets[:at]]

    def _swap(self, other: Any) -> None:
        """Takes what belongs to the server of `other`, and gives it this one's."""
        for name in self.parts:
            mine = getattr(self, name)
            setattr(self, name, getattr(other, name))
            setattr(other, name, mine)
        for one in (self, other):
            one._ends_with()

    def _let_go(self, other: Any) -> Any:
        """Closes `other`, without waiting."""
        raise NotImplementedError

    def _ends_with(self) -> None:
        """What is to end when this object does."""
        raise NotImplementedError

    def _place(self, error: KilnError) -> KilnError:
        """`error` itself; it says so if it is of a handle of another server."""
        home = self._left.get(error.handle) if error.handle and error.code == "UNKNOWN_HANDLE" else None
        if home is not None:
            error.message = "this was in the memory of %s, which is gone; the client is at %s now" % (home, self.target)
            error.remedy = "make it again: compute it, or send its data"
        return error


def several(failed: List[KilnError]) -> KilnError:
    """Of servers that were tried one after the other."""
    if len(failed) == 1:
        return failed[0]
    return NoServer("none of %d servers answers: %s" % (len(failed), "; ".join(error.message for error in failed)),
                    remedy="is kilnd running there?")  # fmt: skip
