"""Between numpy arrays and bytes as the protocol has them: row-major, little-endian, no padding."""

from __future__ import annotations

import math
import sys
from typing import Any, Callable, Optional, Sequence, Tuple

import numpy as np

from kiln.dtypes import DType, dtype as dtype_of, integer
from kiln.errors import DTypeError, ShapeError
from kiln.interchange.dlpack import on_host

Shape = Tuple[int, ...]


def host_array(value: Any, dtype: Optional[DType] = None) -> np.ndarray:
    """`value` as a row-major, little-endian array of a dtype that Kiln has.

    An array that is so already comes back itself; one with strides, or of the other
    byte order, is copied once. Lists and Python numbers become arrays of `dtype`, or
    of numpy's choice without one (and fractions do not become integers). UnsupportedDType
    for dtypes that Kiln has not.
    """
    array = _asarray(value)
    if not isinstance(value, (np.ndarray, np.generic)) and dtype is not None:
        # What has a fraction becomes no integer unasked: the dtypes then differ.
        if dtype.is_float or array.dtype.kind != "f":
            array = np.asarray(value, dtype=dtype.numpy)
    wanted = dtype_of(array.dtype).numpy
    if sys.byteorder == "big" and wanted.itemsize > 1:
        wanted = wanted.newbyteorder("<")
    if array.dtype == wanted and array.flags.c_contiguous:
        return array
    # asarray keeps a zero-rank array one, unlike ascontiguousarray.
    return np.asarray(array, dtype=wanted, order="C")


def _asarray(value: Any) -> np.ndarray:
    """numpy's; what is of a dtype that numpy has not, as torch's bfloat16, comes by DLPack."""
    try:
        return np.asarray(value)
    except TypeError:
        if not hasattr(value, "__dlpack__"):
            raise
    return on_host(value)


def element(value: Any, dtype: DType) -> bytes:
    """One element's bytes. Floats are rounded to the nearest of `dtype`; DTypeError where it has no such value.

    So 2.0 is an integer and 2.7 is none, 300 is no uint8, and 1e40 no float32. ShapeError for arrays.
    """
    array = np.asarray(value)
    if array.ndim:
        raise ShapeError("one value was wanted, not an array of %s" % (array.shape,), remedy="write takes arrays")
    if not isinstance(value, int):  # which may be greater than any of numpy's
        dtype_of(array.dtype)
    try:
        with np.errstate(all="ignore"):
            cast = array.astype(dtype.numpy)
        lost = math.isfinite(array) and not math.isfinite(cast) if dtype.is_float else cast.item() != array.item()
    except OverflowError:
        lost = True
    if lost:
        shown = "an integer of %d bits" % value.bit_length() if array.dtype == object else repr(value)
        raise DTypeError("%s does not hold %s" % (dtype.name, shown))
    return cast.tobytes()


def byte_view(array: np.ndarray) -> memoryview:
    """The bytes of a contiguous array, uncopied."""
    return array.reshape(-1).view(np.uint8).data


def from_bytes(data: bytes, dtype: DType, shape: Sequence[int]) -> np.ndarray:
    """A read-only array over `data`, uncopied."""
    return np.frombuffer(data, dtype=dtype.numpy).reshape(tuple(shape))


def of_device(read: Callable[[], np.ndarray], dtype: Any, copy: Optional[bool]) -> np.ndarray:
    """What numpy's `__array__` gives of memory on a device."""
    if copy is False:
        raise ValueError("it is on a device: an array of it is a copy")
    array = read()
    return array if dtype is None else array.astype(dtype)


def shape_of(shape: Any) -> Shape:
    """A shape from an int or a sequence of ints; ShapeError if one is negative, DTypeError if one is no integer."""
    try:
        sizes = tuple(shape)
    except TypeError:
        sizes = (shape,)
    result = tuple(integer(size, "a size") for size in sizes)
    if any(size < 0 for size in result):
        raise ShapeError("%s has a negative size" % (result,), remedy="sizes are 0 or more")
    return result


def count_of(shape: Sequence[int]) -> int:
    return math.prod(shape)
