"""Scalar types: what the protocol, numpy and Python call the same thing.

    kiln.dtype("float32"), kiln.dtype(np.float32), kiln.dtype(float)
    buffer.dtype == np.float32, np.zeros(3, buffer.dtype)

One row of the table below is one dtype. numpy has no bfloat16 and no 8-bit float of
its own; the package ml_dtypes gives it some, and without it such arrays cannot be
brought to the host. What numpy has and Kiln has not (complex, object, strings,
times, float128) is refused with UnsupportedDType.
"""

from __future__ import annotations

import operator
from typing import Any, Dict, Optional

import numpy as np

from kiln.errors import DTypeError, InvalidArgument, UnsupportedDType


class DType:
    """One scalar type; there is one object of each, so among them `is` and `==` agree.

    It equals what numpy's dtype of the kind equals: that dtype, its scalar type, Python's, and
    their names; and its own name. Its hash is numpy's dtype's.
    """

    __slots__ = ("name", "number", "itemsize", "kind", "_numpy_name", "_numpy", "_hash")

    def __init__(self, name: str, number: int, itemsize: int, kind: str, numpy_name: str):
        self.name = name
        self.number: Any = number  # of kiln.v1.DType
        self.itemsize = itemsize  # in bytes; 0 for what is never stored
        self.kind = kind  # numpy's letter: b, i, u, f; V for void, w for the weak types
        self._numpy_name = numpy_name
        self._numpy: Optional[np.dtype] = None
        self._hash: Optional[int] = None

    @property
    def numpy(self) -> np.dtype:
        """numpy's dtype; UnsupportedDType if there is none, or ml_dtypes is missing."""
        if self._numpy is None:
            if not self._numpy_name:
                raise UnsupportedDType("no array holds %s" % self.name, remedy="cast it to a dtype that is stored")
            try:
                self._numpy = np.dtype(self._numpy_name)
            except TypeError:
                self._numpy = _from_ml_dtypes(self)
        return self._numpy

    @property
    def dtype(self) -> np.dtype:
        """As `numpy`: by this name numpy asks what is passed for a dtype."""
        return self.numpy

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, DType):
            return self is other
        if not isinstance(other, (np.dtype, type, str)):
            return NotImplemented
        if isinstance(other, np.dtype) and not other.isnative:
            return False
        try:
            return dtype(other) is self
        except (TypeError, ValueError, SyntaxError):  # what names no dtype
            return False

    def __hash__(self) -> int:
        if self._hash is None:
            try:
                self._hash = hash(self.numpy)
            except UnsupportedDType:
                self._hash = hash(self.name)
        return self._hash

    @property
    def is_float(self) -> bool:
        """Whether its numbers are floats."""
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        """Whether its numbers are integers, with a sign or without."""
        return self.kind in "iu"

    def __repr__(self) -> str:
        return "kiln." + self.name

    def __reduce__(self) -> Any:
        return (dtype, (self.name,))


def _from_ml_dtypes(wanted: DType) -> np.dtype:
    try:
        import ml_dtypes
    except ImportError:
        raise UnsupportedDType(
            "numpy alone has no %s" % wanted.name,
            remedy="install ml_dtypes, or BITCAST to uint%d" % (8 * wanted.itemsize),
        ) from None
    return np.dtype(getattr(ml_dtypes, wanted._numpy_name))


_TABLE = (
    DType("void", 1, 0, "V", ""),
    DType("bool", 2, 1, "b", "bool"),
    DType("int8", 3, 1, "i", "int8"),
    DType("int16", 4, 2, "i", "int16"),
    DType("int32", 5, 4, "i", "int32"),
    DType("int64", 6, 8, "i", "int64"),
    DType("uint8", 7, 1, "u", "uint8"),
    DType("uint16", 8, 2, "u", "uint16"),
    DType("uint32", 9, 4, "u", "uint32"),
    DType("uint64", 10, 8, "u", "uint64"),
    DType("float16", 11, 2, "f", "float16"),
    DType("float32", 12, 4, "f", "float32"),
    DType("float64", 13, 8, "f", "float64"),
    DType("bfloat16", 14, 2, "f", "bfloat16"),
    DType("float8_e4m3", 15, 1, "f", "float8_e4m3fn"),
    DType("float8_e5m2", 16, 1, "f", "float8_e5m2"),
    DType("float8_e4m3_fnuz", 17, 1, "f", "float8_e4m3fnuz"),
    DType("float8_e5m2_fnuz", 18, 1, "f", "float8_e5m2fnuz"),
    DType("weakint", 19, 0, "w", ""),
    DType("weakfloat", 20, 0, "w", ""),
)

