"""Arrays that a device makes itself: only a few numbers travel.

Each is a graph of a few nodes, compiled once for its size and dtype, so every device can.
Random bits are Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as
easy as 1, 2, 3", SC'11): element i is the cipher of the counter i under the seed.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, NamedTuple, Tuple

import numpy as np

from kiln.arrays import shape_of
from kiln.dtypes import BY_NUMBER, DType, bool_, chosen, dtype as dtype_of, float32, int64, integer, uint64
from kiln.elementwise import astype, bitwise_and, multiply, not_equal, right_shift, threefry
from kiln.errors import DTypeError, InvalidArgument
from kiln.graph import Graph
from kiln.movement import reshape
from kiln.promotion import limits
from kiln.waiting import Waits

# Programs that make arrays, kept at hand by a client.
_MOST_MAKERS = 256

# The digits of a float's significand, all of which a number in [0, 1) has.
_DIGITS = {2: 11, 4: 24, 8: 53}


class Range(NamedTuple):
    """numpy.arange: `count` numbers start + i * step of a dtype; both as they enter the sum."""

    count: int
    kind: DType
    start: Any
    step: Any


def range_of(start: Any, stop: Any, step: Any, dtype: Any) -> Range:
    """As numpy makes it: the step is what lies between the first two numbers, rounded to the dtype.

    But what numpy would cut off is refused: fractions among integers, and numbers that the dtype has not.
    """
    for number in (start, stop, step):
        if not isinstance(number, (int, float, np.bool_, np.integer, np.floating)):
            raise DTypeError("arange: %r is no real number" % (number,), code="BAD_ARGUMENT")
    kind = _dtype_of_range(start, stop, step) if dtype is None else chosen("arange", dtype)
    count = _count(start, stop, step)
    if kind.is_float:
        sums = sum_dtype(kind)
        first, second = (kind.numpy.type(number).astype(sums.numpy) for number in (start, start + step))
        return Range(count, kind, first, second - first)
    if not kind.is_integer:
        raise DTypeError("arange: no numbers of %s" % kind.name, code="BAD_ARGUMENT", remedy="make int64 and cast it")
    if start != int(start) or step != int(step):
        raise DTypeError("arange: a fraction is no %s" % kind.name, code="BAD_ARGUMENT", remedy="a dtype of floats")
    (least, greatest), first, step = limits(kind), int(start), int(step)
    last = first + (count - 1) * step
    if count and not (least <= min(first, last) and max(first, last) <= greatest):
        raise DTypeError("arange: %s does not hold %d to %d" % (kind.name, first, last), code="BAD_ARGUMENT",
                         remedy="a wider dtype")  # fmt: skip
    # Sums wrap, so a step down is a step up by what it leaves of the dtype.
    first, step = (np.array(number % (1 << 8 * kind.itemsize), "u%d" % kind.itemsize).view(kind.numpy)
                   for number in (first, step))  # fmt: skip
    return Range(count, kind, first, step)


def _dtype_of_range(*numbers: Any) -> DType:
    if all(isinstance(number, int) for number in numbers):  # whose size counts, too
        return dtype_of(np.arange(numbers[0], numbers[1], numbers[1] - numbers[0] or 1).dtype)
    return dtype_of(np.result_type(np.int64, *(np.asarray(number).dtype for number in numbers)))


def _count(start: Any, stop: Any, step: Any) -> int:
    if step == 0:
        raise InvalidArgument("arange: a step of 0", code="BAD_ARGUMENT")
    if all(isinstance(number, (int, np.integer)) for number in (start, stop, step)):
        return max(0, -((int(start) - int(stop)) // int(step)))
    steps = (stop - start) / step
    if not math.isfinite(steps):
        raise InvalidArgument("arange: from %r to %r by %r there is no count" % (start, stop, step), code="BAD_ARGUMENT")
    return max(0, math.ceil(steps))


def sum_dtype(kind: DType) -> DType:
    """In which numpy adds up numbers of a dtype of floats."""
    return kind if kind.itemsize >= 4 else float32


def arange_graph(count: int, kind: DType) -> Graph:
    """start + i * step, in the dtype; slot 0 is start, slot 1 step."""
    graph = Graph()
    sums = sum_dtype(kind) if kind.is_float else kind
    start, step = (graph.param(name, (), sums) for name in ("start", "step"))
    # Counted in integers and rounded once: float32 has not every number beyond 2^24.
    number = astype(graph.arange(count, int64), sums) if kind.is_float else graph.arange(count, kind)
    graph.output(astype(start + multiply(number, step), kind))
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
        wanted = range_of(*((0, start) if stop is None else (start, stop)), step, dtype)
        key = ("arange", wanted.count, wanted.kind)
        return (yield from self._make(key, arange_graph, wanted.start, wanted.step))

    def _random(self, shape: Any, dtype: Any, seed: Any) -> Waits[Any]:
        number = integer(seed, "a seed")
        if not 0 <= number < 1 << 64:
            raise InvalidArgument("a seed is a uint64, not %d" % number, code="BAD_ARGUMENT")
        return (yield from self._make(("random", shape_of(shape), chosen("random", dtype)), random_graph, number))

    def _make(self, key: Tuple[str, Any, Any], graph_of: Callable[[Any, Any], Graph], *numbers: Any) -> Waits[Any]:
        if math.prod(shape_of(key[1])) == 0:
            return (yield self.empty(key[1], key[2]))
        program = self._makers.get(key)
        if program is None:
            # As numpy's: one number is not to be another where the compiler would contract.
            program = yield self.compile(graph_of(*key[1:]), no_contraction=True)
            if len(self._makers) < _MOST_MAKERS:
                self._makers[key] = program
        values = [np.array(number, BY_NUMBER[row.dtype].numpy)
                  for number, row in zip(numbers, program.signature.parameters)]  # fmt: skip
        return (yield program(*values, out="buffers"))
