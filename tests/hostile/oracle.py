"""Whether answers tell a tenant what another has: statistics, not opinions.

    tests/hostile/oracle.py [--probes 10000] [--handles 1048576] [--sharing none|hidden]

Compiled graphs: tenant a compiles some; b then asks for as many of these as of new ones, in random order, first by
their hash and then with the graph, and notes how long each answer took and all that it says. The area under the curve
(AUC) of hit against miss is 0.5 where nothing is told, and as far from it as 0.55 or 0.45 fails: hits that are slower
tell as much as hits that are faster. Each of a's own second compiles is found.

Names: a holds 10,000 handles, and sessions and recordings; b guesses, and also shows the very names that a has.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from attack import TENANTS, Nodes, Target, doubled, refused
from kiln.hash import graph_hash
from kiln.transport import wire
from kiln.v1 import kernel_service_pb2
from suite import Servers

LIMIT = 0.55
A, B = TENANTS
FIRST_SIZE = 1000  # of the vectors that tell graphs apart
# Of the probes that follow one another, so that the cache still has what a compiled in their round.
ROUND = 500
HELD = 10_000  # handles of a's


class Row:
    def __init__(self, sharing="none"):
        self.server = "tenants" if sharing == "none" else sharing


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


def told(hits, misses):
    """From 0.5, nothing, to 1: whoever sees that hits are always the slower ones knows as much."""
    area = auc(hits, misses)
    return max(area, 1 - area)


class Heard:
    """What was said to hits (True) and to misses, and figures of each answer."""

    def __init__(self):
        self.said = {True: set(), False: set()}
        self.figures = {}

    def note(self, hit, said, **figures):
        self.said[hit].add(said)
        for name, value in figures.items():
            self.figures.setdefault(name, {True: [], False: []})[hit].append(value)

    def told(self):
        return {name: told(rows[True], rows[False]) for name, rows in self.figures.items()}


def timed(call):
    begin = time.perf_counter()
    outcome = call()
    return outcome, time.perf_counter() - begin


def probe(target: Target, probes: int, seed: int = 5, in_round: int = ROUND):
    """What b heard, by hash and by graph, in rounds of so many. Fails if one of a's own second compiles is not found."""
    order = random.Random(seed)
    # Drawn: an odd vector compiles a little slower than an even one, whoever has had it compiled.
    sizes = order.sample(range(FIRST_SIZE, FIRST_SIZE + 2 * probes), 2 * (probes // 2))
    by_hash, by_graph = Heard(), Heard()
    for first in range(0, len(sizes), in_round):
        drawn = sizes[first : first + in_round]
        known, new = drawn[::2], drawn[1::2]
        for size in known:
            made = target.call("KernelService.Compile", graph=doubled(size), tenant=A)
            assert made and not made.answer.from_cache, made.error
        asked = [(size, True) for size in known] + [(size, False) for size in new]
        order.shuffle(asked)
        for size, hit in asked:
            hash_ = graph_hash(doubled(size))
            outcome, seconds = timed(lambda: target.call("KernelService.Execute", graph_hash=hash_, tenant=B))
            refused(outcome, "NEED_GRAPH")
            by_hash.note(hit, outcome.error.message.replace(hash_.hex(), "HASH"), seconds=seconds)
        for size, hit in asked:
            graph = doubled(size)
            outcome, seconds = timed(lambda: target.call("KernelService.Compile", graph=graph, tenant=B))
            assert outcome, outcome.error
            answer = outcome.answer
            by_graph.note(hit, (outcome.code, answer.from_cache, answer.kernels), seconds=seconds, compile_us=answer.compile_us)
        for size in known:
            own = target.call("KernelService.Compile", graph=doubled(size), tenant=A)
            assert own and own.answer.from_cache, "a tenant's own second compile of %d was not found" % size
    return by_hash, by_graph


def found(target: Target, tenant: str, handles) -> int:
    """How many of these there are for the tenant; each is asked for by itself."""
    stub = wire.stub(target.channel, "BufferService.Describe")
    request = wire.METHODS["BufferService.Describe"].request
    metadata, there = [("authorization", "Bearer " + tenant)], 0
    for first in range(0, len(handles), 256):
        calls = [stub.future(request(handle=handle), timeout=60, metadata=metadata) for handle in handles[first : first + 256]]
        for call in calls:
            outcome = target.outcome(call.result)
            if not outcome:
                refused(outcome, "UNKNOWN_HANDLE")
            there += bool(outcome)
    return there


def guess_handles(target: Target, guesses: int, held: int, seed: int = 9) -> None:
    numbers = random.Random(seed)
    handles = []
    for _ in range(held):
        made = target.call("BufferService.Allocate", bytes=4, tenant=A)
        assert made, made.error
        handles.append(made.answer.buffer.handle)
    assert found(target, A, handles) == held, "a's own were not found"
    assert found(target, B, handles) == 0, "b reads what a has, by its name"
    while guesses > 0:
        now = min(guesses, 1 << 14)
        assert found(target, B, [numbers.getrandbits(64) | 1 for _ in range(now)]) == 0, "one was guessed"
        guesses -= now
    for first in range(0, held, 1000):
        assert target.call("BufferService.Free", handle=handles[first : first + 1000], tenant=A)


def guess_sessions(target: Target, guesses: int, held: int, seed: int = 10) -> None:
    numbers = random.Random(seed)
    tokens = []
    for _ in range(held):
        opened = target.call("SessionService.Open", tenant=A)
        assert opened, opened.error
        tokens.append(opened.answer.token)
    renew = wire.METHODS["SessionService.Renew"].request
    said = {True: set(), False: set()}
    tries = [(token, True) for token in tokens]
    tries += [(numbers.getrandbits(8 * len(tokens[0])).to_bytes(len(tokens[0]), "big"), False) for _ in range(guesses)]
    numbers.shuffle(tries)
    for token, real in tries:
        said[real].add(refused(target.call("SessionService.Renew", renew(token=token), tenant=B), "UNKNOWN_HANDLE").message)
    assert said[True] == said[False], said
    for token in tokens:
        assert target.call("SessionService.Close", wire.METHODS["SessionService.Close"].request(token=token), tenant=A)


def recording(target: Target, size: int) -> bytes:
    """The name of one of a's: x + 1 in place, of so many elements."""
    nodes = Nodes()
    x = nodes.param(0, "float32", size)
    graph = nodes.done(nodes.op("STORE", x, nodes.op("ADD", x, nodes.const(1, "float32"))), root="SINK")
    hash_ = target.call("KernelService.Compile", graph=graph, tenant=A).answer.graph_hash
    request = kernel_service_pb2.RecordSequenceRequest()
    request.programs.add(graph_hash=hash_)
    request.steps.add().arguments.add(slot=0).memory.buffer = 0
    recorded = target.call("KernelService.RecordSequence", request, tenant=A)
    assert recorded, recorded.error
    return recorded.answer.recording


def guess_recordings(target: Target, guesses: int, held: int, seed: int = 11) -> float:
    """What the time of a refusal tells. A recording's name follows from what it records, so b may well know it."""
    numbers = random.Random(seed)
    tries = [(recording(target, FIRST_SIZE + number), True) for number in range(held)]
    tries += [(numbers.getrandbits(256).to_bytes(32, "big"), False) for _ in range(guesses)]
    numbers.shuffle(tries)
    heard = Heard()
    for name, real in tries:
        request = kernel_service_pb2.ReplaySequenceRequest(recording=name)
        outcome, seconds = timed(lambda: target.call("KernelService.ReplaySequence", request, tenant=B))
        heard.note(real, refused(outcome, "NEED_GRAPH").message.replace(name.hex(), "NAME"), seconds=seconds)
    assert heard.said[True] == heard.said[False], heard.said
    return heard.told()["seconds"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--probes", type=int, default=10_000)
    parser.add_argument("--handles", type=int, default=1 << 20)
    parser.add_argument("--sharing", choices=("none", "hidden"), default="none")
    said = parser.parse_args()
    servers = Servers()
    most = []
    try:
        target = servers.of(Row(said.sharing))
        for way, heard in zip(("by hash", "by graph"), probe(target, said.probes)):
            for figure, area in heard.told().items():
                print("%d probes %s: AUC by %s %.3f" % (said.probes, way, figure, area))
                most.append(area)
            print("  said to hits %s, to misses %s" % (heard.said[True], heard.said[False]))
            most.append(0.5 if heard.said[True] == heard.said[False] else 1.0)
        print("each of a's own second compiles was found")
        guess_handles(target, said.handles, HELD)
        print("%d guessed handles, and a's own %d: none is one of b's" % (said.handles, HELD))
        few = max(1, said.handles >> 7)
        guess_sessions(target, few, 1000)
        most.append(guess_recordings(target, few, 1000))
        print("%d guessed sessions and recordings, and a's own 1000: none; AUC by seconds %.3f" % (few, most[-1]))
    finally:
        servers.stop()
    held = max(most) <= LIMIT
    print("no oracle" if held else "AN ORACLE: above %.2f" % LIMIT)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
