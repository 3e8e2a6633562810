"""Whether answers tell a tenant what another has had compiled: statistics, not opinions.

    tests/hostile/oracle.py [--probes 10000] [--handles 1048576]

Tenant a compiles graphs; b then asks for as many of these as of new ones, in random order, and notes how long each
answer took and all that it says. Of a perfect oracle the area under the curve (AUC) of hit against miss is 1, of none
0.5; above 0.55 fails. Also: a's own second compile is always found, and of so many guessed handles none is anything.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from attack import TENANTS, Target, doubled, refused
from suite import Servers

LIMIT = 0.55
A, B = TENANTS
FIRST_SIZE = 1000  # of the vectors that tell graphs apart


class Row:
    server = "tenants"


def auc(hits, misses):
    """How often a hit's number is below a miss's: Mann and Whitney's U, divided by the pairs."""
    ranked = sorted([(value, True) for value in hits] + [(value, False) for value in misses])
    rank_sum, i = 0.0, 0
    while i < len(ranked):
        j = i
        while j < len(ranked) and ranked[j][0] == ranked[i][0]:
            j += 1
        rank_sum += sum((i + j + 1) / 2 for row in ranked[i:j] if row[1])
        i = j
    below = len(hits) * len(misses) - (rank_sum - len(hits) * (len(hits) + 1) / 2)
    return below / (len(hits) * len(misses))


def probe(target: Target, probes: int, seed: int = 5):
    """AUC of the time and of compile_us, and what answers to hits and misses said."""
    order = random.Random(seed)
    # Drawn: an odd vector compiles a little slower than an even one, whoever has had it compiled.
    sizes = order.sample(range(FIRST_SIZE, FIRST_SIZE + 2 * probes), 2 * (probes // 2))
    known, new = sizes[: probes // 2], sizes[probes // 2 :]
    for size in known:
        assert target.call("KernelService.Compile", graph=doubled(size), tenant=A)
    asked = [(size, True) for size in known] + [(size, False) for size in new]
    order.shuffle(asked)
    seconds = {True: [], False: []}
    compile_us = {True: [], False: []}
    said = {True: set(), False: set()}
    for size, hit in asked:
        begin = time.perf_counter()
        outcome = target.call("KernelService.Compile", graph=doubled(size), tenant=B)
        seconds[hit].append(time.perf_counter() - begin)
        assert outcome, outcome.error
        compile_us[hit].append(outcome.answer.compile_us)
        said[hit].add((outcome.code, outcome.answer.from_cache, outcome.answer.kernels))
    for size in known[-100:]:
        own = target.call("KernelService.Compile", graph=doubled(size), tenant=A)
        assert own and own.answer.from_cache, "a tenant's own second compile was not found"
    return auc(seconds[True], seconds[False]), auc(compile_us[True], compile_us[False]), said


def guess(target: Target, handles: int, seed: int = 9):
    """Whether any of so many guesses is a handle: each is asked about in one call for a thousand."""
    numbers = random.Random(seed)
    for _ in range(handles // 1024):
        refused(target.free(*[numbers.getrandbits(64) | 1 for _ in range(1024)]), "UNKNOWN_HANDLE")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--probes", type=int, default=10_000)
    parser.add_argument("--handles", type=int, default=1 << 20)
    said = parser.parse_args()
    servers = Servers()
    try:
        target = servers.of(Row())
        by_time, by_compile_us, answers = probe(target, said.probes)
        print("%d probes: AUC by time %.3f, by compile_us %.3f; answers to hits %s, to misses %s" % (
            said.probes, by_time, by_compile_us, answers[True], answers[False]))  # fmt: skip
        guess(target, said.handles)
        print("%d guessed handles: none is one" % said.handles)
    finally:
        servers.stop()
    held = max(by_time, by_compile_us) <= LIMIT and answers[True] == answers[False]
    print("no oracle" if held else "AN ORACLE: above %.2f" % LIMIT)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
