"""Products that sum over axes: einsum, tensordot and their kin.

An einsum of two operands is their product over the union of their axes, summed over those that are not
wanted; the compiler makes of that what it makes of a matrix product. More operands are taken two by two.
"""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Any, Dict, List, Sequence, Tuple

from kiln.composed.operands import one
from kiln.composed.rearranging import diagonal
from kiln.dtypes import float32
from kiln.elementwise import astype, lift, meet, multiply, subtract
from kiln.errors import InvalidArgument, ShapeError
from kiln.indexing import take
from kiln.movement import broadcast_to, moveaxis, reshape, transpose
from kiln.reduce import reduce, sum as sum_of
from kiln.value import axis_of, broadcast

if TYPE_CHECKING:
    from kiln.tensor import Tensor


def einsum(subscripts: str, /, *operands: Any) -> "Tensor":
    """numpy's, with subscripts as text: einsum("ij,jk->ik", a, b). Narrow floats are summed in float32."""
    values = meet("einsum", *operands) if len(operands) > 1 else lift("einsum", *operands)
    kind = values[0].dtype
    if kind.is_float and kind.itemsize < 4:
        values = [astype(x, float32) for x in values]
    inputs, wanted = _read(subscripts, [x.ndim for x in values])
    terms = [_without_repeats(x, labels) for x, labels in zip(values, inputs)]
    while len(terms) > 1:
        (x, xs), (y, ys), *rest = terms
        kept = wanted + "".join(labels for _, labels in rest)
        terms = [_product(x, xs, y, ys, kept), *rest]
    x, labels = _summed(*terms[0], wanted)
    order = tuple(labels.index(label) for label in wanted)
    return astype(transpose(x, order) if order else x, kind)


def _read(subscripts: str, ranks: Sequence[int]) -> Tuple[List[str], str]:
    """The labels of each operand and of the result; what an ellipsis stands for has labels of its own."""
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    inputs = left.split(",")
    if len(inputs) != len(ranks):
        raise InvalidArgument(
            "einsum: %r is of %d operands, not of %d" % (subscripts, len(inputs), len(ranks)), code="BAD_ARGUMENT"
        )
    hidden = [rank - len(labels.replace("...", "")) if "..." in labels else 0 for labels, rank in zip(inputs, ranks)]
    unused = [letter for letter in string.ascii_letters if letter not in subscripts]
    dots = "".join(unused[: max([*hidden, 0])])
    full = [
        labels.replace("...", dots[len(dots) - count :] if count > 0 else "") for labels, count in zip(inputs, hidden)
    ]
    for labels, rank in zip(full, ranks):
        if len(labels) != rank or not all(label in string.ascii_letters for label in labels):
            raise InvalidArgument(
                "einsum: %r does not fit a tensor of rank %d" % (subscripts, rank), code="BAD_ARGUMENT"
            )
    every = "".join(full)
    if arrow:
        wanted = right.replace("...", dots)
    else:
        wanted = dots + "".join(sorted(label for label in set(every) - set(dots) if every.count(label) == 1))
    if len(set(wanted)) != len(wanted) or not set(wanted) <= set(every):
        raise InvalidArgument("einsum: %r has no result %r" % (subscripts, wanted), code="BAD_ARGUMENT")
    return full, wanted


def _without_repeats(x: "Tensor", labels: str) -> "Tuple[Tensor, str]":
    """Of a label that stands twice, the diagonal."""
    for label in sorted(set(labels)):
        while labels.count(label) > 1:
            first, second = labels.index(label), labels.rindex(label)
            x = moveaxis(moveaxis(x, second, x.ndim - 1), first, x.ndim - 2)
            if x.shape[-1] != x.shape[-2]:
                raise ShapeError("einsum: %s has sizes %s and %s" % (label, x.shape[-2], x.shape[-1]))
            x, labels = diagonal(x), labels[:first] + labels[first + 1 : second] + labels[second + 1 :] + label
    return x, labels


def _summed(x: "Tensor", labels: str, kept: str) -> "Tuple[Tensor, str]":
    axes = tuple(at for at, label in enumerate(labels) if label not in kept)
    return reduce("ADD", x, axes, False), "".join(label for label in labels if label in kept)


def _product(x: "Tensor", xs: str, y: "Tensor", ys: str, kept: str) -> "Tuple[Tensor, str]":
    # What is of one operand alone and not wanted is summed before it meets the other.
    x, xs = _summed(x, xs, kept + ys)
    y, ys = _summed(y, ys, kept + xs)
    every = sorted(set(xs + ys), key=lambda label: (label not in kept, (xs + ys).index(label)))
    union = "".join(every)
    product = multiply(_spread(x, xs, union), _spread(y, ys, union))
    return _summed(product, union, kept)


