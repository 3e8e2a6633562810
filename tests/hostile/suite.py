"""Attacks on a server, one after the other; after each the server computes, does nothing else, and holds little more than
before; and after all of them little more than at first (held.py).

    tests/hostile/suite.py [--list] [--holes] [NAME…]

NAME: a part of a row's name. KILN_KILND is the server's binary. Rows whose promise is not kept yet ("holes", which
docs/safety.md lists) run with --holes alone; one that holds after all fails, so that its mark goes.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import pathlib
import sys
import tempfile
import time
import traceback
from typing import Dict, List, NamedTuple

import held
from attack import ATTACKS, TENANTS, Attack, Owner, Target, support
from held import Held

import attacks_cache  # noqa: F401: their rows are in ATTACKS
import attacks_compile
import attacks_graphs  # noqa: F401
import attacks_local  # noqa: F401
import attacks_memory  # noqa: F401
import attacks_names  # noqa: F401
import attacks_neighbours  # noqa: F401
import attacks_owner  # noqa: F401
import attacks_regions
import attacks_runs  # noqa: F401
import attacks_slow  # noqa: F401
import attacks_streams  # noqa: F401
import attacks_tenants  # noqa: F401
import attacks_tokens  # noqa: F401
import attacks_unknown  # noqa: F401
import attacks_wire  # noqa: F401

FLAGS = ("--cpu_devices=2",)
# A sanitizer keeps what is freed for a while, to see whether it is used, and shadows of all that there ever was. So that
# there is a bound all the same, what it keeps is less than it would be by itself.
SANITIZED = bool(os.environ.get("KILN_SANITIZED"))
UNDER_SANITIZERS = held.MORE._replace(resident=768 << 20, workers_resident=3 << 30)
if SANITIZED:
    os.environ.setdefault("ASAN_OPTIONS", "quarantine_size_mb=64")
SETTLES = 20.0  # seconds that a server has to give things back, and to end what nobody waits for


class Verdict(NamedTuple):
    attack: Attack
    seconds: float
    fault: str  # empty: it held
    before: Held
    after: Held


def may(kind: str) -> Held:
    """How much more of each there may be, on such a server."""
    more = UNDER_SANITIZERS if SANITIZED else held.MORE
    return more._replace(resident=1 << 40) if kind == "apart" else more


def judge(row: Attack, target: Target) -> Verdict:
    gc.collect()  # channels of the row before
    before = held.of(target.process)
    begin = time.monotonic()
    fault = ""
    try:
        row.run(target)
    except Exception:
        fault = traceback.format_exc()
    seconds = time.monotonic() - begin
    gc.collect()
    if fault:
        ended = target.server.process.poll() is not None
        return Verdict(row, seconds, fault, before, before if ended else held.of(target.process))
    fault, after = settled(target, before, may(row.server))
    return Verdict(row, seconds, fault, before, after)


def settled(target: Target, before: Held, most: Held):
    """What is wrong with the server afterwards, and what it takes; it has a while to give things back."""
    if target.server.process.poll() is not None:
        return "the server ended:\n" + "".join(target.server.log[-20:]), before
    try:
        if not target.healthy():
            return "a small program has wrong values", before
    except Exception as error:
        return "the server serves nobody: %s" % error, before
    end = time.monotonic() + SETTLES
    while True:
        after = held.of(target.process)
        faults = held.more_than(before, after, most)
        if not faults:
            cores = held.cores_of(target.process)
            if cores > held.IDLE_CORES:
                faults = ["it keeps %.2f cores busy, and nobody waits for anything" % cores]
        if not faults or time.monotonic() > end:
            return "; ".join(faults), after


def select(names: List[str], holes: bool) -> List[Attack]:
    return [row for row in ATTACKS if bool(row.hole) == holes and (not names or any(name in row.name for name in names))]


def all_together(_: Target) -> None:
    """All rows together leave no more than one of them may."""


class Servers:
    """One that is open to all, one with tenants, one whose tenants share code without seeing it, one where
    compilations have little time, one for files and shared memory, one for shared memory by name, one whose owner's
    files change, and under a sanitizer one that keeps what it has once taken; each begun when it is first wanted, and anew if a row ended it."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._targets: Dict[str, Target] = {}
        self._ledgers: Dict[str, held.Ledger] = {}

    def of(self, row: Attack) -> Target:
        kind = row.server
        target = self._targets.get(kind)
        if target is None or target.server.process.poll() is not None:
            target = self._targets[kind] = self._begin(kind)
            target.healthy()  # what is made once, at first use, is there
            self._ledgers[kind] = held.Ledger(held.of(target.process))
        return target

    def note(self, verdict: Verdict) -> None:
        self._ledgers[verdict.attack.server].note(verdict.attack.name, verdict.after)

    def together(self) -> List[Verdict]:
        """A verdict on all rows of each server; to be asked when they have run."""
        found = []
        for kind, ledger in self._ledgers.items():
            target = self._targets[kind]
            if target.server.process.poll() is not None:
                continue  # its row has failed
            begin = time.monotonic()
            while True:
                last = held.of(target.process)
                faults = ledger.faults(last, may(kind))
                if not faults or time.monotonic() > begin + SETTLES:
                    break
                time.sleep(0.1)
            row = Attack("all_rows_together_" + kind, all_together, "", kind)
            found.append(Verdict(row, time.monotonic() - begin, "; ".join(faults), ledger.first, last))
        return found

    def _begin(self, kind: str) -> Target:
        if kind in ("tenants", "hidden"):
            return Target(support.Server(*FLAGS, "--tenants=%s" % self._tenants(kind)), next(iter(TENANTS)))
        if kind == "bombs":
            return Target(support.Server(*FLAGS, "--tenants=%s" % self._tenants(kind), "--compile_threads=2",
                                         "--compile_limits_max_seconds=%d" % attacks_compile.MOST_SECONDS,
                                         "--beam_limits_max_budget_ms=%d" % (1000 * attacks_compile.MOST_SEARCH_SECONDS),
                                         "--beam_limits_default_budget_ms=1000",
                                         "--admin_listen=127.0.0.1:0"), next(iter(TENANTS)))  # fmt: skip
        if kind == "owned":
            owner = Owner(pathlib.Path(tempfile.mkdtemp(dir=self._folder.name)), TENANTS)
            return Target(support.Server(*FLAGS, "--tenants=%s" % owner.tenants), next(iter(TENANTS)), owner=owner)
        if kind == "regions":
            folder = pathlib.Path(tempfile.mkdtemp(dir=self._folder.name))
            target = Target(support.Server(*FLAGS, *attacks_regions.flags(folder / "models"),
                                           "--tenants=%s" % self._tenants(kind), host="unix:%s" % (folder / "socket")),
                            next(iter(TENANTS)))  # fmt: skip
            attacks_regions.wait_until_ready(target)
            return target
        if kind == "local":
            folder = pathlib.Path(self._folder.name) / "data"
            folder.mkdir(exist_ok=True)
            return Target(support.Server(*FLAGS, "--data_folder=%s" % folder, "--shared_memory_max_bytes=%d" % (64 << 20)),
                          folder=folder)  # fmt: skip
        return Target(support.Server(*FLAGS))

    def _tenants(self, kind: str) -> pathlib.Path:
        path = pathlib.Path(self._folder.name) / (kind + ".txtpb")
        # The user of who attacks, so that the system tells who it is; it is known as a and b by their tokens.
        me = 'tenant { name: "me" unix_user: "%d" }\n' % os.getuid() if kind == "regions" else ""
        path.write_text(("cache_sharing: SHARE_HIDDEN\n" if kind == "hidden" else "") + me + "".join(
            'tenant { name: "%s" token { sha256: "%s" } }\n' % (name, hashlib.sha256(secret.encode()).hexdigest())
            for secret, name in TENANTS.items()))  # fmt: skip
        return path

    def stop(self) -> None:
        for target in self._targets.values():
            target.close()
            target.server.stop()
        self._folder.cleanup()


