"""Factors of matrices by fixed steps: elimination with pivots, Cholesky's, Householder's; column by column in blocks.

The columns of a block are done one after the other in the block alone, which is narrow; what they do to the rest of
the matrix is then one product. Every step is the same few operations on the same shapes: rows and columns that are
done move out of the way, or a mask that is held in memory says which they are. So each step runs kernels that are
compiled once, and a larger matrix is a longer list of them. Stacks of matrices take the same steps at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, NamedTuple, Tuple

from kiln import reduce
from kiln.composed.signs import magnitude
from kiln.dtypes import int64
from kiln.elementwise import astype, equal, less, multiply, not_equal, where
from kiln.functions import reciprocal, sqrt
from kiln.movement import broadcast_to, concatenate, pad, reshape, shrink, swapaxes
from kiln.reduce import argmax, matmul
from kiln.value import emit

if TYPE_CHECKING:
    from kiln.tensor import Tensor

# Columns of a block at most.
_BLOCK = 32


class Eliminated(NamedTuple):
    """`right`: what became of the columns beside the square ones, None without them; in the order of the rows as given.
    `pivots` and `order`, (…, n, 1): the pivot of each step, and the row that it stood in."""

    right: Any
    pivots: "Tensor"
    order: "Tensor"


def held(x: "Tensor") -> "Tensor":
    """In memory, where the next step reads it; else that would compute it again."""
    return emit("CONTIGUOUS", (x,), x.dtype, x.shape)


def columns(x: "Tensor", begin: Any, end: Any) -> "Tensor":
    return shrink(x, [(0, size) for size in x.shape[:-1]] + [(begin, end)])


def rows(x: "Tensor", begin: Any, end: Any) -> "Tensor":
    return shrink(x, [(0, size) for size in x.shape[:-2]] + [(begin, end), (0, x.shape[-1])])


def numbers(x: "Tensor", size: Any, column: bool) -> "Tensor":
    return reshape(x.graph.arange(size, int64), (size, 1) if column else (1, size))


def identity_like(x: "Tensor", size: Any) -> "Tensor":
    """Of x's dtype, for each of its matrices."""
    unit = astype(equal(numbers(x, size, True), numbers(x, size, False)), x.dtype)
    return broadcast_to(unit, (*x.shape[:-2], size, size))


