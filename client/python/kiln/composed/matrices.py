"""Linear algebra by as many steps as a matrix has rows: cholesky, solve, inv, det, qr (factors.py); and norms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Tuple

from kiln import reduce
from kiln.composed.factors import columns, eliminate, identity_like, in_order, is_odd, lower_factor, numbers, reflect, rows
from kiln.composed.operands import one
from kiln.composed.signs import abs as absolute, magnitude
from kiln.dims import Dim
from kiln.dtypes import float32, float64
from kiln.elementwise import astype, less, meet, multiply, not_equal, power, where
from kiln.errors import InvalidArgument, ShapeError, Unimplemented
from kiln.functions import log, reciprocal, sign, sqrt, square
from kiln.movement import broadcast_to, concatenate, expand_dims, reshape, swapaxes
from kiln.reduce import matmul
from kiln.value import axes_of, broadcast

if TYPE_CHECKING:
    from kiln.tensor import Tensor

# Steps that a program is made of at most.
MOST = 512


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
    if min(x.shape[-2:]) > MOST:
        raise Unimplemented("%s: of %s by %s in a program, which takes more than %d steps" % (name, x.shape[-2], x.shape[-1], MOST),
                            remedy="call it outside of the function, and give that the result")  # fmt: skip
    return x if x.dtype.name in ("float32", "float64") else astype(x, float32 if x.dtype.is_float else float64)


def cholesky(x: "Tensor", /, *, upper: bool = False) -> "Tensor":
    """L with L @ L.T = x, zeros above its diagonal; or its transpose. NaN where x is not positive definite."""
    x = _matrices("cholesky", x)
    lower = lower_factor(x, x.shape[-1]) if x.shape[-1] else x  # type: ignore[arg-type]
    return swapaxes(lower, -1, -2) if upper else lower


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
    if not size or not b.shape[-1]:
        right = b
    else:
        done = eliminate(concatenate([a, b], -1), size, True)
        right = multiply(in_order(done, size), reciprocal(rows(done.pivots, 0, size)))
    return reshape(right, right.shape[:-1]) if vector else right


def inv(x: "Tensor", /) -> "Tensor":
    x = _matrices("inv", x)
    return solve(x, identity_like(x, x.shape[-1]))


def _pivots(x: "Tensor") -> "Tuple[Tensor, Any]":
    """(…, n) the pivots, and whether their rows are in an odd order; None where x has no rows."""
    size: Any = x.shape[-1]
    if not size:
        return x.graph.full(x.shape[:-1], 1, x.dtype), None
    done = eliminate(x, size, False)
    pivots = reshape(rows(done.pivots, 0, size), x.shape[:-1])
    return pivots, is_odd(done.order)


def slogdet(x: "Tensor", /) -> SlogdetResult:
    """(sign, log of the absolute value) of the determinant."""
    pivots, odd = _pivots(_matrices("slogdet", x))
    signs = reduce.prod(sign(pivots), -1)
    return SlogdetResult(signs if odd is None else where(odd, -signs, signs), reduce.sum(log(magnitude(pivots)), -1))


def det(x: "Tensor", /) -> "Tensor":
    pivots, odd = _pivots(_matrices("det", x))
    product = reduce.prod(pivots, -1)
    return product if odd is None else where(odd, -product, product)


def qr(x: "Tensor", /, *, mode: str = "reduced") -> QRResult:
    """By reflections (Householder's): x = Q @ R, with R's lower triangle 0."""
    if mode not in ("reduced", "complete"):
        raise InvalidArgument("qr: a mode is 'reduced' or 'complete', not %r" % (mode,), code="BAD_ARGUMENT")
    x = _matrices("qr", x, False)
    height: Any
    width: Any
    height, width = x.shape[-2:]
    kept = height if mode == "complete" else min(height, width)
    q, r = reflect(x, kept) if height and width else (columns(identity_like(x, height), 0, kept), x)
    r = where(less(numbers(r, width, False), numbers(r, height, True)), 0.0, r)
    return QRResult(q, rows(r, 0, kept))


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
