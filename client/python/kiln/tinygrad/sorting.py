"""Tensor.sort() in memory that grows with the tensor.

tinygrad sorts values by a network of comparisons and then finds each one's place by
comparing all with all, which takes n × n. Here each element's place travels with it
through the network: of equal elements the first is the lesser, so their order is kept.
What is compared with what is as in tinygrad's own, and so are the gradients. NaN is
greater than all else, as in numpy.

The network is a FUNCTION, whose steps are memory of the program's own; outside of one
tinygrad would keep a buffer for each. It is written once for each shape.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Tuple

from tinygrad import Tensor, dtypes
from tinygrad.dtype import DType
from tinygrad.uop.ops import UOp

from kiln.tinygrad.devices import all_kiln, devices_of

# From so many elements on, two steps of the network are one kernel: for fewer, compiling it costs more than it saves.
LARGE = 1 << 14


def exchanged(x: UOp, index: UOp, second: UOp, half: int, turned: bool, descending: bool) -> Tuple[UOp, UOp]:
    """Pairs in order: of each 2 * half elements of axis 1, those `half` apart or, `turned`, as far from either end.

    `second` says of a pair's two places which is the latter.
    """
    shape = x.shape
    pairs = (shape[0], shape[1] // (2 * half), 2, half, shape[2])
    x, index = x.reshape(pairs), index.reshape(pairs)
    axes = (2, 3) if turned else (2,)
    other, place = x.flip(axes), index.flip(axes)
    before, tie = (other < x if descending else x < other), x.eq(other)
    least, greatest = x.minimum(other), x.maximum(other)
    if dtypes.is_float(x.dtype):
        mine, theirs = x.ne(x), other.ne(other)
        tie = tie | (mine & theirs)
        before = (mine & theirs.logical_not() if descending else theirs & mine.logical_not()) | before
    first = before | (tie & (index < place))  # of the pair
    stays = first ^ second
    value = second.where(least, greatest) if descending else second.where(greatest, least)
    if dtypes.is_float(x.dtype):
        value = (mine | theirs).where(stays.where(x, other), value)
    return value.reshape(shape), stays.where(index, place).reshape(shape)


def network(x: UOp, descending: bool) -> Tuple[UOp, UOp]:
    """Along axis 1 of three: the values in order, and where each was."""
    rows, count, columns = x.shape
    stages = (count - 1).bit_length()
    last = x.dtype.min if descending else float("nan") if dtypes.is_float(x.dtype) else x.dtype.max
    x = x.pad((None, (0, 2**stages - count), None), value=last).contiguous()
    second = UOp.arange(2).reshape(1, 1, 2, 1, 1).ne(0)
    index = UOp.arange(2**stages, dtype=dtypes.int32).reshape(1, 2**stages, 1).expand(x.shape)
    steps = [(2**step, step == stage) for stage in range(stages) for step in range(stage, -1, -1)]
    for number, (half, turned) in enumerate(steps, 1):
        x, index = exchanged(x, index, second, half, turned and half > 1, descending)
        if number % (2 if count >= LARGE else 1) == 0 or number == len(steps):
            x, index = x.contiguous(), index.contiguous()
    return x.shrink_to(rows, count, columns), index.shrink_to(rows, count, columns)


@functools.cache
def written(shape: Tuple[int, int, int], kind: DType, device: str, descending: bool) -> UOp:
    """The network as a FUNCTION's body, whose one PARAM has this shape."""
    return UOp.maketuple(*network(UOp.param(0, kind, shape, device), descending))


def make_sort(original: Callable[..., Any]) -> Callable[..., Tuple[Tensor, Tensor]]:
    """tinygrad's sort, for KILN."""

    def sort(self: Tensor, dim: int = -1, descending: bool = False) -> Tuple[Tensor, Tensor]:
        axis = self._resolve_dim(dim)
        devices, shape = devices_of(self.uop), self.shape
        numbers = all(isinstance(size, int) and size > 0 for size in shape)
        if len(devices) != 1 or not all_kiln(devices) or not numbers or shape[axis] < 2:
            return original(self, dim, descending)
        x = self.reshape(functools.reduce(int.__mul__, shape[:axis], 1), shape[axis], -1)
        call = written(x.shape, x.dtype, devices[0], bool(descending)).call(x.uop, name="sort")
        values, index = (Tensor(call.gettuple(i)).reshape(shape) for i in range(2))
        return values, index.cast(dtypes.default_int)

    return sort
