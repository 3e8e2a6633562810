"""Functions that read their arguments and compute here: what they give has a shape that depends on values, or a loop
without a fixed end. In a jitted function they raise Unimplemented, which says so.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence, Tuple

import numpy as np

from kiln.composed.matrices import matrix_norm as _matrix_norm
from kiln.composed.rearranging import repeat as _repeat_raw
from kiln.composed.samples import counted as _counted, counted_by_weight as _counted_by_weight
from kiln.dtypes import integer
from kiln.errors import GraphError, InvalidArgument, Unimplemented
from kiln.functional.array import Array
from kiln.functional.eager import dispatched
from kiln.functional.held import Held
from kiln.functional.making import array
from kiln.functional.tracing import active
from kiln.value import Value

_repeat = dispatched(_repeat_raw)
_counts, _weighed = dispatched(_counted), dispatched(_counted_by_weight)

SHAPE = "the shape of its result depends on the values of its argument"
LOOP = "it is computed by numpy, in loops that end where the values say"


class UniqueAllResult(NamedTuple):
    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCountsResult(NamedTuple):
    values: Array
    counts: Array


class UniqueInverseResult(NamedTuple):
    values: Array
    inverse_indices: Array


class EighResult(NamedTuple):
    eigenvalues: Array
    eigenvectors: Array


class SVDResult(NamedTuple):
    U: Array
    S: Array
    Vh: Array


def read(name: str, values: Sequence[Any], why: str) -> "Sequence[Any]":
    """Arrays as numpy's. Unimplemented in a traced function, where they have no values yet."""
    if active() is not None:
        raise Unimplemented("%s is no part of a jitted function: %s" % (name, why),
                            remedy="call it outside of the function, and give that the result")  # fmt: skip
    if any(isinstance(value, Value) for value in values):
        raise GraphError("%s is of arrays, and a tensor is none" % name, code="BAD_ARGUMENT")
    values = [np.asarray(value) if isinstance(value, (list, tuple)) else value for value in values]
    return [value.numpy() if isinstance(value, Held) else value for value in values]


def _back(like: Any, value: Any) -> Array:
    where = {"client": like.client, "device": like.device} if isinstance(like, Held) else {}
    return array(np.asarray(value), **where)


def _unique(x: np.ndarray, *wanted: str) -> Any:
    """numpy's, in which each NaN is one of its own."""
    values, places, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    found = {"values": values, "indices": places, "inverse": inverse.reshape(x.shape), "counts": counts}
    return [found[name] if name == "values" else found[name].astype(np.int64) for name in wanted]


def unique_all(x: Any, /) -> UniqueAllResult:
    """(values, where each is first, which value each element is, how often each is there)"""
    return _several("unique_all", x, UniqueAllResult, "values", "indices", "inverse", "counts")


def unique_counts(x: Any, /) -> UniqueCountsResult:
    return _several("unique_counts", x, UniqueCountsResult, "values", "counts")


def unique_inverse(x: Any, /) -> UniqueInverseResult:
    return _several("unique_inverse", x, UniqueInverseResult, "values", "inverse")


def unique_values(x: Any, /) -> Array:
    (array,) = read("unique_values", [x], SHAPE)
    return _back(x, _unique(array, "values")[0])


def _several(name: str, x: Any, result: Any, *wanted: str) -> Any:
    (array,) = read(name, [x], SHAPE)
    return result(*(_back(x, one) for one in _unique(array, *wanted)))


def nonzero(x: Any, /) -> Tuple[Array, ...]:
    """The places of the elements that are not 0: a tuple, one array an axis."""
    (array,) = read("nonzero", [x], SHAPE)
    if not array.ndim:
        raise GraphError("nonzero: of an array without axes", code="BAD_ARGUMENT")
    return tuple(_back(x, one.astype(np.int64)) for one in np.nonzero(array))


def flatnonzero(x: Any, /) -> Array:
    (array,) = read("flatnonzero", [x], SHAPE)
    return _back(x, np.flatnonzero(array))


