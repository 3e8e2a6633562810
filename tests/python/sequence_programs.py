"""Programs for random sequences of calls (sequences.py): graphs, and what they do in numpy.

All are of int32, which wraps alike here and there.
"""

from __future__ import annotations

import random
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Set, Tuple

import support  # noqa: F401: finds the package
import numpy as np

import kiln
from kiln.v1 import graph_pb2
from sequence_model import SIZE

MOST = 16  # of a variable


class Kind(NamedTuple):
    """A program of parameters `names`, of x and y: its results, and what x becomes, each of values by name."""

    graph: Any
    names: str
    results: Tuple[Callable[[Any], np.ndarray], ...] = ()
    update: Optional[Callable[[Any], np.ndarray]] = None


# -- expressions: nested tuples of an op's name and operands; "x", "y" and integers are leaves

_OPS = {
    "add": (2, lambda a, b: a + b, np.add),
    "sub": (2, lambda a, b: a - b, np.subtract),
    "mul": (2, lambda a, b: a * b, np.multiply),
    "max": (2, kiln.maximum, np.maximum),
    "min": (2, kiln.minimum, np.minimum),
    "xor": (2, lambda a, b: a ^ b, np.bitwise_xor),
    "less": (2, lambda a, b: kiln.where(a < b, a + b, b), lambda a, b: np.where(a < b, a + b, b)),
    "flip": (1, lambda a: kiln.flip(a), lambda a: a[::-1]),
    "sum": (1, lambda a: a + kiln.sum(a).astype("int32"), lambda a: a + a.sum().astype(np.int32)),
    "roll": (1, lambda a: kiln.concatenate([a[3:], a[:3]]), lambda a: np.roll(a, -3)),
}  # fmt: skip


def expression(rng: random.Random, names: Sequence[str], depth: int = 3) -> Any:
    if depth == 0 or depth < 3 and rng.random() < 0.2:
        return rng.choice(names)
    name = rng.choice(list(_OPS))
    operands = [expression(rng, names, depth - 1) for _ in range(_OPS[name][0])]
    if len(operands) == 2 and rng.random() < 0.3:
        operands[1] = rng.randrange(-5, 6)
    return (name, *operands)


def value(tree: Any, of: int, leaves: Any) -> Any:
    """Of an expression: of 1, in a graph; of 2, in numpy."""
    if isinstance(tree, str):
        return leaves[tree]
    if isinstance(tree, int):
        return np.full(SIZE, tree, np.int32) if of == 2 else leaves["x"] * 0 + tree
    return _OPS[tree[0]][of](*(value(operand, of, leaves) for operand in tree[1:]))


def parameters(graph: Any) -> Any:
    return {name: graph.param(name, (SIZE,), "int32") for name in "xy"}


def leaves_of(tree: Any) -> Set[str]:
    if isinstance(tree, tuple):
        return set().union(*(leaves_of(operand) for operand in tree[1:]))
    return {tree if isinstance(tree, str) else "x"}


def in_numpy(tree: Any) -> Callable[[Any], np.ndarray]:
    return lambda leaves: value(tree, 2, leaves)


def kind_of(results: Sequence[Any], update: Any = None) -> Kind:
    graph = kiln.Graph()
    leaves = parameters(graph)
    used = set().union(*map(leaves_of, results), () if update is None else leaves_of(update) | {"x"})
    if update is not None:
        graph.update(leaves["x"], value(update, 1, leaves))
    if results:
        graph.output(*(value(tree, 1, leaves) for tree in results))
    return Kind(graph, "".join(name for name in "xy" if name in used), tuple(map(in_numpy, results)),
                None if update is None else in_numpy(update))  # fmt: skip


def any_kind(rng: random.Random) -> Kind:
    """A program that most likely nobody has compiled."""
    names = rng.choice(("x", "xy", "xy"))
    updates = rng.random() < 0.4
    results = [expression(rng, names) for _ in range(rng.randrange(0 if updates else 1, 3))]
    # Without x it overwrites, and so heals.
    of = "y" if rng.random() < 0.4 else names
    return kind_of(results, expression(rng, of) if updates else None)


