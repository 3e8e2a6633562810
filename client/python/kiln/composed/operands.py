"""What compositions do with their operands before they compute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Tuple

from kiln import promotion
from kiln.dtypes import DType, dtype as dtype_of, float32
from kiln.elementwise import astype, common, lift, meet

if TYPE_CHECKING:
    from kiln.tensor import Tensor


def one(name: str, x: Any) -> "Tensor":
    """An operand as a tensor."""
    (value,) = lift(name, x)
    return value  # type: ignore[no-any-return]


def pair(name: str, a: Any, b: Any) -> "Tuple[Tensor, Tensor, DType]":
    """Two operands as floats that are computed with, and the dtype of the result: narrow ones become float32."""
    values = lift(name, a, b)
    kind = promotion.float_of(common(values))
    x, y = meet(name, *values, kind=float32 if kind.itemsize < 4 else kind)
    return x, y, kind


def in_floats(function: "Callable[[Tensor, Tensor], Tensor]") -> "Callable[[Any, Any], Tensor]":
    """A function of two floats of float32 or wider, for all operands."""

    def widened(x1: Any, x2: Any, /) -> "Tensor":
        x, y, kind = pair(function.__name__, x1, x2)
        return astype(function(x, y), kind)

    widened.__name__ = widened.__qualname__ = function.__name__
    widened.__doc__, widened.__module__ = function.__doc__, function.__module__
    return widened


def kind_of(dtype: Any, default: DType) -> DType:
    return default if dtype is None else dtype_of(dtype)


def floats(name: str, a: Any, b: Any) -> "Tuple[Tensor, Tensor]":
    """Two operands in the float dtype of the result."""
    values = lift(name, a, b)
    x, y = meet(name, *values, kind=promotion.float_of(common(values)))
    return x, y