def argwhere(x: Any, /) -> Array:
    """The places of the elements that are not 0, a row each."""
    (array,) = read("argwhere", [x], SHAPE)
    return _back(x, np.argwhere(array))


def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Array:
    """How often each of 0, 1, 2, … is among the elements, or what weight of them: for all up to the greatest, which is read.

    In a jitted function the result has `minlength` elements, and what is greater counts nowhere.
    """
    length = integer(minlength, "bincount: minlength")
    if active() is None and not isinstance(x, Value):
        places = np.asarray(x)
        if places.ndim != 1 or places.dtype.kind not in "iub" or places.size and places.min() < 0:
            raise InvalidArgument("bincount: of %s %s" % (places.dtype, places.shape), code="BAD_ARGUMENT",
                                  remedy="one axis of integers, 0 or more")  # fmt: skip
        length = max(length, int(places.max()) + 1 if places.size else 0)
    elif not length:
        raise Unimplemented("bincount is no part of a jitted function without minlength: %s" % SHAPE,
                            remedy="say how long the result is to be")  # fmt: skip
    x = np.asarray(x) if isinstance(x, (list, tuple)) else x
    return _counts(x, length) if weights is None else _weighed(x, weights, length)


def repeat(x: Any, repeats: Any, /, axis: Any = None) -> Array:
    """Each element, or part along an axis, as many times as `repeats` says: one number, or one of each, read."""
    if isinstance(repeats, (Held, Value)):
        (repeats,) = read("repeat by an array", [repeats], SHAPE)
    counts = int(repeats) if np.ndim(repeats) == 0 else tuple(map(int, repeats))
    return _repeat(x, counts, axis)


# -- linear algebra


def eigh(x: Any, /) -> EighResult:
    """The eigenvalues of symmetric matrices, ascending, and their vectors."""
    (array,) = read("eigh", [x], LOOP)
    return EighResult(*(_back(x, one) for one in np.linalg.eigh(array)))


def eigvalsh(x: Any, /) -> Array:
    (array,) = read("eigvalsh", [x], LOOP)
    return _back(x, np.linalg.eigvalsh(array))


def svd(x: Any, /, *, full_matrices: bool = True) -> SVDResult:
    """U, S, Vh with x = U @ diag(S) @ Vh."""
    (array,) = read("svd", [x], LOOP)
    return SVDResult(*(_back(x, one) for one in np.linalg.svd(array, full_matrices=full_matrices)))


def svdvals(x: Any, /) -> Array:
    (array,) = read("svdvals", [x], LOOP)
    return _back(x, np.linalg.svd(array, compute_uv=False))


def _in_floats(array: Any) -> np.ndarray:
    array = np.asarray(array)
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def pinv(x: Any, /, *, rtol: Any = None) -> Array:
    """The inverse as far as there is one (Moore and Penrose's)."""
    array, bound = read("pinv", [x, rtol], LOOP)
    array = _in_floats(array)
    bound = max(array.shape[-2:]) * np.finfo(array.dtype).eps if bound is None else bound
    return _back(x, np.linalg.pinv(array, bound))


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Array:
    array, bound = read("matrix_rank", [x, rtol], LOOP)
    array = _in_floats(array)
    values = np.linalg.svd(array, compute_uv=False)
    bound = max(array.shape[-2:]) * np.finfo(array.dtype).eps if bound is None else np.asarray(bound)[..., np.newaxis]
    least = values.max(axis=-1, keepdims=True, initial=0) * bound
    return _back(x, np.count_nonzero(values > least, axis=-1))


_composed = dispatched(_matrix_norm)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """ "fro", 1, -1, inf, -inf; and 2, -2 and "nuc", which are computed here, outside of jitted functions."""
    if ord not in (2, -2, "nuc"):
        return _composed(x, keepdims=keepdims, ord=ord)
    (array,) = read("matrix_norm of order %r" % (ord,), [x], LOOP)
    return _back(x, np.linalg.norm(array, ord, axis=(-2, -1), keepdims=keepdims))
