"""Small graphs that take long to compile, and what a deadline does to them."""

from __future__ import annotations

import threading

from attack import Nodes, Target, answered, attack, doubled, within


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


@attack
def compile_chain_of_stores(target):
    """20,000 chained STOREs are compiled in linear time, or refused."""
    nodes = Nodes()
    x, y = nodes.param(0, "float32", 8), nodes.param(1, "float32", 8)
    shown = x
    for _ in range(8_000):
        shown = nodes.op("AFTER", x, nodes.op("STORE", shown, y))
    within(15, lambda: answered(target.compile(nodes.done(shown), timeout=10)))


@attack
def compile_chain_of_afters(target):
    """AFTERs upon AFTERs are no quadratic work."""
    nodes = Nodes()
    x = nodes.param(0, "float32", 8)
    y = x
    for _ in range(16_000):
        y = nodes.op("AFTER", x, y)
    within(15, lambda: answered(target.compile(nodes.done(nodes.op("ADD", y, y)), timeout=10)))


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


@attack
def compile_thousands_of_tiny_programs(target):
    """Tiny programs make room for each other."""
    for i in range(300):
        outcome = target.compile(doubled(10_000 + i))
        assert outcome, outcome.error
