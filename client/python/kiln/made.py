"""Arrays that a device makes itself: only a few numbers travel.

Each is a graph of a few nodes, compiled once for its size and dtype, so every device can.
Random bits are Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as
easy as 1, 2, 3", SC'11): element i is the cipher of the counter i under the seed.
"""

from __future__ import annotations

import math
from typing import Any, Tuple

from kiln.dtypes import DType, bool_, uint64
from kiln.elementwise import astype, bitwise_and, multiply, not_equal, right_shift, threefry
from kiln.errors import DTypeError, InvalidArgument
from kiln.graph import Graph
from kiln.movement import reshape

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
