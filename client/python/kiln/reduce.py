"""Functions that take axes away: sum, max, mean, …, by numpy's names, dtypes and defaults.

`axis` is None (all), a number or several; with `keepdims` they stay with size 1. Over
an axis of size 0 sum gives 0, prod 1, max the least value there is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Tuple

import numpy as np

from kiln import promotion
from kiln.dims import Dim, Size
from kiln.dtypes import DType, bool_, dtype as dtype_of, float32, int64
from kiln.elementwise import (
    astype,
    bitwise_or,
    divide,
    equal,
    invert,
    isnan,
    meet,
    multiply,
    negative,
    subtract,
    where,
)
from kiln.errors import ShapeError
from kiln.functions import sqrt, square
from kiln.movement import expand_dims, moveaxis, reshape
from kiln.v1 import graph_pb2
from kiln.value import axes_of, axis_of, broadcast, count, emit

if TYPE_CHECKING:
    from kiln.tensor import Tensor


def reduce(op: str, x: "Tensor", axes: Tuple[int, ...], keepdims: bool) -> "Tensor":
    """REDUCE by ADD, MUL or MAX, in x's own dtype."""
    kept = tuple(1 if at in axes else size for at, size in enumerate(x.shape))
    if axes:
        arg = graph_pb2.ReduceArg(op=graph_pb2.Op.Value(op), axis=axes)
        x = emit("REDUCE", (x,), x.dtype, kept, reduce=arg)
    return x if keepdims else reshape(x, tuple(size for at, size in enumerate(x.shape) if at not in axes))


def sum(x: "Tensor", axis: Any = None, *, keepdims: bool = False, dtype: Any = None) -> "Tensor":
    """As numpy: integers are summed in 64 bits, floats in their own dtype (narrow ones in float32, rounded once)."""
    kind = promotion.sum_of(x.dtype) if dtype is None else dtype_of(dtype)
    return reduce("ADD", astype(x, kind), axes_of("sum", axis, x.ndim), keepdims)


def prod(x: "Tensor", axis: Any = None, *, keepdims: bool = False, dtype: Any = None) -> "Tensor":
    """As numpy: the product, of integers in 64 bits, of floats in their own dtype."""
    kind = promotion.sum_of(x.dtype) if dtype is None else dtype_of(dtype)
    return reduce("MUL", astype(x, kind), axes_of("prod", axis, x.ndim), keepdims)


def max(x: "Tensor", axis: Any = None, *, keepdims: bool = False) -> "Tensor":
    """NaN if one of them is."""
    return reduce("MAX", x, axes_of("max", axis, x.ndim), keepdims)


def min(x: "Tensor", axis: Any = None, *, keepdims: bool = False) -> "Tensor":
    """NaN if one of them is."""
    return _mirror(max(_mirror(x), axis, keepdims=keepdims))


def any(x: "Tensor", axis: Any = None, *, keepdims: bool = False) -> "Tensor":
    """Whether one of them is not 0."""
    return max(astype(x, bool_), axis, keepdims=keepdims)


def all(x: "Tensor", axis: Any = None, *, keepdims: bool = False) -> "Tensor":
    """Whether none of them is 0."""
    return reduce("MUL", astype(x, bool_), axes_of("all", axis, x.ndim), keepdims)


def mean(x: "Tensor", axis: Any = None, *, keepdims: bool = False) -> "Tensor":
    """Of integers in float64; narrow floats in float32, rounded once."""
    kind = x.dtype if x.dtype.is_float else dtype_of("float64")
    wide = _wide(kind)
    axes = axes_of("mean", axis, x.ndim)
    total = reduce("ADD", astype(x, wide), axes, keepdims)
    return astype(divide(total, _number(x, count([x.shape[at] for at in axes]), wide)), kind)


def var(x: "Tensor", axis: Any = None, *, keepdims: bool = False, ddof: int = 0) -> "Tensor":
    """The mean of squared deviations, over count - ddof."""
    kind = x.dtype if x.dtype.is_float else dtype_of("float64")
    wide = astype(x, _wide(kind))
    axes = axes_of("var", axis, x.ndim)
    deviation = subtract(wide, mean(wide, axes, keepdims=True))
    total = reduce("ADD", square(deviation), axes, keepdims)
    return astype(divide(total, _number(x, count([x.shape[at] for at in axes]) - ddof, wide.dtype)), kind)


