"""Small graphs that take long to compile, and what a deadline does to them."""

from __future__ import annotations

import itertools
import os
import threading
import time

import held
from attack import TENANTS, Nodes, Target, admin, answered, attack, doubled, kiln, refused, support, within
from deadlines import Asked
from kiln.v1 import kernel_service_pb2

A, B = TENANTS


def elementwise(op, count, dtype, size, sources=1):
    nodes = Nodes()
    x, y = nodes.param(0, dtype, size), nodes.param(1, dtype, size)
    value = x
    for _ in range(count):
        value = nodes.op(op, value, *[y] * (sources - 1))
    return nodes.done(value)


# Of the server that ends such compilations (suite.py): how long one may take, how long a search, whatever its client says;
# and how long the small compilation of another tenant may take beside them.
MOST_SECONDS, MOST_SEARCH_SECONDS, NEIGHBOURS_SECONDS = 6, 3, 5
# After its deadline, a compilation may go on for so long. Under a sanitizer all is slower.
SANITIZED = bool(os.environ.get("KILN_SANITIZED"))
LATE = 10.0 if SANITIZED else 1.0

# Workers and requests that were ended for a deadline. gRPC itself ends a call whose deadline passes, so whether the server
# hears of the one or the other first is chance; these callers stay.
ENDED = ((("kiln_compile_worker_exits_total", "deadline"), ("kiln_compile_worker_exits_total", "cancelled")),
         (("kiln_deadline_missed_total", "compile"), ("kiln_cancelled_total", "compile")))  # fmt: skip


def _slow(name, make, promise):
    def run(target: Target) -> None:
        count = admin.Admin(target.server).samples
        before, deadline = count(), 0.7
        message = kernel_service_pb2.CompileRequest(graph=make()).SerializeToString()
        asked = Asked(target.server.port, "/kiln.v1.KernelService/Compile", message, deadline, A)
        try:
            took = asked.seconds(60)
        finally:
            asked.close()
        assert took is not None, "it was not answered at all"
        assert deadline - 0.05 < took < deadline + LATE, "it was answered after %.2f s" % took
        quiet(target)
        neighbour(target, 2 * LATE)
        # It had begun, would have gone on, and was ended for this reason alone.
        after = count()
        more = [sum(after[key] - before[key] for key in keys) for keys in ENDED]
        assert more == [1, 1], "ended for it: %d workers, %d requests" % tuple(more)

    run.__doc__ = promise
    attack(run, name="compile_" + name, bombs=True)


def quiet(target):
    """Within a moment, no process of the server's works for anybody."""
    end, cores = time.monotonic() + LATE, held.cores_of(target.process)
    while cores > held.IDLE_CORES:
        assert time.monotonic() < end, "%.2f cores are busy for nobody" % cores
        cores = held.cores_of(target.process)


def neighbour(target, seconds):
    """Another caller's small program, which nobody has had, is compiled meanwhile, and not kept: there may be many."""
    graph = doubled(next(SIZES))
    outcome = within(seconds, lambda: target.call("KernelService.Compile", graph=graph, tenant=B))
    assert outcome and not outcome.answer.from_cache, outcome.error or "it was there"
    evicted = target.call("DebugService.Evict", graph_hash=outcome.answer.graph_hash, tenant=B)
    assert evicted, evicted.error


SIZES = itertools.count(100_000)
# Each takes some seconds to compile: see that it does, where a row says that no worker was ended for a deadline.
for _name, _make, _promise in (
    ("powers", lambda: elementwise("POW", 400, "float64", 256, 2), "400 POWs of 256 lanes end with their deadline."),
    ("divisions", lambda: elementwise("CDIV", 1000, "int64", 64, 2), "So do 1,000 divisions."),
    ("sines", lambda: elementwise("SIN", 700, "float32", 64), "So do 700 nested SINs."),
    ("logarithms", lambda: elementwise("LOG2", 1200, "float64", 64), "So do 1,200 LOG2s."),
):
    _slow(_name, _make, _promise)


@attack(bombs=True)
def compile_bombs_of_a_tenant(target):
    """Four bombs at once, twice as many as compile threads, end by the limit of compile time and hold up no other tenant."""
    ended = admin.Admin(target.server).samples
    before = ended()["kiln_compile_worker_exits_total", "too_long"]
    outcomes, begun = [], threading.Barrier(5)

    def bomb(number):
        graph = kernels(15_000 + number)  # about 16 seconds of a core of 2024: a chain of operations takes no such time
        begun.wait()
        outcomes.append(target.call("KernelService.Compile", graph=graph, tenant=A, timeout=120))

    calls = [threading.Thread(target=bomb, args=(number,)) for number in range(4)]
    for call in calls:
        call.start()
    begun.wait()
    # While they are there: each small graph is one that nobody has had.
    small = 0
    while len(outcomes) < 2:
        graph = doubled(5_000 + small)
        outcome = within(NEIGHBOURS_SECONDS, lambda: target.call("KernelService.Compile", graph=graph, tenant=B))  # noqa: B023
        assert outcome, outcome.error
        small += 1
    for call in calls:
        call.join()
    assert small > 3, "there was no time beside the bombs"
    for outcome in outcomes:
        assert refused(outcome, "GRAPH_TOO_LARGE").detail.limit == "compile seconds", outcome.error
    assert ended()["kiln_compile_worker_exits_total", "too_long"] - before == 4


