"""Factors of matrices of more than 128 rows, outside of jitted functions: arrays are read, and numpy computes.

A program of a step a row is worth its compilation where it is part of a function; of an array at hand numpy has the
result before. What comes out is as of the program: nothing raises where a matrix has no inverse or no factor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, Sequence, Tuple

import numpy as np

from kiln.composed.matrices import QRResult, SlogdetResult
from kiln.functional.held import Held
from kiln.functional.making import array

if TYPE_CHECKING:
    Matrices = np.ndarray[Any, Any]

# Rows up to which an array's factors are computed by the device.
MOST = 128


def _floats(x: Any) -> "Matrices":
    """In float32 or float64, as in a program."""
    given: "Matrices" = np.asarray(x)
    if given.dtype in (np.float32, np.float64):
        return given
    return given.astype(np.float64 if given.dtype.kind in "biu" else np.float32)


def _each(function: Callable[..., Any], x: "Matrices", *more: "Matrices") -> "Matrices":
    """Of a stack; NaN for those matrices of it for which numpy raises."""
    try:
        return np.asarray(function(x, *more))
    except np.linalg.LinAlgError:
        lead = np.broadcast_shapes(*(one.shape[:-2] for one in (x, *more)))
        every = [np.broadcast_to(one, (*lead, *one.shape[-2:])) for one in (x, *more)]
        result = np.full(every[-1].shape, np.nan, x.dtype)
        for at in np.ndindex(*lead):
            try:
                result[at] = function(*(one[at] for one in every))
            except np.linalg.LinAlgError:
                pass
        return result


def _solve(x1: Any, x2: Any) -> Any:
    kind = np.result_type(x1, x2)
    a, b = _floats(x1.astype(kind)), _floats(x2.astype(kind))
    return _each(np.linalg.solve, a, b[:, None])[..., 0] if b.ndim == 1 else _each(np.linalg.solve, a, b)


def _cholesky(x: Any, upper: bool = False) -> Any:
    lower = _each(np.linalg.cholesky, _floats(x))
    return np.swapaxes(lower, -1, -2) if upper else lower


def _qr(x: Any, mode: Any = "reduced") -> Any:
    return QRResult(*np.linalg.qr(_floats(x), mode))


def _power(x: Any, n: Any) -> Any:
    return np.linalg.matrix_power(_each(np.linalg.inv, _floats(x)), -int(n))


_HERE: Dict[str, Callable[..., Any]] = {
    "cholesky": _cholesky,
    "det": lambda x: np.linalg.det(_floats(x)),
    "inv": lambda x: _each(np.linalg.inv, _floats(x)),
    "matrix_power": _power,
    "qr": _qr,
    "slogdet": lambda x: SlogdetResult(*np.linalg.slogdet(_floats(x))),
    "solve": _solve,
}


def is_large(x: Any) -> bool:
    """Whether x's factors are computed here."""
    shape = np.shape(x)
    return len(shape) >= 2 and min(shape[-2:]) > MOST


def computed(name: str, args: Sequence[Any], named: Dict[str, Any]) -> Any:
    """The function of that name of these arrays, or None: what is not large, or has no such shape, is a program's."""
    if not args or not is_large(args[0]) or name != "qr" and len(set(np.shape(args[0])[-2:])) > 1:
        return None
    if name == "matrix_power" and args[1] >= 0:
        return None  # products alone
    if name == "solve" and not _fit(np.shape(args[0]), np.shape(args[1])):
        return None
    if named.get("mode", "reduced") not in ("reduced", "complete"):
        return None
    like = next((one for one in args if isinstance(one, Held)), None)
    place: Dict[str, Any] = {} if like is None else {"client": like.client, "device": like.device}
    with np.errstate(all="ignore"):
        found = _HERE[name](*(np.asarray(one) for one in args), **named)
    if isinstance(found, tuple):
        return type(found)(*(array(np.asarray(one), **place) for one in found))
    return array(np.asarray(found), **place)


def _fit(a: Tuple[int, ...], b: Tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        return False
    return bool(b) and b[0 if len(b) == 1 else -2] == a[-1]
