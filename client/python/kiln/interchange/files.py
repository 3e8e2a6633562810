"""Files of named arrays: kiln.save and kiln.load.

    kiln.save("model.safetensors", {"w": w, "b": b})
    weights = kiln.load("model.safetensors")

The suffix says which kind a file is. A .npz is numpy's, as np.load reads it; a .safetensors (the package's of that name)
holds bfloat16 and floats of 8 bits, too. Neither is a pickle, and nothing in one is run. Files of the server's own machine
are Client.load's.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import Any, Callable, ContextManager, Dict, Iterator, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np

from kiln import arrays
from kiln.buffers import Buffer
from kiln.errors import InvalidArgument, NotFound
from kiln.functional.array import Array
from kiln.functional.held import Held
from kiln.functional.making import array
from kiln.interchange import npz_file, safetensors_file
from kiln.interchange.progress import Progress, Several
from kiln.interchange.stored import Sources, Tensors

Path = Union[str, "os.PathLike[str]"]


class Kind(NamedTuple):
    """Of file."""

    write: Callable[[str, Sources], None]
    opened: Callable[[str], ContextManager[Tensors]]


KINDS = {
    ".npz": Kind(npz_file.write, npz_file.opened),
    ".safetensors": Kind(safetensors_file.write, safetensors_file.opened),
}


def _kind(function: str, path: Path) -> Kind:
    suffix = os.path.splitext(os.fspath(path))[1]
    if suffix not in KINDS:
        said = "%s: path is %r, whose suffix is none of %s" % (function, os.fspath(path), ", ".join(KINDS))
        raise InvalidArgument(said, code="BAD_ARGUMENT", remedy="np.save and np.load are for one array without a name")
    return KINDS[suffix]


def save(path: Path, values: Mapping[str, Any], *, progress: Optional[Progress] = None) -> None:
    """Writes arrays by name to a file; there is the whole file at the end, or what was there before.

    path      ends with .npz or .safetensors
    values    a dict of arrays, here or on a device
    progress  follows the bytes that are read from devices: progress(done, total), or tqdm's update

    Raises InvalidArgument for another suffix or a name that is no text, DTypeError for what the kind of file does not
    hold (an .npz no bfloat16), ImportError without the package safetensors, OSError where the file cannot be written.
    """
    kind = _kind("save", path)
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise InvalidArgument(
            "save: values is a dict of arrays by name, not %s" % type(values).__name__, code="BAD_ARGUMENT"
        )
    watched = Several(progress, sum(value.nbytes for value in values.values() if isinstance(value, (Held, Buffer))))

    def reader(value: Any) -> Callable[[], np.ndarray]:
        if isinstance(value, (Held, Buffer)):
            return lambda: value.numpy(progress=watched.each())  # type: ignore[union-attr]
        return lambda: arrays.host_array(value)

    with replacing(path) as name:
        kind.write(name, {name: reader(value) for name, value in values.items()})


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[str]:
    """A file beside `path`, which takes its place at the end."""
    whole = os.path.abspath(os.fspath(path))
    handle, name = tempfile.mkstemp(prefix=".kiln-", suffix=os.path.splitext(whole)[1], dir=os.path.dirname(whole))
    os.close(handle)
    try:
        yield name
        with contextlib.suppress(OSError):  # as open() makes one; where there was one, as it was
            os.chmod(name, os.stat(whole).st_mode & 0o777 if os.path.exists(whole) else 0o666 & ~_umask())
        os.replace(name, whole)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def load(path: Path, names: Optional[Sequence[str]] = None, *, client: Optional[Any] = None,
         device: Optional[str] = None, progress: Optional[Progress] = None) -> Dict[str, Array]:  # fmt: skip
    """Arrays on a device, by name: those of `names`, or all of a file.

    path            ends with .npz or .safetensors
    client, device  where they go; default: the current client, and its device
    progress        follows the bytes that are sent: progress(done, total), or tqdm's update

    One array after the other is read, and none that is not asked for. Raises InvalidArgument for another suffix, and for
    a file that is not of its kind or holds what is no array of numbers (pickles among them); NotFound for a name that is
    not there; OSError for a file that cannot be read; ImportError without the package safetensors.
    """
    kind = _kind("load", path)
    if isinstance(names, str):
        raise TypeError("load: names is a list of names")
    with kind.opened(os.fspath(path)) as tensors:
        wanted = list(tensors) if names is None else list(names)
        for name in wanted:
            if name not in tensors:
                raise NotFound("load: %s holds no %r" % (os.fspath(path), name), code="BAD_ARGUMENT",
                               remedy="it holds " + (", ".join(tensors) or "nothing"))  # fmt: skip
        watched = Several(progress, sum(tensors[name].nbytes for name in wanted))
        return {
            name: array(tensors[name].read(), client=client, device=device, progress=watched.each()) for name in wanted
        }
