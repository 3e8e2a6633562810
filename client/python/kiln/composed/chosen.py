"""The builder's functions with the array API standard's parameters, where the builder's differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from kiln import elementwise, indexing
from kiln.composed.operands import floats, one
from kiln.composed.signs import isfinite, magnitude
from kiln.elementwise import astype as _astype, lift, where as _where
from kiln.reduce import all as all_of
from kiln.value import Value, broadcast

if TYPE_CHECKING:
    from kiln.tensor import Tensor


def clip(x: "Tensor", /, min: Any = None, max: Any = None) -> "Tensor":
    """The nearest that is neither below min nor above max."""
    return elementwise.clip(one("clip", x), min, max)


def where(condition: Any, x1: Any, x2: Any, /) -> "Tensor":
    """x1 where the condition holds, else x2; a number that is the condition holds unless it is 0."""
    test, a, b = lift("where", condition, x1, x2)
    return _where(_astype(test, "bool") if isinstance(test, Value) else bool(test), a, b)  # type: ignore[arg-type]


def take(x: "Tensor", indices: Any, /, axis: Optional[int] = None) -> "Tensor":
    return indexing.take(x, indices, axis)


def take_along_axis(x: "Tensor", indices: Any, /, axis: int = -1) -> "Tensor":
    x, places = lift("take_along_axis", x, indices)
    at = axis % x.ndim if x.ndim and -x.ndim <= axis < x.ndim else axis
    if x.ndim and x.ndim == places.ndim:  # sizes of 1 stretch
        shape = broadcast(
            "take_along_axis",
            x.shape[:at] + (1,) + x.shape[at + 1 :],
            places.shape[:at] + (1,) + places.shape[at + 1 :],
        )
        x = x.broadcast_to((*shape[:at], x.shape[at], *shape[at + 1 :]))
        places = places.broadcast_to((*shape[:at], places.shape[at], *shape[at + 1 :]))
    return indexing.take_along_axis(x, places, axis)


def select(conditions: Any, choices: Any, /, default: Any = 0) -> "Tensor":
    """Of several choices, that of the first condition that holds."""
    result = default
    for test, choice in zip(reversed(conditions), reversed(choices)):
        result = _where(test, choice, result)
    return result  # type: ignore[no-any-return]


def isclose(a: Any, b: Any, /, rtol: float = 1e-5, atol: float = 1e-8, *, equal_nan: bool = False) -> "Tensor":
    x, y = floats("isclose", a, b)
    near = elementwise.less_equal(magnitude(x - y), atol + rtol * magnitude(y))
    close = _where(isfinite(x) & isfinite(y), near, elementwise.equal(x, y))
    return close | elementwise.isnan(x) & elementwise.isnan(y) if equal_nan else close


def allclose(a: Any, b: Any, /, rtol: float = 1e-5, atol: float = 1e-8, *, equal_nan: bool = False) -> "Tensor":
    return all_of(isclose(a, b, rtol, atol, equal_nan=equal_nan))
