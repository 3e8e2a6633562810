"""Small graphs that take long to compile, and what a deadline does to them."""

from __future__ import annotations

import os
import threading

from attack import TENANTS, Nodes, Target, admin, answered, attack, doubled, refused, within

A, B = TENANTS


def elementwise(op, count, dtype, size, sources=1):
    nodes = Nodes()
    x, y = nodes.param(0, dtype, size), nodes.param(1, dtype, size)
    value = x
    for _ in range(count):
        value = nodes.op(op, value, *[y] * (sources - 1))
    return nodes.done(value)


def _slow(name, make, promise):
    def run(target: Target) -> None:
        # Whatever it would take, the caller gets its answer when its deadline passes, and a neighbour compiles.
        within(8, lambda: answered(target.compile(make(), timeout=2)))
        neighbour(target)

    run.__doc__ = promise
    attack(run, name="compile_" + name)


def neighbour(target):
    graph = doubled(9)
    within(20, lambda: answered(target.compile(graph, timeout=20)))


for _name, _make, _promise in (
    ("powers", lambda: elementwise("POW", 100, "float64", 256, 2), "100 POWs of 256 lanes end with their deadline."),
    ("divisions", lambda: elementwise("CDIV", 190, "int64", 64, 2), "So do 190 divisions."),
    ("sines", lambda: elementwise("SIN", 160, "float32", 64), "So do 160 nested SINs."),
    ("logarithms", lambda: elementwise("LOG2", 160, "float64", 64), "So do 160 LOG2s."),
):
    _slow(_name, _make, _promise)


# Of a server whose compilations have so many seconds (suite.py); a small one beside them may take so many.
MOST_SECONDS, NEIGHBOURS_SECONDS = 6, 5


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
    # leaves in the heap between the thousand pieces of the program. (Under a sanitizer nobody looks at memory, and such a
    # process would need more time than it has.)
    run.__doc__ = promise
    attack(run, name="compile_" + name, tenants=not os.environ.get("KILN_SANITIZED"))


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
    neighbour(target)


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


@attack
def compile_with_a_search_without_end(target):
    """A search for schedules has a budget of the server's."""
    graph = elementwise("SIN", 3, "float32", 4096)
    within(25, lambda: answered(target.compile(graph, timeout=5, beam=0xFFFFFFFF, beam_budget_ms=0xFFFFFFFF)))
    neighbour(target)


def _tiny(name, count, promise):
    def run(target: Target) -> None:
        made = []
        for number in range(count):
            outcome = target.compile(doubled(10_000 + number))
            assert outcome, outcome.error
            made.append(outcome.answer.graph_hash)
        assert target.usage().mappings < 40_000, target.usage()
        assert target.compile(doubled(9_999)), "and the next one"
        for hash_ in made:
            target.call("DebugService.Evict", graph_hash=hash_)

    run.__doc__ = promise
    attack(run, name=name)


_tiny("compile_hundreds_of_tiny_programs", 300, "Tiny programs make room for each other.")
_tiny("compile_thousands_of_tiny_programs", 13_000, "So do 13,000, which is more than are kept: the next one compiles.")
