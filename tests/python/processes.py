"""Processes of a server, as /proc shows them."""

import os
import pathlib
from typing import List, NamedTuple


class Process(NamedTuple):
    number: int
    parent: int
    words: List[bytes]  # of its command line


def all_processes():
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except (OSError, IndexError):
            continue
        found.append(Process(int(folder.name), parent, words))
    return found


def children(process):
    """Numbers of the processes whose parent it is, and of theirs."""
    rows, found = all_processes(), [process]
    for parent in found:
        found += [row.number for row in rows if row.parent == parent]
    return found[1:]


def executors(process):
    """Of a server: those that run a tenant's programs."""
    return sorted(row.number for row in all_processes() if row.parent == process and b"--executor" in row.words)


def zygotes(process):
    """Of a server: the one that compile workers are born of."""
    return [row.number for row in all_processes() if row.parent == process and b"--compile_worker" in row.words]


def compile_workers(process):
    mothers = zygotes(process)
    return sorted(row.number for row in all_processes() if row.parent in mothers)


def ended_first(process):
    """How much rather the kernel ends it than others where memory is short: -1000 to 1000."""
    return int(pathlib.Path("/proc/%d/oom_score_adj" % process).read_text())


class Usage(NamedTuple):
    resident: int  # bytes
    descriptors: int
    threads: int
    mappings: int


def usage(process):
    """What it takes of the machine."""
    folder = pathlib.Path("/proc/%d" % process)
    pages = int((folder / "statm").read_text().split()[1])
    return Usage(pages * os.sysconf("SC_PAGE_SIZE"), len(list((folder / "fd").iterdir())),
                 len(list((folder / "task").iterdir())), len((folder / "maps").read_text().splitlines()))  # fmt: skip
