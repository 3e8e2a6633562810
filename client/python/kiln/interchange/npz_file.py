"""numpy's .npz: a zip of .npy files, read and written with numpy's own reader and writer of these.

Without pickles, in both directions. No time is written, so equal arrays make equal files.
"""

from __future__ import annotations

import contextlib
import zipfile
from typing import Iterator, Tuple

import numpy as np

from kiln.errors import DTypeError, InvalidArgument, UnsupportedDType
from kiln.dtypes import dtype as dtype_of
from kiln.interchange.stored import Sources, Stored, Tensors, no_array

_END = ".npy"
_READ_HEADER = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def write(path: str, sources: Sources) -> None:
    """DTypeError for what numpy has no dtype of its own for: it would be read back as bytes without a meaning."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        for name, read in sources.items():
            array = read()
            if array.dtype.isbuiltin == 2:
                raise DTypeError("save: an .npz holds no %s, which %r is" % (array.dtype.name, name),
                                 remedy="a .safetensors holds it; or view it as integers")  # fmt: skip
            with file.open(zipfile.ZipInfo(name + _END), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


@contextlib.contextmanager
def opened(path: str) -> Iterator[Tensors]:
    try:
        file = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise InvalidArgument("load: %s is no .npz: %s" % (path, error), code="BAD_ARGUMENT") from None
    with file:
        yield {name: _stored(file, path, name, info) for name, info in map(_named, file.infolist())}


def _named(info: zipfile.ZipInfo) -> Tuple[str, zipfile.ZipInfo]:
    name = info.filename
    return (name[: -len(_END)] if name.endswith(_END) else name), info


def _stored(file: zipfile.ZipFile, path: str, name: str, info: zipfile.ZipInfo) -> Stored:
    """What its header says, if it is of numbers and as long as it says."""
    try:
        with file.open(info) as member:
            header = _READ_HEADER[np.lib.format.read_magic(member)]
            shape, _, kind = header(member)
            dtype_of(kind)
            nbytes = int(np.prod(shape, dtype=object)) * kind.itemsize
            if nbytes != info.file_size - member.tell():
                raise ValueError("it has %d bytes for %d" % (info.file_size - member.tell(), nbytes))
    except (KeyError, ValueError, UnsupportedDType, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        return Stored(0, no_array(path, name, str(error)))

    def read() -> np.ndarray:
        try:
            with file.open(info) as member:
                return np.asarray(np.lib.format.read_array(member, allow_pickle=False))
        except (ValueError, zipfile.BadZipFile) as error:  # a sum that is wrong
            return no_array(path, name, str(error))()

    return Stored(nbytes, read)
