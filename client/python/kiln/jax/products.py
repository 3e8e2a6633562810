"""dot_general: products of tensors, summed over contracted axes."""

from __future__ import annotations

from typing import Any

from kiln import elementwise as ops, movement
from kiln.dtypes import float32
from kiln.jax.table import rule
from kiln.reduce import reduce
from kiln.value import count


def inner_kind(kind: Any) -> Any:
    """The dtype in which products are summed."""
    return float32 if kind.is_float and kind.itemsize < 4 else kind


@rule("dot_general")
def dot_general(e: Any, x: Any, y: Any) -> Any:
    """Results have batch axes first, then what is left of x, then of y."""
    (inner_x, inner_y), (batch_x, batch_y) = e.params["dimension_numbers"]
    kind = inner_kind(e.dtype)
    x, y = ops.astype(x, kind), ops.astype(y, kind)
    left = [axis for axis in range(x.ndim) if axis not in (*inner_x, *batch_x)]
    right = [axis for axis in range(y.ndim) if axis not in (*inner_y, *batch_y)]
    batch = [x.shape[axis] for axis in batch_x]
    rows, columns = [x.shape[axis] for axis in left], [y.shape[axis] for axis in right]
    inner = [x.shape[axis] for axis in inner_x]
    x = movement.transpose(x, [*batch_x, *left, *inner_x]) if x.ndim else x
    y = movement.transpose(y, [*batch_y, *right, *inner_y]) if y.ndim else y
    x = movement.reshape(x, (*batch, *rows, *[1] * len(columns), count(inner)))
    y = movement.reshape(y, (*batch, *[1] * len(rows), *columns, count(inner)))
    products = ops.multiply(x, y)
    return ops.astype(reduce("ADD", products, (products.ndim - 1,), False), e.dtype)
