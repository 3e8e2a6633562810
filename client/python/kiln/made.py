"""Arrays that a device makes itself: only a few numbers travel.

Each is a graph of a few nodes, compiled once for its size and dtype, so every device can.
Random bits are Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as
easy as 1, 2, 3", SC'11): element i is the cipher of the counter i under the seed.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Tuple

import numpy as np

from kiln.arrays import shape_of
from kiln.dtypes import BY_NUMBER, DType, bool_, dtype as dtype_of, uint64
from kiln.elementwise import astype, bitwise_and, multiply, not_equal, right_shift, threefry
from kiln.errors import DTypeError, InvalidArgument
from kiln.graph import Graph
from kiln.movement import reshape
from kiln.waiting import Waits

# Programs that make arrays, kept at hand by a client.
_MOST_MAKERS = 256

# The digits of a float's significand, all of which a number in [0, 1) has.
_DIGITS = {2: 11, 4: 24, 8: 53}


def arange_count(start: Any, stop: Any, step: Any) -> int:
    """How many numbers numpy.arange gives."""
    if step == 0:
        raise InvalidArgument("arange: a step of 0", code="BAD_ARGUMENT")
    return max(0, math.ceil((stop - start) / step))


def arange_graph(count: int, kind: DType) -> Graph:
    """start + i * step, in the dtype; slot 0 is start, slot 1 step."""
    graph = Graph()
    start, step = (graph.param(name, (), kind) for name in ("start", "step"))
    graph.output(start + multiply(graph.arange(count, kind), step))
    return graph


def random_graph(shape: Tuple[int, ...], kind: DType) -> Graph:
    """Floats in [0, 1), evenly; integers of the dtype's whole range; slot 0 is the seed."""
    graph = Graph()
    seed = graph.param("seed", (), uint64)
    bits = threefry(graph.arange(math.prod(shape), uint64), seed)
    if kind is bool_:
        made = not_equal(bitwise_and(bits, 1), 0)
    elif kind.is_float:
        digits = 8 if kind.name == "bfloat16" else _DIGITS.get(kind.itemsize)
        if digits is None:
            raise DTypeError("random: no numbers of %s" % kind.name, code="BAD_ARGUMENT",
                             remedy="make float32 and cast it in a graph")  # fmt: skip
        made = astype(multiply(astype(right_shift(bits, 64 - digits), "float64"), 2.0**-digits), kind)
    else:
        made = astype(bits, kind)
    graph.output(reshape(made, shape))
    return graph


class Making:
    """Of Client, and of kiln.aio's."""

    compile: Callable[..., Any]
    empty: Callable[..., Any]
    _makers: Dict[Tuple[str, Any, Any], Any]

    def _arange(self, start: Any, stop: Any, step: Any, dtype: Any) -> Waits[Any]:
        start, stop = (0, start) if stop is None else (start, stop)
        key = ("arange", arange_count(start, stop, step), dtype_of(dtype))
        return (yield from self._make(key, arange_graph, start, step))

    def _random(self, shape: Any, dtype: Any, seed: int) -> Waits[Any]:
        return (yield from self._make(("random", shape_of(shape), dtype_of(dtype)), random_graph, seed))

    def _make(self, key: Tuple[str, Any, Any], graph_of: Callable[[Any, Any], Graph], *numbers: Any) -> Waits[Any]:
        if math.prod(shape_of(key[1])) == 0:
            return (yield self.empty(key[1], key[2]))
        program = self._makers.get(key)
        if program is None:
            program = yield self.compile(graph_of(*key[1:]))
            if len(self._makers) < _MOST_MAKERS:
                self._makers[key] = program
        values = [np.array(number, BY_NUMBER[row.dtype].numpy)
                  for number, row in zip(numbers, program.signature.parameters)]  # fmt: skip
        return (yield program(*values, out="buffers"))
