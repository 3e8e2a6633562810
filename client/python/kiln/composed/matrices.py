"""Linear algebra by loops of as many steps as a matrix has rows: cholesky, solve, inv, det, qr; and norms.

Each step is a few operations on whole matrices, in which masks choose rows and columns, so that stacks of
matrices take the same steps at once. What a step gives is held in memory, where the next reads it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Tuple

from kiln import reduce
from kiln.composed.operands import one
from kiln.composed.signs import abs as absolute, magnitude
from kiln.dims import Dim
from kiln.dtypes import float32, float64, int64
from kiln.elementwise import astype, equal, less, meet, multiply, not_equal, power, where
from kiln.errors import InvalidArgument, ShapeError, Unimplemented
from kiln.functions import log, reciprocal, sign, sqrt, square
from kiln.indexing import take_along_axis
from kiln.movement import broadcast_to, concatenate, expand_dims, reshape, shrink, stack, swapaxes
from kiln.reduce import argmax, matmul
from kiln.value import axes_of, broadcast, emit

if TYPE_CHECKING:
    from kiln.tensor import Tensor

# Steps that a program is made of at most.
MOST = 128


class QRResult(NamedTuple):
    Q: Any
    R: Any


class SlogdetResult(NamedTuple):
    sign: Any
    logabsdet: Any


def _matrices(name: str, x: Any, is_square: bool = True) -> "Tensor":
    """Matrices of floats, float32 or wider."""
    x = one(name, x)
    if x.ndim < 2 or any(isinstance(size, Dim) for size in x.shape) or is_square and x.shape[-1] != x.shape[-2]:
        raise ShapeError("%s: of a tensor of %s" % (name, x.shape), remedy="(…, n, n)" if is_square else "(…, m, n)")
    if min(x.shape[-2:]) > MOST:  # type: ignore[type-var]
        raise Unimplemented("%s: of %s by %s, which takes more than %d steps" % (name, x.shape[-2], x.shape[-1], MOST),
                            remedy="read it, and use numpy.linalg.%s" % name)  # fmt: skip
    return x if x.dtype.name in ("float32", "float64") else astype(x, float32 if x.dtype.is_float else float64)


def _held(x: "Tensor") -> "Tensor":
    return emit("CONTIGUOUS", (x,), x.dtype, x.shape)


def _column(x: "Tensor", at: int) -> "Tensor":
    return shrink(x, [(0, size) for size in x.shape[:-1]] + [(at, at + 1)])


def _row(x: "Tensor", at: int) -> "Tensor":
    return shrink(x, [(0, size) for size in x.shape[:-2]] + [(at, at + 1), (0, x.shape[-1])])


def _numbers(x: "Tensor", size: Any, column: bool) -> "Tensor":
    return reshape(x.graph.arange(size, int64), (size, 1) if column else (1, size))


def identity_like(x: "Tensor", size: Any) -> "Tensor":
    """Of x's dtype, for each of its matrices."""
    unit = astype(equal(_numbers(x, size, True), _numbers(x, size, False)), x.dtype)
    return broadcast_to(unit, (*x.shape[:-2], size, size))


def cholesky(x: "Tensor", /, *, upper: bool = False) -> "Tensor":
    """L with L @ L.T = x, zeros above its diagonal; or its transpose. NaN where x is not positive definite."""
    rest = _matrices("cholesky", x)
    size: Any = rest.shape[-1]
    columns = []
    rows = _numbers(rest, size, True)
    for step in range(size):
        column = _column(rest, step)
        column = where(less(rows, step), 0.0, multiply(column, reciprocal(sqrt(_row(column, step)))))
        column = _held(column)
        columns.append(column)
        rest = _held(rest - multiply(column, swapaxes(column, -1, -2)))
    lower = concatenate(columns, -1) if columns else rest
    return swapaxes(lower, -1, -2) if upper else lower


