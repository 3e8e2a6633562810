"""Load from several tenants while one fault after the other is done to the server, and a model of what may be seen of it.

    tests/chaos/chaos.py [--seed N] [--minutes M] [--every SECONDS] [--only FAULT] [--list]

KILN_KILND is the server's binary, KILN_CLI that of the command line. README.md says what is promised, and how to read
a failure. The same seed injects the same faults in the same order; what the load is doing just then is chance.
"""

from __future__ import annotations

import argparse
import pathlib
import random
import subprocess
import sys
import time
from typing import List, NamedTuple, Sequence

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from callers import Calls
from faults import FAULTS, inject
from load import Crew
from model import Wrong
from strangers import Greedy, Spies
from streamers import Streams
from watch import Watch, wait_for_baseline, wait_for_zero
from world import World, support

import processes

# What may be done while another fault lasts: it touches no process and no file of the owner's.
BESIDE = ("cut", "cut_midway", "hole", "delay", "fill_disk", "clock_ahead", "clock_back")
# While these last the server answers nobody, so what ends only with an answer of its may not be beside them.
SILENT, ASKS = ("stop_server", "kill_server"), ("clock_ahead",)

# What `kiln play` says of a capture that is whole up to where its server was killed, or to where it may be no longer.
ENDINGS = ("the server was stopped hard", "the capture ends where it was full")


class Step(NamedTuple):
    fault: str
    beside: str  # another one, in the middle of it; or none
    seed: int


def plan(seed: int, names: Sequence[str]) -> List[Step]:
    """A round: each fault once, in an order of the seed's, one in four with another beside it."""
    by = random.Random(seed)
    order = list(names)
    by.shuffle(order)
    steps = []
    for name in order:
        others = [other for other in BESIDE if other in names and other != name and not (name in SILENT and other in ASKS)]
        beside = by.choice(others) if others and by.random() < 0.25 else ""
        steps.append(Step(name, beside, by.getrandbits(32)))
    return steps


class Run:
    def __init__(self, seed: int, every: float, only: Sequence[str] = (), pace: float = 1.0):
        self.seed, self.every = seed, every
        self.names = list(only or FAULTS)
        self.begin = time.monotonic()
        self.world = World(seed, self.say, pace)
        self.crew = Crew(self.world)

    def say(self, text: str) -> None:
        print("%7.1f s  %s" % (time.monotonic() - self.begin, text), flush=True)

    def go(self, seconds: float, least: int = 0) -> bool:
        """Faults for so long, and at least so many; whether all held."""
        try:
            self._go(seconds, least)
        except Wrong as wrong:
            self.world.fail(str(wrong))
        finally:
            self.world.ended.set()
            self.crew.going.set()
            patience = time.monotonic() + 30
            for worker in self.crew.workers:
                worker.join(max(0.0, patience - time.monotonic()))
            self.table()
            log = list(self.world.server.log)
            self.world.close()
        if self.world.faults:
            print("\nFAILED, with seed %d:\n%s\nThe server's last words:\n%s" % (
                self.seed, "\n".join(self.world.faults[:5]), "".join(log[-30:])), flush=True)  # fmt: skip
        return not self.world.faults

    def _go(self, seconds: float, least: int) -> None:
        self.say("seed %d; kilnd at port %d, %s" % (self.seed, self.world.port, support.KILND))
        watch = Watch(self.world)
        watch.start()
        for kind, tenant, count in ((Calls, "alpha", 2), (Calls, "beta", 1), (Calls, "apart", 1), (Calls, "dated", 1),
                                    (Streams, "alpha", 1), (Streams, "beta", 1), (Streams, "apart", 1), (Greedy, "greedy", 1),
                                    (Spies, "spy", 1)):  # fmt: skip
            self.crew.add(kind, tenant, count)
        self.crew.start()
        self.crew.wait_for_rounds(60)
        self.come_to_rest("before the first fault")
        before = processes.usage(self.world.server.process.pid)
        self.say("the load has run without faults; the server has %s" % told(before))
        self.crew.go_on()
        self.faults(seconds, least)
        self.come_to_rest("after the last fault")
        after = wait_for_baseline(self.world, before)
        self.say("all accounts are at zero; the server has %s" % told(after))
        if watch.looks == 0:
            raise Wrong("nobody has looked at the quotas")
        if seconds > 0:  # it takes about as long as the rest of a short run
            self.play_captures()

    def faults(self, seconds: float, least: int) -> None:
        end, done, number = time.monotonic() + seconds, 0, 0
        steps: List[Step] = []
        while done < least or time.monotonic() < end:
            if not steps:
                steps, number = plan(self.seed + number, self.names), number + 1
            began = time.monotonic()
            self.do(steps.pop(0))
            done += 1
            if self.world.ended.wait(max(0.0, began + self.every - time.monotonic())):
                raise Wrong("the load failed")

    def do(self, step: Step) -> None:
        injected = inject(self.world, step.fault, step.seed, step.beside)
        for injection in injected:
            self.world.wait("the load goes on after %s" % injection.fault,
                            lambda: self.world.book.recovered(injection, self.crew.last_good()))  # fmt: skip
        failed = sum(sum(injection.failed.values()) for injection in injected)
        self.say("%-32s %3d calls failed; all go on %.1f s after it" % (
            " and ".join(injection.fault for injection in injected), failed,
            max(injection.recovered or 0.0 for injection in injected)))  # fmt: skip

    def come_to_rest(self, when: str) -> None:
        self.crew.pause()
        wait_for_zero(self.world, when)

    def play_captures(self) -> None:
        """What servers that were killed had written down is whole up to where they were."""
        self.world.kill_server()
        for capture in self.world.captures if support.CLI.exists() else ():
            # A server without tenants answers what theirs had refused, so that values are not compared here.
            played = subprocess.run([str(support.CLI), "play", str(capture), "--backend", "cpu", "--kilnd", str(support.KILND)],
                                    capture_output=True, text=True)  # fmt: skip
            said = played.stdout + played.stderr
            if not any(ending in said for ending in ENDINGS):
                raise Wrong("the capture of a server that was killed does not play: %s" % said[-2000:])
            self.say("a capture of %d KiB, of a server that was killed, plays to its end" % (capture.stat().st_size >> 10))

    def table(self) -> None:
        print("\n%-16s %5s  %-44s %s" % ("fault", "times", "requests that failed, by code", "longest until all went on"))
        for row in self.world.book.table():
            failed = ", ".join("%s %d" % item for item in sorted(row.failed.items())) or "none"
            print("%-16s %5d  %-44s %.1f s" % (row.fault, row.times, failed, row.recovered))
        rounds = self.crew.rounds()
        print("%d rounds of %d workers; seed %d" % (sum(rounds), len(rounds), self.seed), flush=True)


def told(usage: processes.Usage) -> str:
    return "%d MiB, %d descriptors, %d threads, %d mappings" % (usage.resident >> 20, *usage[1:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=None, help="of the faults; without it, another each time")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--every", type=float, default=10, help="seconds from one fault to the next")
    parser.add_argument("--only", action="append", choices=sorted(FAULTS), default=[], metavar="FAULT", help="may be repeated")
    parser.add_argument("--list", action="store_true", help="the faults, and what each does")
    said = parser.parse_args()
    if said.list:
        for each in FAULTS.values():
            print("%-16s %s" % (each.name, each.what))
        return 0
    seed = random.SystemRandom().randrange(1 << 30) if said.seed is None else said.seed
    return 0 if Run(seed, said.every, said.only).go(60 * said.minutes) else 1


if __name__ == "__main__":
    sys.exit(main())
