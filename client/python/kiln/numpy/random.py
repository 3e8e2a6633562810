"""Random numbers of keys: the same key gives the same numbers, on every device, in and out of a jit.

    key = kiln.numpy.random.key(7)
    first, second = kiln.numpy.random.split(key)
    x = kiln.numpy.random.normal(first, (3, 4))

A key is 64 bits, and its numbers are Threefry's cipher (kiln/made.py) of 0, 1, 2, … under it. Use a key once,
for numbers or for split; what split and fold_in encrypt no numbers are made of. The numbers themselves are
compositions: kiln/composed/draws.py, and kiln/composed/families.py for those that have parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as _np

from kiln.composed import draws, families
from kiln.dtypes import integer
from kiln.errors import InvalidArgument, ShapeError
from kiln.functional.array import Array
from kiln.functional.eager import dispatched as _dispatched
from kiln.functional.making import array as _array
from kiln.value import Value, count as _count, shape_of as _shape_of

if TYPE_CHECKING:
    from kiln.typing import ShapeLike

# By how much the probabilities of choice may differ from 1 in all.
_NEAR = 1e-6


def key(seed: int) -> Array:
    """The key of a number from 0 to 2**64 - 1."""
    number = integer(seed, "a seed")
    if not 0 <= number < 1 << 64:
        raise InvalidArgument("a seed is a uint64, not %d" % number, code="BAD_ARGUMENT")
    return _array(_np.uint64(number))


split = _dispatched(draws.split)
_fold_in = _dispatched(draws.fold_in)


def fold_in(key: Any, /, data: Any) -> Array:
    """The key of a key and of a number, as of a step; the number comes with the call: one program for all."""
    if isinstance(data, _np.generic) or not hasattr(data, "dtype"):
        number = integer(data, "data")
        if not 0 <= number < 1 << 64:
            raise InvalidArgument("data is a uint64, not %d" % number, code="BAD_ARGUMENT")
        data = _np.asarray(number, _np.uint64)
    return _fold_in(key, data)


uniform, normal, randint, bernoulli, permutation, shuffle = map(
    _dispatched, (draws.uniform, draws.normal, draws.randint, draws.bernoulli, draws.permutation, draws.shuffle))  # fmt: skip
exponential, gumbel, laplace, categorical = map(
    _dispatched, (draws.exponential, draws.gumbel, draws.laplace, draws.categorical))  # fmt: skip
truncated_normal, gamma, beta, dirichlet, poisson, multivariate_normal = map(
    _dispatched, (families.truncated_normal, families.gamma, families.beta, families.dirichlet, families.poisson,
                  families.multivariate_normal))  # fmt: skip
_chosen, _taken = _dispatched(draws.chosen), _dispatched(draws.taken)


def choice(key: Any, /, a: Any, shape: ShapeLike = (), replace: bool = True, p: Any = None, axis: int = 0) -> Array:
    """Elements of an array along an axis, or numbers below an integer; each as likely as p says, or as any other.

    Without `replace` none comes twice, and the order is a random one, too. p of arrays is read, and is to be 0 or more
    and 1 in all; a traced p is taken as it is, in proportion.
    """
    if isinstance(a, (list, tuple)):
        a = _np.asarray(a)
    is_array = hasattr(a, "shape") and len(a.shape) > 0
    if is_array and not -len(a.shape) <= axis < len(a.shape):
        raise ShapeError("choice: no axis %s in an array of %s" % (axis, tuple(a.shape)), code="BAD_ARGUMENT")
    size = a.shape[axis] if is_array else integer(a, "choice: a number")
    wanted = _count(_shape_of(shape))
    if size < 0 or not size and wanted:
        raise InvalidArgument("choice: of %d elements" % size, code="BAD_ARGUMENT")
    if not replace and wanted > size:  # type: ignore[operator]
        raise InvalidArgument("choice: %s of %d elements, of which none comes twice" % (wanted, size), code="BAD_ARGUMENT",
                              remedy="fewer, or replace=True")  # fmt: skip
    if p is not None and not isinstance(p, Value):
        p = _probabilities(p, size, 0 if replace else wanted)
    elif p is not None and p.shape != (size,):
        raise ShapeError("choice: %d elements, and probabilities of %s" % (size, p.shape))
    if not size:
        sizes: Any = _shape_of(shape)
        places = _array(_np.zeros(sizes, _np.int64))
    else:
        places = _chosen(key, size, shape, bool(replace), p)
    return _taken(a, places, axis) if is_array else places


def _probabilities(p: Any, size: int, wanted: Any) -> Any:
    """p in float64, of `size` elements, of which `wanted` are above 0."""
    p = _np.asarray(p)
    if p.dtype.kind not in "biuf" and p.dtype.itemsize > 2 or p.shape != (size,):
        raise ShapeError("choice: %d elements, and probabilities of %s %s" % (size, p.dtype, p.shape), remedy="one of each")
    wide, near = p.astype(_np.float64), _NEAR if p.dtype.itemsize >= 4 else 1e-2
    if not (wide >= 0).all() or size and abs(wide.sum() - 1) > near:
        raise InvalidArgument("choice: probabilities that are %s in all, the least %s" % (wide.sum(), wide.min(initial=1)),
                              code="BAD_ARGUMENT", remedy="0 or more each, and 1 in all: p / p.sum()")  # fmt: skip
    if wanted > (wide > 0).sum():
        raise InvalidArgument("choice: %s that differ, of %d with a probability above 0" % (wanted, (wide > 0).sum()),
                              code="BAD_ARGUMENT")  # fmt: skip
    return wide


__all__ = [
    "key", "split", "fold_in", "uniform", "normal", "randint", "bernoulli", "permutation", "shuffle", "choice",
    "exponential", "gumbel", "laplace", "categorical", "truncated_normal", "gamma", "beta", "dirichlet", "poisson",
    "multivariate_normal",
]  # fmt: skip


def __dir__() -> "list[str]":
    return sorted(__all__)