def _eliminate(a: "Tensor", size: int, whole: bool) -> "Tuple[Tensor, Any, Any]":
    """(a after elimination, its pivots, whether their order is odd): below the diagonal or, if `whole`, above too."""
    rows = _numbers(a, a.shape[-2], True)
    pivots, odd = [], None
    for step in range(size):
        column = where(less(rows, step), -1.0, magnitude(_column(a, step)))
        best = argmax(column, -2, keepdims=True)
        swapped = where(equal(rows, step), best, where(equal(rows, best), step, rows))
        a = take_along_axis(a, broadcast_to(swapped, a.shape), -2)
        a = _held(a)
        turned = not_equal(best, step)
        odd = turned if odd is None else not_equal(odd, turned)
        row, pivot = _row(a, step), _row(_column(a, step), step)
        pivots.append(reshape(pivot, pivot.shape[:-2]))
        none = equal(pivot, 0.0)  # and so is all that is left of the column
        factor = multiply(_column(a, step), where(none, 0.0, reciprocal(where(none, 1.0, pivot))))
        used = less(step, rows) if not whole else not_equal(rows, step)
        a = _held(where(used, a - multiply(factor, row), a))
    return a, pivots, odd if odd is None else reshape(odd, odd.shape[:-2])


def solve(x1: Any, x2: Any, /) -> "Tensor":
    """x with x1 @ x = x2, by elimination with pivots; infinite or NaN where x1 is singular."""
    a, b = meet("solve", x1, x2)
    a, b = _matrices("solve", a), b
    b = astype(b, a.dtype)
    vector = b.ndim == 1
    b = expand_dims(b, -1) if vector else b
    if b.ndim < 2 or b.shape[-2] != a.shape[-1]:
        raise ShapeError("solve: %s for a right side of %s" % (a.shape, b.shape))
    lead = broadcast("solve", a.shape[:-2], b.shape[:-2])
    size: Any = a.shape[-1]
    a, b = broadcast_to(a, (*lead, size, size)), broadcast_to(b, (*lead, *b.shape[-2:]))
    done, pivots, _ = _eliminate(concatenate([a, b], -1), size, True)
    right = shrink(done, [(0, extent) for extent in done.shape[:-1]] + [(size, done.shape[-1])])
    if pivots:
        right = multiply(right, reciprocal(expand_dims(stack(pivots, -1), -1)))
    return reshape(right, right.shape[:-1]) if vector else right


def inv(x: "Tensor", /) -> "Tensor":
    x = _matrices("inv", x)
    return solve(x, identity_like(x, x.shape[-1]))


def slogdet(x: "Tensor", /) -> SlogdetResult:
    """(sign, log of the absolute value) of the determinant."""
    x = _matrices("slogdet", x)
    _, pivots, odd = _eliminate(x, x.shape[-1], False)  # type: ignore[arg-type]
    if not pivots:
        return SlogdetResult(x.graph.full(x.shape[:-2], 1, x.dtype), x.graph.full(x.shape[:-2], 0, x.dtype))
    signs, logs = sign(pivots[0]), log(magnitude(pivots[0]))
    for pivot in pivots[1:]:
        signs, logs = multiply(signs, sign(pivot)), logs + log(magnitude(pivot))
    return SlogdetResult(where(odd, -signs, signs), logs)


def det(x: "Tensor", /) -> "Tensor":
    x = _matrices("det", x)
    _, pivots, odd = _eliminate(x, x.shape[-1], False)  # type: ignore[arg-type]
    product = x.graph.full(x.shape[:-2], 1, x.dtype)
    for pivot in pivots:
        product = multiply(product, pivot)
    return product if odd is None else where(odd, -product, product)


