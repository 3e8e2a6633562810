"""Questions about dtypes: finfo, iinfo, isdtype, can_cast, result_type."""

from __future__ import annotations

from typing import Any, NamedTuple

from kiln import promotion
from kiln.constants import FLOATS
from kiln.dtypes import DType, bool_, dtype as dtype_of, float64, int64
from kiln.errors import DTypeError, InvalidArgument


class finfo_object(NamedTuple):
    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class iinfo_object(NamedTuple):
    bits: int
    max: int
    min: int
    dtype: DType


def _kind(like: Any) -> DType:
    # numpy's classes have an attribute of that name, too.
    return dtype_of(like if isinstance(like, (DType, type)) else getattr(like, "dtype", like))


def finfo(type: Any, /) -> finfo_object:
    """What a dtype of floats, or an array's, can hold."""
    kind = _kind(type)
    if not kind.is_float:
        raise DTypeError("finfo: %s is no dtype of floats" % kind.name, code="BAD_ARGUMENT")
    form = FLOATS[kind.number]
    exponent, digits = form.greatest >> form.mantissa, form.greatest & (1 << form.mantissa) - 1
    greatest = (1 + digits / 2.0**form.mantissa) * 2.0 ** (exponent - form.bias)
    return finfo_object(8 * kind.itemsize, 2.0**-form.mantissa, greatest, -greatest, 2.0 ** (1 - form.bias), kind)


def iinfo(type: Any, /) -> iinfo_object:
    kind = _kind(type)
    if not kind.is_integer:
        raise DTypeError("iinfo: %s is no dtype of integers" % kind.name, code="BAD_ARGUMENT")
    least, greatest = promotion.limits(kind)
    return iinfo_object(8 * kind.itemsize, greatest, least, kind)


# The letters of the dtypes of each of the standard's kinds.
KINDS = {
    "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu", "real floating": "f",
    "complex floating": "", "numeric": "iuf",
}  # fmt: skip


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind: a name of the standard's, a dtype, or a tuple of these."""
    mine = dtype_of(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(mine, one) for one in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise InvalidArgument("isdtype: there is no kind %r" % kind, code="BAD_ARGUMENT", remedy=", ".join(KINDS))
        return mine.kind in KINDS[kind]
    return mine is dtype_of(kind)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether an operation between the two dtypes gives `to`."""
    return promotion.promote(_kind(from_), _kind(to)) is _kind(to)


_NUMBERS = {bool: bool_, int: int64, float: float64}


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype in which they meet; Python's numbers take that of the others."""
    if not arrays_and_dtypes:
        raise InvalidArgument("result_type: of nothing", code="BAD_ARGUMENT")
    strong = [_kind(one) for one in arrays_and_dtypes if type(one) not in _NUMBERS]
    kind = strong[0] if strong else _NUMBERS[type(arrays_and_dtypes[0])]
    for other in strong[1:]:
        kind = promotion.promote(kind, other)
    for one in arrays_and_dtypes:
        if type(one) in _NUMBERS:
            kind = promotion.with_scalar(kind, one)
    return kind