KINDS = {
    "one": kind_of([("add", ("mul", "x", 3), 1)]),
    "two": kind_of([("add", ("mul", "x", "y"), "x"), ("flip", "y")]),
    "update": kind_of([], ("add", "x", "y")),
    "replace": kind_of([], ("sub", "y", 7)),
}


# -- sizes that come with a call: what does not fit is known when it runs


def partial(updates: bool) -> Any:
    """y + the sum of x[:n]; x has m elements. n > m is OUT_OF_BOUNDS, more than MOST BAD_ARGUMENT."""
    graph = kiln.Graph()
    m, n = (graph.variable(name, 1, MOST) for name in "mn")
    x, y = graph.param("x", (m,), "int32"), graph.param("y", (SIZE,), "int32")
    total = y + kiln.sum(x[:n]).astype("int32")
    graph.update(y, total) if updates else graph.output(total)
    return graph


PARTIAL = {False: partial(False), True: partial(True)}


# -- runs that take long

LOOPS = 1 << 21
LONG_ADDS = 1020  # what a long run adds to x: it is the greatest of very many remainders of 1021


def long(count: int = SIZE, loops: int = LOOPS, devices: Sequence[str] = ()) -> Any:
    graph = kiln.Graph()
    on = {"devices": tuple(devices)} if devices else {}
    x, y = (graph.param(name, (count,), "int32", **on) for name in "xy")
    iteration = graph.arange(loops, dtype="int32").reshape((loops, 1))
    if devices:
        iteration = kiln.replicate(iteration, devices)
    greatest = kiln.max(((iteration * y.reshape((1, count))) ^ (iteration >> 3)) % 1021, 0)
    graph.update(x, x + greatest)
    return graph


LONG = long()
# As a step of a recording, which is stopped between its steps.
LONG_STEP, LONG_STEPS = long(loops=1 << 16), 200


# -- on several devices: x and y are split, SIZE elements on each


def split(devices: Sequence[str], updates: bool) -> Any:
    """x * y + v, split; the sum over the devices of x, whole on each. Or x + y * v in the place of x."""
    graph = kiln.Graph()
    v = graph.dim(graph.variable("v", 0, MOST))
    x, y = (graph.param(name, (SIZE * len(devices),), "int32", devices=tuple(devices)) for name in "xy")
    if updates:
        graph.update(x, x + y * v)
    else:
        graph.output(x * y + v, kiln.all_reduce(x, len(devices)))
    return graph


# -- what does not compile


def _message(*outputs: Any) -> graph_pb2.Graph:
    graph = kiln.Graph()
    x, y = parameters(graph).values()
    graph.output(x + y, *outputs)
    return graph.build()


def _with(change: Callable[[Any], Any]) -> graph_pb2.Graph:
    message = _message()
    change(next(node for node in message.nodes if node.op == graph_pb2.ADD))
    return message


def _sum_of(*kinds: Tuple[int, str]) -> graph_pb2.Graph:
    graph = kiln.Graph()
    nodes = [graph.param("xy"[at], (size,), dtype).node for at, (size, dtype) in enumerate(kinds)]
    graph.output(graph.tensor(graph.node("ADD", nodes), "int32", (SIZE,)))
    return graph.build()


def _set(node: Any, **fields: Any) -> None:
    for name, given in fields.items():
        setattr(node, name, given)


BROKEN: List[Tuple[str, graph_pb2.Graph]] = [
    ("GRAPH_EMPTY", graph_pb2.Graph()),
    ("SHAPE_MISMATCH", _sum_of((SIZE, "int32"), (SIZE - 1, "int32"))),
    ("DTYPE_MISMATCH", _sum_of((SIZE, "int32"), (SIZE, "float32"))),
    ("SOURCE_OUT_OF_RANGE", _with(lambda node: node.src.__setitem__(0, 999))),
    ("WRONG_SOURCE_COUNT", _with(lambda node: node.src.append(node.src[0]))),
    ("UNKNOWN_OP", _with(lambda node: _set(node, op=9999))),
]
