"""What a server and the processes that it started take of the machine, and how much more an attack may leave behind.

Each row may leave a little: a thread that gRPC keeps, pages that the heap does not give back. But a little each time is a
leak all the same. So a server is compared twice: after each row with what it held before that row, and when it ends with
what it held when it was new, of which it may be no further away than one row alone may take it.
"""

from __future__ import annotations

import os
import pathlib
import sys
import time
from typing import Dict, List, NamedTuple, Optional, Tuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

import processes  # noqa: E402

# Of a core, by all of a server's processes together: more than this is work, and nobody has asked for any.
IDLE_CORES, LOOK_SECONDS = 0.1, 0.1
MIB = 1 << 20


class Held(NamedTuple):
    """The server's own first, then that of its compile workers, their zygote, and executors together."""

    resident: int  # bytes
    descriptors: int
    threads: int
    mappings: int
    workers: int  # processes
    workers_resident: int  # bytes; a page that they share with each other counts once for each
    workers_descriptors: int
    workers_threads: int


def of(process: int) -> Held:
    own, theirs = processes.usage(process), []
    for child in processes.children(process):
        try:
            theirs.append(processes.usage(child))
        except OSError:  # it ended meanwhile
            continue
    return Held(*own, len(theirs), sum(each.resident for each in theirs), sum(each.descriptors for each in theirs),
                sum(each.threads for each in theirs))  # fmt: skip


def cores_of(process: int) -> float:
    """How many cores it and the processes that it started keep busy now."""

    def nanoseconds() -> Dict[str, int]:
        found = {}
        for each in [process, *processes.children(process)]:
            for path in pathlib.Path("/proc/%d/task" % each).glob("*/schedstat"):
                try:
                    found[path.parent.name] = int(path.read_text().split()[0])
                except OSError:
                    continue
        return found

    before, begin = nanoseconds(), time.monotonic()
    time.sleep(LOOK_SECONDS)
    after = nanoseconds()
    used = sum(now - before.get(thread, now) for thread, now in after.items())
    return used / 1e9 / (time.monotonic() - begin)


# How much more of each. Compile workers that wait for a job are kept for a minute, as many as there are compile threads; so
# of the suite's servers, which have two of them, some have none, and then a zygote and two, each of at most 512 MiB, few
# descriptors of its own, and two of the server's. A program that is kept has two mappings.
MORE = Held(resident=192 * MIB, descriptors=8, threads=16, mappings=1000, workers=3, workers_resident=3 * 512 * MIB,
            workers_descriptors=3 * 8, workers_threads=3 * 2)  # fmt: skip


def more_than(before: Held, after: Held, may: Held = MORE) -> List[str]:
    """What there is more of than there may be."""
    return ["%s went from %d to %d, and may grow by %d" % (what, was, now, most)
            for what, was, now, most in zip(Held._fields, before, after, may) if now - was > most]  # fmt: skip


class Ledger:
    """Of one server: what it held when it was new, and which row left it with how much more."""

    def __init__(self, first: Held):
        self.first = self.last = first
        self.rows: List[Tuple[str, Held]] = []

    def note(self, row: str, after: Held) -> None:
        self.rows.append((row, Held(*[now - was for now, was in zip(after, self.last)])))
        self.last = after

    def faults(self, last: Optional[Held] = None, may: Held = MORE) -> List[str]:
        """What all rows together left, and the three that left most of it."""
        found = []
        for fault in more_than(self.first, last or self.last, may):
            which = Held._fields.index(fault.split(" ")[0])
            most = sorted(self.rows, key=lambda row: -row[1][which])[:3]
            found.append("%s; most of it by %s" % (
                fault, ", ".join("%s (%+d)" % (row, more[which]) for row, more in most if more[which] > 0)))  # fmt: skip
        return found
