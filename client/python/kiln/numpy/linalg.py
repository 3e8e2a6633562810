"""The array API standard's linear algebra: kiln.numpy.linalg.

What ends after as many steps as a matrix has rows is a composition (kiln/composed/matrices.py): in a jit for up to 512
rows, at once for up to 128, beyond which numpy computes (large.py), as it does eigenvalues and singular values (host.py).
"""

from __future__ import annotations

from typing import Any

from kiln.composed import contraction, matrices, rearranging
from kiln.functional.array import Array
from kiln.functional.eager import dispatched as _dispatched
from kiln.numpy.host import eigh, eigvalsh, matrix_norm, matrix_rank, pinv, svd, svdvals
from kiln.numpy.large import computed as _computed
from kiln.reduce import matmul as _matmul

cholesky, det, inv, matrix_power, qr, slogdet, solve = (_dispatched(function, _computed) for function in (
    matrices.cholesky, matrices.det, matrices.inv, matrices.matrix_power, matrices.qr, matrices.slogdet,
    matrices.solve))  # fmt: skip
vector_norm = _dispatched(matrices.vector_norm)
cross, outer, tensordot, trace, vecdot = map(
    _dispatched, (contraction.cross, contraction.outer, contraction.tensordot, contraction.trace, contraction.vecdot))  # fmt: skip
diagonal, matrix_transpose = map(_dispatched, (rearranging.diagonal, rearranging.matrix_transpose))
matmul = _dispatched(_matmul)


def norm(x: Any, /, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    """numpy's: of a vector or a matrix, along one axis or two; without an order, of all elements."""
    if ord is None:
        return vector_norm(x, axis=axis, keepdims=keepdims)
    rank = x.ndim if axis is None else len(axis) if isinstance(axis, (tuple, list)) else 1
    if rank == 1:
        return vector_norm(x, axis=axis, keepdims=keepdims, ord=ord)
    if axis is None or tuple(at % x.ndim for at in axis) == (x.ndim - 2, x.ndim - 1):
        return matrix_norm(x, keepdims=keepdims, ord=ord)
    raise NotImplementedError("norm of matrices along the axes %s: move them to the end" % (axis,))


__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "norm", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "trace", "vecdot", "vector_norm",
]  # fmt: skip


def __dir__() -> "list[str]":
    return sorted(__all__)
