"""Which dtype two operands meet in: numpy's rules, and what they say of narrow floats.

Python's own numbers are weak: they take the dtype of the tensor they meet, and only a
float that meets integers makes float64 of them.
"""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np

from kiln.dtypes import DType, bool_, dtype as dtype_of, float16, float32, float64, int64, uint64
from kiln.errors import InvalidArgument, UnsupportedDType
from kiln.v1 import graph_pb2

_NARROW = {"bfloat16", "float8_e4m3", "float8_e5m2", "float8_e4m3_fnuz", "float8_e5m2_fnuz"}


def promote(a: DType, b: DType) -> DType:
    """The dtype of an operation between tensors of a and b."""
    if a is b:
        return a
    if a.name in _NARROW or b.name in _NARROW:
        if a.is_float and b.is_float:
            return max(a, b, key=lambda kind: kind.itemsize) if max(a.itemsize, b.itemsize) >= 4 else float32
        return a if a.is_float else b
    return dtype_of(np.result_type(a.numpy, b.numpy))


def with_scalar(a: DType, scalar: Any) -> DType:
    """The dtype of an operation between a tensor of `a` and a Python number."""
    if isinstance(scalar, bool):
        return a
    if isinstance(scalar, int):
        return int64 if a is bool_ else a
    if isinstance(scalar, float):
        return a if a.is_float else float64
    raise UnsupportedDType("%r is no number that a graph has" % (scalar,), remedy="bool, int, float, arrays and tensors")


def float_of(a: DType) -> DType:
    """The float dtype in which numpy computes functions like exp of `a`."""
    if a.is_float:
        return a
    return float16 if a.itemsize == 1 else float32 if a.itemsize == 2 else float64


def sum_of(a: DType) -> DType:
    """The dtype in which numpy sums `a`."""
    if a is bool_ or a.kind == "i":
        return int64
    return uint64 if a.kind == "u" else a


def constant(value: Any, kind: DType) -> graph_pb2.ConstArg:
    """A number in `kind`; InvalidArgument if it does not hold it. Floats round to nearest."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, np.generic):
        dtype_of(value.dtype)
    elif not isinstance(value, (bool, int, float)):
        raise _misfit(value, kind)
    if kind.is_float:
        try:
            return graph_pb2.ConstArg(dtype=kind.number, f=float(value))
        except OverflowError:
            raise _misfit("an integer of %d bits" % value.bit_length(), kind) from None
    if not isinstance(value, int) and not float(value).is_integer() or kind is bool_ and value not in (0, 1):
        raise _misfit(value, kind)
    whole = int(value)
    if kind is bool_:
        return graph_pb2.ConstArg(dtype=kind.number, b=bool(whole))
    least, greatest = limits(kind)
    if not least <= whole <= greatest:
        raise _misfit(value, kind)
    if kind.kind == "i":
        return graph_pb2.ConstArg(dtype=kind.number, i=whole)
    return graph_pb2.ConstArg(dtype=kind.number, u=whole)


def limits(kind: DType) -> Tuple[int, int]:
    """The least and the greatest value of an integer dtype."""
    bits = 8 * kind.itemsize
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind.kind == "i" else (0, (1 << bits) - 1)


def _misfit(value: Any, kind: DType) -> InvalidArgument:
    return InvalidArgument("the constant %r is no %s" % (value, kind.name), code="BAD_ARGUMENT",
                           remedy="write one that fits, or cast the tensor with astype")  # fmt: skip
