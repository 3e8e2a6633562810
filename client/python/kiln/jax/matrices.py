"""Factors of matrices, and what triangular ones solve: column by column, unrolled, for matrices of up to 64.

Each step is a few kernels over the whole matrix, where what it must not change is masked.
"""

from __future__ import annotations

from typing import Any, List

from kiln import elementwise as ops, functions, movement, reduce as reductions
from kiln.dtypes import int32
from kiln.jax.control import settled
from kiln.jax.movement import along, looked_up
from kiln.jax.table import rule

# Rows or columns up to which a factorisation is unrolled.
MOST = 64


class Places:
    """Numbers of rows and columns beside a (…, rows, columns) tensor, as masks want them."""

    def __init__(self, e: Any, x: Any):
        if max(x.shape[-2:]) > MOST:
            raise e.refuse("a matrix of %d × %d, and at most %d are unrolled" % (*x.shape[-2:], MOST))
        self.rows = movement.reshape(e.arange(x.shape[-2], int32), (x.shape[-2], 1))
        self.columns = movement.reshape(e.arange(x.shape[-1], int32), (1, x.shape[-1]))


def _row(x: Any, at: int) -> Any:
    return x[..., at : at + 1, :]


def _column(x: Any, at: int) -> Any:
    return x[..., :, at : at + 1]


@rule("cholesky")
def cholesky(e: Any, x: Any) -> Any:
    """Lower; NaN all over where the matrix is not positive definite."""
    at, size = Places(e, x), x.shape[-1]
    lower = x.graph.zeros(x.shape, x.dtype)
    for k in range(size):
        rest = _column(x, k)
        if k:
            known = reductions.reduce("ADD", lower * _row(lower, k), (x.ndim - 1,), True)
            rest = rest - known
        column = ops.where(at.rows >= k, rest / functions.sqrt(_row(rest, k)), 0.0)
        lower = settled(ops.where(ops.equal(at.columns, k), column, lower))
    sound = reductions.all(ops.equal(lower, lower), (x.ndim - 2, x.ndim - 1), keepdims=True)
    return ops.where(sound, lower, float("nan"))


@rule("triangular_solve")
def triangular_solve(e: Any, a: Any, b: Any) -> Any:
    """x of a x = b, row by row, from the one that has one unknown; x a = b by its transposes."""
    p = e.params
    lower, turned = p["lower"], p["transpose_a"]
    if not p["left_side"]:
        b, turned = movement.swapaxes(b, -1, -2), not turned
    if turned:
        a, lower = movement.swapaxes(a, -1, -2), not lower
    at, size = Places(e, a), a.shape[-1]
    found = b.graph.zeros(b.shape, b.dtype)
    at_rows = movement.reshape(e.arange(size, int32), (size, 1))
    for step in range(size):
        k = step if lower else size - 1 - step
        row = _row(b, k)
        if step:
            known = ops.less(at.columns, k) if lower else ops.greater(at.columns, k)
            factors = movement.swapaxes(ops.where(known, _row(a, k), 0.0), -1, -2)
            row = row - reductions.reduce("ADD", factors * found, (found.ndim - 2,), True)
        row = row if p["unit_diagonal"] else row / _column(_row(a, k), k)
        found = settled(ops.where(ops.equal(at_rows, k), row, found))
    return found if p["left_side"] else movement.swapaxes(found, -1, -2)


def _in_rows(e: Any, x: Any, order: Any) -> Any:
    """x's rows in another order, (…, rows, 1), of its own in each matrix of a batch."""
    places: List[Any] = [along(e.arange(size, int32), axis, x.ndim) for axis, size in enumerate(x.shape)]
    places[-2] = order
    return looked_up(x, places, x.shape)


@rule("lu")
def lu(e: Any, x: Any) -> Any:
    """Factors in one matrix, the row that each step took, and the order of rows that comes of it."""
    at, steps = Places(e, x), min(x.shape[-2:])
    batch = x.shape[:-2]
    order = movement.broadcast_to(at.rows, (*batch, x.shape[-2], 1))
    pivots = []
    for k in range(steps):
        size = ops.where(at.rows >= k, functions.absolute(_column(x, k)), -1.0)
        pivot = ops.astype(reductions.argmax(size, x.ndim - 2, keepdims=True), int32)  # …, 1, 1
        pivots.append(movement.reshape(pivot, (*batch, 1)))
        swapped = ops.where(ops.equal(at.rows, k), pivot, ops.where(ops.equal(at.rows, pivot), k, at.rows))
        x, order = settled(_in_rows(e, x, swapped)), settled(_in_rows(e, order, swapped))
        divisor = _row(_column(x, k), k)
        factor = ops.where(at.rows > k, _column(x, k) / ops.where(ops.equal(divisor, 0), 1.0, divisor), 0.0)
        rest = ops.where(at.columns > k, x - factor * _row(x, k), x)
        x = settled(ops.where(ops.equal(at.columns, k) & (at.rows > k), factor, rest))
    chosen = movement.concatenate(pivots, len(batch)) if pivots else e.graph.zeros((*batch, 0), int32)
    return [x, chosen, movement.reshape(order, order.shape[:-1])]


@rule("qr")
def qr(e: Any, x: Any) -> Any:
    """By Householder's reflections, with LAPACK's signs."""
    if e.params.get("pivoting"):
        raise e.refuse("with pivoting")
    at, (rows, columns) = Places(e, x), x.shape[-2:]
    wide = movement.reshape(e.arange(rows, int32), (1, rows))
    q = movement.broadcast_to(ops.astype(ops.equal(at.rows, wide), x.dtype), (*x.shape[:-2], rows, rows))
    for k in range(min(rows, columns)):
        column = _column(x, k)
        head, below = _row(column, k), ops.where(at.rows > k, column, 0.0)
        square = reductions.reduce("ADD", below * below, (x.ndim - 2,), True)
        flat = ops.equal(square, 0)
        length = functions.sqrt(head * head + square)
        turned = ops.where(head < 0, length, ops.negative(length))
        v = ops.where(ops.equal(at.rows, k), 1.0, below / ops.where(flat, 1.0, head - turned))
        weight = ops.where(flat, 0.0, (turned - head) / ops.where(flat, 1.0, turned))
        v = ops.where(at.rows >= k, v, 0.0)
        x = settled(x - weight * v * reductions.reduce("ADD", v * x, (x.ndim - 2,), True))
        across = movement.swapaxes(v, -1, -2)
        q = settled(q - weight * reductions.reduce("ADD", q * across, (x.ndim - 1,), True) * across)
    r = ops.where(at.rows <= at.columns, x, 0.0)
    if not e.params["full_matrices"]:
        kept = min(rows, columns)
        q, r = q[..., :kept], r[..., :kept, :]
    return [q, r]
