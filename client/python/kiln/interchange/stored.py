"""What a file of named arrays is read and written as, whatever its kind."""

from __future__ import annotations

from typing import Callable, Mapping, NamedTuple

import numpy as np

from kiln.errors import InvalidArgument


class Stored(NamedTuple):
    """An array of a file: its bytes, and what reads it."""

    nbytes: int
    read: Callable[[], np.ndarray]


# By name, in the order in which they are written; each is asked for once.
Sources = Mapping[str, Callable[[], np.ndarray]]
Tensors = Mapping[str, Stored]


def no_array(path: str, name: str, why: str) -> Callable[[], np.ndarray]:
    """What raises why there is no array, when it is asked for."""

    def read() -> np.ndarray:
        raise InvalidArgument("load: %r of %s is no array of numbers: %s" % (name, path, why), code="BAD_ARGUMENT")

    return read