def _blocks(size: int) -> Tuple[int, int]:
    """(blocks, the columns of each) that hold `size` columns."""
    count = -(-size // _BLOCK) or 1
    return count, -(-size // count)


def _beside(x: "Tensor", right: int, below: int = 0) -> "Tensor":
    """Zeros to the right of x and below it."""
    return pad(x, [(0, 0)] * (x.ndim - 2) + [(0, below), (0, right)]) if right or below else x


def _rolled(x: "Tensor", by: int) -> "Tensor":
    """The first columns behind the others."""
    size: Any = x.shape[-1]
    return concatenate([columns(x, by, size), columns(x, 0, by)], -1) if by < size else x


def _completed(x: "Tensor", size: int, whole: int) -> "Tensor":
    """The square matrices that x begins with, made larger by an identity; what is to the right of them stays there."""
    if size == whole:
        return x
    left = _beside(columns(x, 0, size), whole - size, whole - size)
    row, column = numbers(x, whole, True), numbers(x, whole, False)
    left = where(equal(row, column) & less(size - 1, row), 1.0, left)
    right = _beside(columns(x, size, x.shape[-1]), 0, whole - size)
    return concatenate([left, right], -1)


# -- elimination


def eliminate(a: "Tensor", size: int, above: bool) -> Eliminated:
    """The first `size` columns of (…, size, m) eliminated, below the pivots or, if `above`, in all other rows.

    Rows are not swapped: a pivot is the greatest of those rows that have had none.
    """
    count, width = _blocks(size)
    whole = count * width
    a = held(_completed(a, size, whole))
    more: Any = a.shape[-1]
    free = held(broadcast_to(less(numbers(a, whole, True), whole), (*a.shape[:-1], 1)))
    pivots: "List[Tensor]" = []
    order: "List[Tensor]" = []
    for block in range(count):
        change, free = _eliminate_block(columns(a, 0, width), free, above, pivots, order)
        if block == count - 1 and more == whole:
            break  # nothing is left that it would change
        chosen = concatenate(order[-width:], -2)
        top = held(matmul(_one_hot(chosen, whole, a), a))
        a = held(_beside(columns(a + matmul(change, top), width, more), width))
    right = columns(a, 0, more - whole) if more > whole else None
    return Eliminated(right, concatenate(pivots, -2), concatenate(order, -2))


def _one_hot(places: "Tensor", size: int, like: "Tensor") -> "Tensor":
    """(…, k, 1) places as rows of zeros with a 1 at the place: times a matrix, they are its rows."""
    return held(astype(equal(places, numbers(like, size, False)), like.dtype))


def in_order(done: Eliminated, size: int) -> "Tensor":
    """`right`, whose rows go where their pivots are in the diagonal."""
    right = done.right
    return rows(matmul(_one_hot(done.order, right.shape[-2], right), right), 0, size)


def _eliminate_block(x: "Tensor", free: "Tensor", above: bool, pivots: "List[Tensor]",
                     order: "List[Tensor]") -> "Tuple[Tensor, Tensor]":  # fmt: skip
    """(by how much of each of its pivots' rows a row changes, the rows that are still free). The first column is always
    the one to eliminate: then it moves to the end."""
    width: Any = x.shape[-1]
    places = numbers(x, x.shape[-2], True)
    one = astype(equal(numbers(x, 2 * width, False), width), x.dtype)
    state = held(_beside(x, width))
    for _ in range(width):
        column = columns(state, 0, 1)
        best = held(argmax(where(free, magnitude(column), -1.0), -2, keepdims=True))
        here = equal(places, best)
        row = held(reduce.sum(where(here, state, 0.0), -2, keepdims=True) + one)
        pivot = columns(row, 0, 1)
        none = equal(pivot, 0.0)  # and so is all that is left of the column
        factor = multiply(column, where(none, 0.0, reciprocal(where(none, 1.0, pivot))))
        others = not_equal(places, best)
        factor = where(others if above else free & others, factor, 0.0)
        state = state - multiply(factor, row)
        state = held(concatenate([_rolled(columns(state, 0, width), 1), _rolled(columns(state, width, 2 * width), 1)], -1))
        free = held(free & others)
        pivots.append(pivot)
        order.append(best)
    return held(columns(state, width, 2 * width)), free


def is_odd(order: "Tensor") -> "Tensor":
    """Whether it takes an odd number of swaps to put (…, n, 1) places in order."""
    size = order.shape[-2]
    later = less(numbers(order, size, True), numbers(order, size, False))
    turned = later & less(swapaxes(order, -1, -2), order)
    return equal(reduce.sum(astype(turned, int64), (-2, -1)) & 1, 1)


# -- cholesky


def _unskewed(x: "Tensor", by: int) -> "Tensor":
    """(…, k, n): row number r moved to the right by r * by. What would be beyond the end comes back at the beginning
    of the next row, left of where that begins."""
    *lead, count, size = x.shape
    flat = reshape(_beside(x, by), (*lead, count * (size + by)))
    return reshape(columns(flat, 0, count * size), x.shape)


def lower_factor(x: "Tensor", size: int) -> "Tensor":
    """L, lower triangular, with L @ L.T = x, of which the lower triangle is read."""
    count, width = _blocks(size)
    whole = count * width
    x = held(_completed(x, size, whole))
    blocks = []
    for block in range(count):
        found = []
        part = columns(x, 0, width)
        for _ in range(width):
            column = columns(part, 0, 1)
            column = held(multiply(column, reciprocal(sqrt(rows(column, 0, 1)))))
            found.append(column)
            rest = part - multiply(column, swapaxes(rows(column, 0, width), -1, -2))
            part = held(_beside(columns(rows(rest, 1, whole), 1, width), 1, 1))
        lower = held(swapaxes(_unskewed(swapaxes(concatenate(found, -1), -1, -2), 1), -1, -2))
        blocks.append(lower)
        if block < count - 1:
            below = rows(lower, width, whole)
            x = rows(columns(x, width, whole), width, whole) - matmul(below, swapaxes(below, -1, -2))
            x = held(_beside(x, width, width))
    # Each block begins in its own row: down by as much as it is to the right.
    lead = x.shape[:-2]
    every = swapaxes(concatenate(blocks, -1), -1, -2)  # (…, blocks * width, whole)
    every = swapaxes(reshape(every, (*lead, count, width, whole)), -3, -2)
    every = reshape(swapaxes(_unskewed(every, width), -3, -2), (*lead, whole, whole))
    lower = rows(columns(swapaxes(every, -1, -2), 0, size), 0, size)
    return where(less(numbers(x, size, True), numbers(x, size, False)), 0.0, lower)


# -- reflections


def reflect(x: "Tensor", wide: int) -> "Tuple[Tensor, Tensor]":
    """(Q, R) with x = Q @ R of (…, m, n), of Q the first `wide` columns; what is below R's diagonal is to be taken as 0."""
    size: Any
    rest: Any
    size, rest = x.shape[-2:]
    count, width = _blocks(min(size, rest))
    whole = max(rest, count * width)
    r = held(_beside(x, whole - rest))
    open_rows = held(broadcast_to(less(-1, numbers(x, size, True)), (*x.shape[:-1], 1)))
    blocks = []
    for _ in range(count):
        vectors, change, done, open_rows = _reflect_block(columns(r, 0, width), open_rows)
        blocks.append((vectors, change))
        if width < whole:
            right = columns(r, width, whole)
            right = right - matmul(change, held(matmul(swapaxes(vectors, -1, -2), right)))
            r = held(concatenate([right, done], -1))
        else:
            r = done
    q = columns(identity_like(x, size), 0, wide)
    for vectors, change in reversed(blocks):
        q = held(q - matmul(vectors, held(matmul(swapaxes(change, -1, -2), q))))
    return q, columns(_rolled(r, whole - count * width) if whole > count * width else r, 0, rest)


def _reflect_block(x: "Tensor", open_rows: "Tensor") -> "Tuple[Tensor, Tensor, Tensor, Tensor]":
    """(V, Y, the block reflected, the rows that stay open): the reflections are I - Y @ V.T, one after the other.

    As in elimination, the first column is the one that is reflected, and moves to the end.
    """
    size: Any
    width: Any
    size, width = x.shape[-2:]
    made = equal(numbers(x, 2 * width, False), width)
    state = held(_beside(x, width))
    vectors = []
    for _ in range(width):
        later = pad(rows(open_rows, 0, size - 1), [(0, 0)] * (x.ndim - 2) + [(1, 0), (0, 0)])
        first = not_equal(open_rows, later)  # of the open rows; nowhere, where all are done
        column = where(open_rows, columns(state, 0, 1), 0.0)
        dots = held(reduce.sum(multiply(column, state), -2, keepdims=True))
        heads = held(reduce.sum(where(first, state, 0.0), -2, keepdims=True))
        head, square = columns(heads, 0, 1), columns(dots, 0, 1)
        length = sqrt(square)
        length = where(less(head, 0.0), length, -length)  # away from the first element: nothing cancels
        vector = held(where(first, column - length, column))
        total = square - multiply(length, head)  # half the vector's square
        none = equal(total, 0.0)
        scale = where(none, 0.0, reciprocal(where(none, 1.0, total)))
        along = where(made, -1.0, dots - multiply(length, heads))
        state = state - multiply(scale * vector, along)
        state = held(concatenate([_rolled(columns(state, 0, width), 1), _rolled(columns(state, width, 2 * width), 1)], -1))
        vectors.append(vector)
        open_rows = held(later)
    return held(concatenate(vectors, -1)), held(columns(state, width, 2 * width)), held(columns(state, 0, width)), open_rows