def std(x: "Tensor", axis: Any = None, *, keepdims: bool = False, ddof: int = 0) -> "Tensor":
    """The square root of the variance."""
    return sqrt(var(x, axis, keepdims=keepdims, ddof=ddof))


def argmax(x: "Tensor", axis: Any = None, *, keepdims: bool = False) -> "Tensor":
    """The place (int64) of the greatest, the first of several; of the first NaN if there is one.

    Without an axis, the place in the flattened tensor.
    """
    if axis is None:
        place = argmax(reshape(x, (x.size,)), 0)
        return reshape(place, (1,) * x.ndim) if keepdims else place
    at = axis_of("argmax", axis, x.ndim)
    size = x.shape[at]
    if isinstance(size, Dim) or size == 0:
        raise ShapeError("argmax: along an axis of %s" % size, remedy="a number of 1 or more")
    # Counted from the end, the first place is the greatest.
    from_end = subtract(size, x.graph.arange(size, dtype=int64))
    from_end = reshape(from_end, tuple(size if axis == at else 1 for axis in range(x.ndim)))
    greatest = equal(x, max(x, at, keepdims=True))
    if x.dtype.is_float:
        greatest = bitwise_or(greatest, isnan(x))
    return subtract(size, max(where(greatest, from_end, 0), at, keepdims=keepdims))


def argmin(x: "Tensor", axis: Any = None, *, keepdims: bool = False) -> "Tensor":
    """The place (int64) of the least, the first of several; else as argmax."""
    return argmax(_mirror(x), axis, keepdims=keepdims)


def matmul(a: Any, b: Any) -> "Tensor":
    """The matrix product of the last two axes, the others broadcast; vectors as numpy has them.

    Narrow floats are multiplied and summed in float32 and rounded once.
    """
    x, y = meet("matmul", a, b)
    if x.ndim == 0 or y.ndim == 0:
        raise ShapeError("matmul: of %s and %s" % (x.shape, y.shape), remedy="multiply takes scalars")
    row, column = x.ndim == 1, y.ndim == 1
    x, y = expand_dims(x, 0) if row else x, expand_dims(y, 1) if column else y
    if x.shape[-1] != y.shape[-2]:
        raise ShapeError("matmul: %s and %s: the last axis of one is not the last but one of the other" %
                         (x.shape, y.shape))  # fmt: skip
    broadcast("matmul", x.shape[:-2], y.shape[:-2])
    kind, wide = x.dtype, _wide(x.dtype) if x.dtype.is_float else x.dtype
    products = multiply(expand_dims(astype(x, wide), -2), expand_dims(astype(y, wide).swapaxes(-1, -2), -3))
    result = astype(reduce("ADD", products, (products.ndim - 1,), False), kind)
    shape = list(result.shape)
    if column:
        del shape[-1]
    if row:
        del shape[-1 if column else -2]
    return reshape(result, tuple(shape))


def dot(a: Any, b: Any) -> "Tensor":
    """As numpy's: over a's last axis and b's last but one, with all other axes of both. A number is an array to it."""
    x, y = meet("dot", *(np.asarray(one) if isinstance(one, (int, float)) else one for one in (a, b)))
    if x.ndim == 0 or y.ndim == 0:
        return multiply(x, y)
    if x.ndim < 2 or y.ndim < 3:
        return matmul(x, y)
    rows = matmul(reshape(x, (count(x.shape[:-1]), x.shape[-1])), y)
    return reshape(moveaxis(rows, -2, 0), x.shape[:-1] + y.shape[:-2] + y.shape[-1:])


def _mirror(x: "Tensor") -> "Tensor":
    """The order of values turned round: the greatest becomes the least."""
    return negative(x) if x.dtype.is_float else invert(x)


def _wide(kind: DType) -> DType:
    return float32 if kind.itemsize < 4 else kind


def _number(x: "Tensor", size: Size, kind: DType) -> Any:
    """A size as an operand: a number, or a tensor of a symbolic one."""
    return astype(x.graph.dim(size), kind) if isinstance(size, Dim) else float(size)