def qr(x: "Tensor", /, *, mode: str = "reduced") -> QRResult:
    """By reflections (Householder's): x = Q @ R, with R's lower triangle 0."""
    if mode not in ("reduced", "complete"):
        raise InvalidArgument("qr: a mode is 'reduced' or 'complete', not %r" % (mode,), code="BAD_ARGUMENT")
    r = _matrices("qr", x, False)
    rows, columns = r.shape[-2:]
    q = identity_like(r, rows)
    places = _numbers(r, rows, True)
    for step in range(min(rows, columns)):  # type: ignore[type-var]
        column = where(less(places, step), 0.0, _column(r, step))
        first = _row(column, step)
        length = sqrt(reduce.sum(square(column), -2, keepdims=True))
        length = where(less(first, 0.0), length, -length)  # away from the first element: nothing cancels
        normal = _held(where(equal(places, step), column - length, column))
        total = reduce.sum(square(normal), -2, keepdims=True)
        scale = where(equal(total, 0.0), 0.0, 2 * reciprocal(where(equal(total, 0.0), 1.0, total)))
        turned = swapaxes(normal, -1, -2)
        r = _held(r - multiply(scale * normal, matmul(turned, r)))
        q = _held(q - multiply(matmul(q, normal), scale * turned))
    r = where(less(_numbers(r, columns, False), places), 0.0, r)
    if mode == "reduced" and rows > columns:  # type: ignore[operator]
        lead = [(0, size) for size in r.shape[:-2]]
        r = shrink(r, [*lead, (0, columns), (0, columns)])
        q = shrink(q, [*lead, (0, rows), (0, columns)])
    return QRResult(q, r)


def matrix_power(x: "Tensor", n: int, /) -> "Tensor":
    x = one("matrix_power", x)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError("matrix_power: of a tensor of %s" % (x.shape,))
    if n < 0:
        x, n = inv(x), -n
    result, squared = None, x
    while n:
        if n & 1:
            result = squared if result is None else matmul(result, squared)
        n >>= 1
        squared = matmul(squared, squared) if n else squared
    return identity_like(x, x.shape[-1]) if result is None else result


# -- norms


def vector_norm(x: "Tensor", /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> "Tensor":
    x = one("vector_norm", x)
    x = x if x.dtype.is_float else astype(x, float64)
    axes = axes_of("vector_norm", axis, x.ndim)
    a = absolute(x)
    if ord == math.inf:
        return reduce.max(a, axes, keepdims=keepdims)
    if ord == -math.inf:
        return reduce.min(a, axes, keepdims=keepdims)
    if ord == 0:
        return reduce.sum(astype(not_equal(x, 0.0), x.dtype), axes, keepdims=keepdims)
    if ord == 1:
        return reduce.sum(a, axes, keepdims=keepdims)
    if ord == 2:
        return sqrt(reduce.sum(square(a), axes, keepdims=keepdims))
    return power(reduce.sum(power(a, float(ord)), axes, keepdims=keepdims), 1 / ord)


def matrix_norm(x: "Tensor", /, *, keepdims: bool = False, ord: Any = "fro") -> "Tensor":
    """ "fro", 1, -1, inf and -inf; those that are sums of singular values are kiln.numpy.linalg's."""
    x = one("matrix_norm", x)
    x = x if x.dtype.is_float else astype(x, float64)
    if x.ndim < 2:
        raise ShapeError("matrix_norm: of a tensor of %s" % (x.shape,))
    if ord == "fro":
        return sqrt(reduce.sum(square(x), (-2, -1), keepdims=keepdims))
    if ord not in (1, -1, math.inf, -math.inf):
        raise Unimplemented(
            "matrix_norm: of order %r" % (ord,),
            remedy="'fro', 1, -1, inf or -inf; of arrays outside of a jit 2, -2 and 'nuc', too",
        )
    along = -2 if ord in (1, -1) else -1
    sums = reduce.sum(absolute(x), along, keepdims=True)
    result = (reduce.max if ord > 0 else reduce.min)(sums, -1 if along == -2 else -2, keepdims=True)
    return result if keepdims else reshape(result, result.shape[:-2])
