"""DLPack: memory that another package of this process reads without asking whose it is, and the other way round.

    np.from_dlpack(x), torch.from_dlpack(x), jax.dlpack.from_dlpack(x)     # x: kiln.Array, kiln.Buffer
    kiln.from_dlpack(torch.ones(3))

A device's memory is the server's, so what goes out is a copy in the host's memory. Where the server shares memory with
this process it writes a large one there itself, and nothing is copied on this side. What comes in is sent from where
it is; numpy reads it in place.

numpy has no bfloat16 and no float of 8 bits, and refuses a capsule that says so. Such a capsule is made one of
integers, by the three fields of its DLTensor that name the dtype, and the array is viewed as what it was.
"""

from __future__ import annotations

import ctypes
from typing import Any, Dict, Optional, Tuple

import numpy as np

from kiln import dtypes
from kiln.dtypes import DType
from kiln.errors import InvalidArgument, KilnError

# DLPack's numbers of memory that the host reads: its own, and that which CUDA and ROCm have pinned or share with it.
HOST = 1
_READABLE = {HOST, 3, 11, 13}
# Its numbers of the dtypes that numpy has not, and of bool, which its reader knows since 1.25; all others it knows.
# Those of integers without a sign are 1.
_CODES: Dict[int, DType] = {
    6: dtypes.bool_, 4: dtypes.bfloat16, 10: dtypes.float8_e4m3, 11: dtypes.float8_e4m3_fnuz, 12: dtypes.float8_e5m2,
    13: dtypes.float8_e5m2_fnuz,
}  # fmt: skip
_UNSIGNED = 1
# Bytes from which memory that is shared for one array is worth the call that shares it.
_LARGE = 4 << 20


class _Tensor(ctypes.Structure):
    """DLTensor, of dlpack.h."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    ]


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _tensor_of(capsule: Any) -> _Tensor:
    """What a capsule of the kind that everybody reads holds: DLManagedTensor begins with its DLTensor."""
    return _Tensor.from_address(_pointer(capsule, b"dltensor"))


class _As:
    """A capsule, for numpy's from_dlpack to take."""

    def __init__(self, capsule: Any):
        self._capsule = capsule

    def __dlpack__(self, **named: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (HOST, 0)


# -- in


def on_host(x: Any) -> np.ndarray:
    """What another package has, as an array of numpy's: a view of its memory.

    Raises TypeError for what has no __dlpack__, InvalidArgument for memory that the host does not read.
    """
    if isinstance(x, np.ndarray):
        return x  # one that is only to be read is no capsule of the older kind
    if not hasattr(x, "__dlpack__") or not hasattr(x, "__dlpack_device__"):
        raise TypeError("from_dlpack takes an array of a package that knows DLPack, not a %s" % type(x).__name__)
    kind, number = x.__dlpack_device__()
    if int(kind) not in _READABLE:
        where = "of DLPack's kind %d, number %d" % (kind, number)
        raise InvalidArgument("from_dlpack: x is in the memory of a device (%s)" % where, code="BAD_ARGUMENT",
                              remedy="copy it to the host first, as torch's x.cpu() does")  # fmt: skip
    capsule = x.__dlpack__()
    tensor = _tensor_of(capsule)
    narrow = _CODES.get(tensor.code)
    if narrow is None:
        return np.from_dlpack(_As(capsule))  # type: ignore[arg-type]
    if tensor.lanes != 1 or tensor.bits != 8 * narrow.itemsize:
        raise InvalidArgument("from_dlpack: x has %d numbers of %d bits in an element" % (tensor.lanes, tensor.bits),
                              code="BAD_ARGUMENT")  # fmt: skip
    tensor.code = _UNSIGNED
    return np.from_dlpack(_As(capsule)).view(narrow.numpy)  # type: ignore[arg-type]


# -- out


class Exported:
    """Of what has `dtype`, `shape` and a buffer to read: DLPack's two methods."""

    __slots__ = ()

    def _exported(self) -> Any:
        """The Buffer whose content goes out."""
        raise NotImplementedError

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
                   copy: Optional[bool] = None) -> Any:  # fmt: skip
        """A capsule of a copy of its content in the host's memory. BufferError where it should be elsewhere, or none."""
        if copy is False:
            raise BufferError("it is on a device: what another package sees of it is a copy")
        if dl_device is not None and tuple(map(int, dl_device)) != (HOST, 0):
            raise BufferError("an array is exported to the host's memory, not to the device %s" % (dl_device,))
        buffer = self._exported()
        array = read(buffer)
        code = next((code for code, kind in _CODES.items() if kind is buffer.dtype), None)
        if code is None:
            return array.__dlpack__()
        capsule = array.view("u%d" % array.itemsize).__dlpack__()
        _tensor_of(capsule).code = code
        return capsule

    def __dlpack_device__(self) -> Tuple[int, int]:
        """The host's memory, whichever device it is on: that is where its copy goes."""
        return (HOST, 0)


def read(buffer: Any) -> np.ndarray:
    """A buffer's content in an array; a large one in memory that the server writes, where it shares any."""
    shared = buffer._connection.shared_memory
    if shared is not None and buffer.nbytes >= _LARGE:
        try:
            array: np.ndarray = shared.empty(buffer.shape, buffer.dtype.numpy)
        except (KilnError, OSError):  # as much as it shares is in use
            return buffer.numpy()  # type: ignore[no-any-return]
        buffer.read_into(array.reshape(-1).view(np.uint8))
        return array
    return buffer.numpy()  # type: ignore[no-any-return]