BY_NUMBER: Dict[int, DType] = {row.number: row for row in _TABLE}
BY_NAME: Dict[str, DType] = {row.name: row for row in _TABLE}
# numpy's own names where they differ from the protocol's.
_BY_NUMPY_NAME: Dict[str, DType] = {row._numpy_name: row for row in _TABLE if row._numpy_name}
_BY_NUMPY: Dict[np.dtype, DType] = {}
_BY_PYTHON: Dict[Any, DType] = {bool: BY_NAME["bool"], int: BY_NAME["int64"], float: BY_NAME["float64"]}

(void, bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, float64, bfloat16, float8_e4m3,
 float8_e5m2, float8_e4m3_fnuz, float8_e5m2_fnuz, weakint, weakfloat) = _TABLE  # fmt: skip


def dtype(like: Any) -> DType:
    """The DType that `like` names: a DType, its name or number, a numpy dtype, or a Python type.

    Raises UnsupportedDType for what Kiln has not. The byte order of a numpy dtype does
    not matter here; arrays of the other order are converted where they are sent.
    """
    if isinstance(like, DType):
        return like
    if isinstance(like, np.dtype):
        found = _BY_NUMPY.get(like)
        if found is None:
            found = _BY_NUMPY_NAME.get(like.name)
            if found is None or like.subdtype is not None:
                raise UnsupportedDType("Kiln has no dtype like numpy's %s" % like, remedy=_REMEDIES.get(like.kind, ""))
            _BY_NUMPY[like] = found
        return found
    if isinstance(like, str) and (like in BY_NAME or like in _BY_NUMPY_NAME):
        return BY_NAME.get(like) or _BY_NUMPY_NAME[like]
    if isinstance(like, int) and not isinstance(like, bool) and like in BY_NUMBER:
        return BY_NUMBER[like]
    if isinstance(like, type) and like in _BY_PYTHON:
        return _BY_PYTHON[like]
    try:
        if like is None or like is type(None):  # float64, to numpy
            raise TypeError
        return dtype(np.dtype(like))
    except TypeError as error:
        if isinstance(error, UnsupportedDType):
            raise
        raise UnsupportedDType("%r names no dtype" % (like,), remedy="one of " + ", ".join(BY_NAME)) from None


def chosen(function: str, like: Any) -> DType:
    """As dtype(), where a number is no dtype of the protocol's but a size that should stand within the shape."""
    if isinstance(like, (int, np.integer)):
        raise DTypeError("%s: %r is no dtype" % (function, like), remedy="sizes are one argument: (2, 3)")
    return dtype(like)


def integer(value: Any, what: str) -> int:
    """An int, of Python or numpy; DTypeError for everything else: no fraction is cut, no text read."""
    try:
        return operator.index(value)
    except TypeError:
        traced = "give it as a static argument, for which a function is traced anew" if hasattr(value, "graph") else ""
        raise DTypeError("%s is an integer, not %r" % (what, value), remedy=traced) from None


def position(value: Any, what: str) -> int:
    """The same, and no bool: where numpy takes a number for a place, it takes a bool for a mask."""
    if isinstance(value, (bool, np.bool_)):
        raise DTypeError("%s is an integer, not %r" % (what, value))
    return integer(value, what)


def integer64(value: Any, what: str) -> int:
    """The same, where the protocol has an int64; InvalidArgument for what is beyond it."""
    number = integer(value, what)
    if not -(1 << 63) <= number < 1 << 63:
        raise InvalidArgument("%s is an int64, not one of %d bits" % (what, number.bit_length()), code="BAD_ARGUMENT")
    return number


_REMEDIES = {
    "c": "send the real and the imaginary part as two arrays",
    "O": "make an array of numbers of it: np.asarray(x, dtype=np.float32)",
    "U": "encode text as uint8",
    "S": "view the bytes as uint8",
    "M": "view it as int64",
    "m": "view it as int64",
    "f": "cast it to float64",
    "V": "send each field as an array of its own",
}