def _spread(x: "Tensor", labels: str, union: str) -> "Tensor":
    sizes: Dict[str, Any] = dict(zip(labels, x.shape))
    order = tuple(labels.index(label) for label in union if label in labels)
    x = transpose(x, order) if order else x
    return reshape(x, tuple(sizes.get(label, 1) for label in union))


def tensordot(x1: Any, x2: Any, /, axes: Any = 2) -> "Tensor":
    """Summed over x1's last axes with x2's first, as many as `axes` says, or over those it lists of each."""
    x, y = lift("tensordot", x1, x2)
    if isinstance(axes, int):
        mine, theirs = list(range(x.ndim - axes, x.ndim)), list(range(axes))
    else:
        mine, theirs = (list(one) if isinstance(one, (tuple, list)) else [one] for one in axes)
    mine, theirs = (
        [axis_of("tensordot", at, x.ndim) for at in mine],
        [axis_of("tensordot", at, y.ndim) for at in theirs],
    )
    if len(mine) != len(theirs) or [x.shape[at] for at in mine] != [y.shape[at] for at in theirs]:
        raise ShapeError("tensordot: axes %s of %s, %s of %s" % (mine, x.shape, theirs, y.shape))
    letters = iter(string.ascii_letters)
    xs = [next(letters) for _ in x.shape]
    ys = [xs[mine[theirs.index(at)]] if at in theirs else next(letters) for at in range(y.ndim)]
    rest = [label for at, label in enumerate(xs) if at not in mine] + [
        label for at, label in enumerate(ys) if at not in theirs
    ]
    return einsum("%s,%s->%s" % ("".join(xs), "".join(ys), "".join(rest)), x, y)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> "Tensor":
    """The sum of products along an axis."""
    x, y = meet("vecdot", x1, x2)
    if x.ndim == 0 or y.ndim == 0:
        raise ShapeError("vecdot: of %s and %s" % (x.shape, y.shape))
    a, b = (moveaxis(one, axis_of("vecdot", axis, one.ndim), one.ndim - 1) for one in (x, y))
    if a.shape[-1] != b.shape[-1]:
        raise ShapeError("vecdot: of %s and %s along axis %d" % (x.shape, y.shape, axis))
    kind = x.dtype
    if kind.is_float and kind.itemsize < 4:
        a, b = astype(a, float32), astype(b, float32)
    product = multiply(a, b)
    return astype(reduce("ADD", product, (product.ndim - 1,), False), kind)


def inner(x1: Any, x2: Any, /) -> "Tensor":
    """Summed over the last axis of both."""
    x, y = lift("inner", x1, x2)
    return multiply(x, y) if not x.ndim or not y.ndim else tensordot(x, y, axes=((-1,), (-1,)))


def outer(x1: Any, x2: Any, /) -> "Tensor":
    """Every product of an element of one with one of the other."""
    x, y = meet("outer", x1, x2)
    return multiply(reshape(x, (x.size, 1)), reshape(y, (1, y.size)))


def kron(x1: Any, x2: Any, /) -> "Tensor":
    """x2 in the place of each element of x1, times that."""
    x, y = meet("kron", x1, x2)
    rank = max(x.ndim, y.ndim)
    x, y = (reshape(one, (1,) * (rank - one.ndim) + one.shape) for one in (x, y))
    sizes = list(zip(x.shape, y.shape))
    product = multiply(reshape(x, tuple(size for a, _ in sizes for size in (a, 1))),
                       reshape(y, tuple(size for _, b in sizes for size in (1, b))))  # fmt: skip
    return reshape(product, tuple(a * b for a, b in sizes))


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> "Tensor":
    """The vector that stands upright on two of three elements each."""
    x, y = meet("cross", x1, x2)
    shape = broadcast("cross", x.shape, y.shape)
    at = axis_of("cross", axis, min(x.ndim, y.ndim)) if axis >= 0 else axis_of("cross", axis, len(shape))
    if any(one.shape[axis] != 3 for one in (x, y)):
        raise ShapeError("cross: of %s and %s along axis %d, which are not vectors of 3" % (x.shape, y.shape, axis))
    x, y = broadcast_to(x, shape), broadcast_to(y, shape)
    turned = [[take(one, _NEXT[by], at) for by in (1, 2)] for one in (x, y)]
    return subtract(multiply(turned[0][0], turned[1][1]), multiply(turned[0][1], turned[1][0]))


_NEXT = {1: [1, 2, 0], 2: [2, 0, 1]}


def trace(x: "Tensor", /, *, offset: int = 0, dtype: Any = None) -> "Tensor":
    """The sum of the diagonal of the last two axes."""
    return sum_of(diagonal(one("trace", x), offset=offset), -1, dtype=dtype)