def run(rows: List[Attack], out=sys.stdout) -> List[Verdict]:
    verdicts = []
    servers = Servers()
    try:
        for row in rows:
            verdicts.append(judge(row, servers.of(row)))
            servers.note(verdicts[-1])
            print(line(verdicts[-1]), file=out, flush=True)
        for verdict in servers.together():
            verdicts.append(verdict)
            print(line(verdict), file=out, flush=True)
    finally:
        servers.stop()
    return verdicts


def line(verdict: Verdict) -> str:
    more = Held(*[after - before for before, after in zip(verdict.before, verdict.after)])
    return "%-4s %-52s %6.2f s  %+7.1f MiB  %+3d fd  %+3d threads  %+5d mappings  %+7.1f MiB in %+d workers" % (
        "ok" if not verdict.fault else "FAIL", verdict.attack.name, verdict.seconds, more.resident / held.MIB,
        more.descriptors, more.threads, more.mappings, more.workers_resident / held.MIB, more.workers)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--list", action="store_true", help="rows and what each attacks")
    parser.add_argument("--holes", action="store_true", help="rows whose promise is not kept yet")
    said = parser.parse_args()
    if said.list:
        for row in ATTACKS:
            print("%-52s %s%s" % (row.name, row.promise, " (a hole: %s)" % row.hole if row.hole else ""))
        print("%d rows" % len(ATTACKS))
        return 0
    verdicts = run(select(said.names, said.holes))
    failed = [verdict for verdict in verdicts if verdict.fault]
    for verdict in failed:
        print("\n%s: %s\n%s" % (verdict.attack.name, verdict.attack.promise, verdict.fault))
    if said.holes:
        failed, verdicts = [[each for each in some if each.attack.hole] for some in (failed, verdicts)]
        print("%d holes stand, %d are closed" % (len(failed), len(verdicts) - len(failed)))
        return 1 if len(failed) < len(verdicts) else 0
    print("%d passed, %d failed" % (len(verdicts) - len(failed), len(failed)))
    return 1 if failed or not verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
