"""The format safetensors, read and written by the package of that name (kiln's extra `safetensors`).

It checks a file's header before anything of it is read. Its reader for numpy knows no bfloat16 before ml_dtypes and no
8-bit floats at all: their bytes are read from where the header, which it has checked, says.
"""

from __future__ import annotations

import contextlib
import json
import math
from typing import Any, Dict, Iterator, Optional, Sequence

import numpy as np

from kiln import dtypes
from kiln.dtypes import DType
from kiln.errors import DTypeError, InvalidArgument
from kiln.interchange.stored import Sources, Stored, Tensors, no_array

# What the format calls each dtype.
_DTYPES: Dict[str, DType] = {
    "BOOL": dtypes.bool_, "U8": dtypes.uint8, "I8": dtypes.int8, "U16": dtypes.uint16, "I16": dtypes.int16,
    "U32": dtypes.uint32, "I32": dtypes.int32, "U64": dtypes.uint64, "I64": dtypes.int64, "F16": dtypes.float16,
    "F32": dtypes.float32, "F64": dtypes.float64, "BF16": dtypes.bfloat16, "F8_E4M3": dtypes.float8_e4m3,
    "F8_E5M2": dtypes.float8_e5m2, "F8_E4M3FNUZ": dtypes.float8_e4m3_fnuz, "F8_E5M2FNUZ": dtypes.float8_e5m2_fnuz,
}  # fmt: skip


def _package() -> Any:
    try:
        import safetensors.numpy
    except ImportError:
        raise ImportError(
            "a .safetensors is read and written by the package safetensors: pip install safetensors"
        ) from None
    return safetensors


def write(path: str, sources: Sources, notes: Optional[Dict[str, str]] = None) -> None:
    """All arrays are in memory at once, as the package wants them; `notes` are texts beside them. DTypeError for what it
    does not hold."""
    package = _package()
    try:
        package.numpy.save_file({name: read() for name, read in sources.items()}, path, notes)
    except package.SafetensorError as error:
        raise DTypeError(
            "save: safetensors %s: %s" % (package.__version__, error), remedy="a newer one may hold it"
        ) from None


@contextlib.contextmanager
def opened(path: str) -> Iterator[Tensors]:
    package = _package()
    try:
        file = package.safe_open(path, framework="np")
    except package.SafetensorError as error:
        raise InvalidArgument("load: %s is no .safetensors: %s" % (path, error), code="BAD_ARGUMENT") from None
    with file:
        yield {name: _stored(file, path, name) for name in file.keys()}


def _stored(file: Any, path: str, name: str) -> Stored:
    row = file.get_slice(name)
    kind = _DTYPES.get(row.get_dtype())
    if kind is None:
        return Stored(0, no_array(path, name, "Kiln has no dtype like %s" % row.get_dtype()))
    shape = row.get_shape()
    if kind.numpy.isbuiltin == 2:
        return Stored(math.prod(shape) * kind.itemsize, lambda: _bytes(path, name, kind, shape))
    return Stored(math.prod(shape) * kind.itemsize, lambda: file.get_tensor(name))


def _bytes(path: str, name: str, kind: DType, shape: Sequence[int]) -> np.ndarray:
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        start, end = json.loads(file.read(size))[name]["data_offsets"]
        file.seek(start, 1)
        return np.frombuffer(file.read(end - start), kind.numpy).reshape(shape)