def stores(count):
    nodes = Nodes()
    x, y = nodes.param(0, "float32", 8), nodes.param(1, "float32", 8)
    shown = x
    for _ in range(count):
        shown = nodes.op("AFTER", x, nodes.op("STORE", shown, y))
    return nodes.done(shown)


def afters(count):
    nodes = Nodes()
    x = nodes.param(0, "float32", 8)
    y = x
    for _ in range(count):
        y = nodes.op("AFTER", x, y)
    return nodes.done(nodes.op("ADD", y, y))


def kernels(count):
    nodes = Nodes()
    x = nodes.param(0, "float32", 8)
    return nodes.done(*[nodes.op("ADD", x, nodes.const(1.0 + number, "float32")) for number in range(count)])


def sources(count):
    nodes = Nodes()
    x = nodes.param(0, "float32", 8)
    return nodes.done(*[x] * count)


def _linear(name, make, count, timeout, limit, promise):
    def run(target: Target) -> None:
        # The processor's time, as others may want the machine. Twice the nodes may take thrice as long.
        took = []
        for size in (count // 2, count):
            before = target.processor_seconds()
            outcome = target.compile(make(size), timeout=timeout)
            took.append(target.processor_seconds() - before)
            assert outcome, outcome.error
        assert took[1] < 3 * took[0] + 0.2, "%.2f s for half as many, then %.2f s" % tuple(took)
        if limit:
            more, name_of_limit = limit
            error = refused(within(10, lambda: target.compile(make(more), timeout=timeout)), "GRAPH_TOO_LARGE")
            assert error.detail.limit == name_of_limit, error

    # Compiled in a process of its own, as strangers' are: one that compiles in its own keeps the holes that a compilation
    # leaves in the heap between the thousand pieces of the program. Under a sanitizer such a process would need more time
    # than it has, so there nobody looks at the memory.
    run.__doc__ = promise
    attack(run, name="compile_" + name, tenants=not SANITIZED, apart=SANITIZED)


for _name, _make, _count, _timeout, _limit, _promise in (
    ("chain_of_stores", stores, 16_000, 60, (20_000, "STOREs and results"),
     "Chained STOREs are compiled in linear time; 20,000 are more than there may be."),
    ("chain_of_afters", afters, 64_000, 60, None, "AFTERs upon AFTERs are no quadratic work."),
    ("many_kernels", kernels, 16_384, 400, (16_385, "STOREs and results"),
     "16,384 kernels are compiled in linear time; one more is too many."),
    ("many_sources", sources, 16_384, 60, (1_000_000, "STOREs and results"),
     "Sources by the million are counted before anything is made of them."),
):  # fmt: skip
    _linear(_name, _make, _count, _timeout, _limit, _promise)


@attack
def compile_many_at_once_and_hang_up(target):
    """Compilations whose callers have gone are not worked off for nobody."""
    calls = []
    for i in range(24):
        thread = threading.Thread(
            target=lambda i=i: target.compile(elementwise("SIN", 40 + i, "float32", 64), timeout=0.5))
        thread.start()
        calls.append(thread)
    for thread in calls:
        thread.join()
    # On a server whose compilations are its own process's: what is begun ends between two passes, and the suite looks
    # whether it has.
    within(20, lambda: answered(target.compile(doubled(9), timeout=20)))


@attack
def compile_the_same_from_many(target):
    """Equal first requests are one compilation, and each is answered."""
    graph = elementwise("SIN", 12, "float32", 61)
    answers = []
    calls = [threading.Thread(target=lambda: answers.append(target.compile(graph))) for _ in range(16)]
    for thread in calls:
        thread.start()
    for thread in calls:
        thread.join()
    assert [answer.code for answer in answers] == ["OK"] * 16, answers
    assert len({answer.answer.graph_hash for answer in answers}) == 1


@attack
def compile_with_no_time_left(target):
    """A deadline that has passed is answered as one."""
    for timeout in (0.0, 1e-6, 1e-3):
        outcome = target.compile(elementwise("SIN", 9, "float32", 60), timeout=timeout)
        assert outcome.code in ("OK", "DEADLINE_PASSED", "DEADLINE_EXCEEDED"), outcome.error


def product():
    """Whose search would go on for a minute and more; a run without a schedule takes milliseconds, as candidates are run to their end."""
    graph = kiln.Graph()
    graph.output(graph.param("x", (192, 192)) @ graph.param("y", (192, 192)))
    return graph.build()


FOR_EVER = kernel_service_pb2.CompileOptions(beam=0xFFFFFFFF, beam_budget_ms=0xFFFFFFFF)


@attack(bombs=True)
def compile_with_a_search_without_end(target):
    """A search for schedules has a budget of the server's, and holds up nobody: it also ends with its caller's deadline."""
    outcomes = []
    searching = threading.Thread(target=lambda: outcomes.append(within(
        MOST_SEARCH_SECONDS + 4 * LATE, lambda: target.call("KernelService.Compile", graph=product(), options=FOR_EVER, tenant=A,
                                                            timeout=120))))  # fmt: skip
    begun = time.monotonic()
    searching.start()
    small = 0
    while searching.is_alive():
        neighbour(target, NEIGHBOURS_SECONDS)
        small += 1
    assert outcomes and outcomes[0], outcomes or "it took longer than it may"
    assert time.monotonic() - begun > MOST_SEARCH_SECONDS / 2, "it had an end of its own"
    assert small > 3, "there was no time beside the search"
    # Another's, so that it does not find the first one's schedule.
    message = kernel_service_pb2.CompileRequest(graph=product(), options=FOR_EVER).SerializeToString()
    asked = Asked(target.server.port, "/kiln.v1.KernelService/Compile", message, 1.0, B)
    try:
        took = asked.seconds(60)
    finally:
        asked.close()
    assert took is not None and took < 1 + LATE, took
    quiet(target)


# More than a cache of a whole GiB keeps, whatever their bytes: each is a module, which takes two mappings where its
# neighbours' cannot be joined with it. A cache has sixteen parts, and each keeps its part of them.
MOST_PROGRAMS, PARTS = 12_000, 16


def _compile_all(target, sizes, callers):
    """The graphs' hashes, in the order of `sizes`."""
    hashes, sizes_left = {}, iter(sizes)
    lock = threading.Lock()

    def work():
        while True:
            with lock:
                size = next(sizes_left, None)
            if size is None:
                return
            outcome = target.compile(doubled(size), timeout=120)  # on a busy machine one may wait long
            hashes[size] = outcome.answer.graph_hash if outcome else outcome.error

    calls = [threading.Thread(target=work) for _ in range(callers)]
    for call in calls:
        call.start()
    for call in calls:
        call.join()
    made = [hashes[size] for size in sizes]
    assert all(isinstance(each, bytes) for each in made), [each for each in made if not isinstance(each, bytes)][:3]
    return made


@attack
def compile_thousands_of_tiny_programs(_):
    """Tiny programs make room for each other, so that none takes the last of the mappings: of 12,500, 12,000 are kept."""
    with support.running() as server:
        target = Target(server)
        before = target.usage().mappings
        made = _compile_all(target, range(10_000, 22_500), 4)
        assert len(set(made)) == 12_500
        listed = target.call("DebugService.ListPrograms")
        assert listed, listed.error
        kept = {program.graph_hash for program in listed.answer.programs}
        assert MOST_PROGRAMS * 0.9 < len(kept) <= MOST_PROGRAMS + PARTS, len(kept)
        more = target.usage().mappings - before
        assert more <= 2 * (MOST_PROGRAMS + PARTS), more
        # The next one compiles, and so does one that had to go, which was one of the first.
        assert target.compile(doubled(9_999))
        gone = next(number for number, hash_ in enumerate(made) if hash_ not in kept)
        again = target.compile(doubled(10_000 + gone))
        assert gone < 1_000 and again and not again.answer.from_cache, (gone, again)
        target.close()


@attack
def compile_hundreds_of_tiny_programs(_):
    """Tiny programs make room for each other: the bytes of all are bounded, and the last ones are there."""
    most = 1 << 20
    with support.running("--program_cache_bytes=%d" % most) as server:
        target = Target(server)
        made = _compile_all(target, range(10_000, 10_400), 1)
        listed = target.call("DebugService.ListPrograms").answer.programs
        assert 100 < len(listed) < 350, len(listed)
        assert sum(program.bytes for program in listed) <= most
        kept = {program.graph_hash for program in listed}
        assert kept >= set(made[-5:]) and not kept & set(made[:5])
        again = target.compile(doubled(10_000))
        assert again and not again.answer.from_cache, again
        target.close()
