"""What a function written with jax.numpy takes, as a trace sees it, and what it gives.

A leaf is a number, an array (numpy's, jax's, or on a device) or jax's random keys; a key's words are what goes
to the device, and what comes back.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import jax
import numpy as np

from kiln import elementwise as ops
from kiln.buffers import Buffer
from kiln.dtypes import dtype as dtype_of
from kiln.errors import UnsupportedDType
from kiln.functional.held import Held
from kiln.jax.keys import words_of
from kiln.jax.table import Keys
from kiln.sharding import Shards
from kiln.value import Value


class Type(NamedTuple):
    """Of a leaf, as a key: jax's dtype and shape of it, and whether it is a Python number's."""

    dtype: Any
    shape: Tuple[int, ...]
    weak: bool

    @property
    def aval(self) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(self.shape, self.dtype, weak_type=self.weak)


def refuse(leaf: Any, where: str) -> UnsupportedDType:
    """What is raised for what is no leaf."""
    return UnsupportedDType("%s is a %s, and no array, number or tree of them" % (where, type(leaf).__name__),
                            code="BAD_ARGUMENT", remedy="name it in static_argnums")  # fmt: skip


def taken(leaf: Any) -> Optional[Tuple[Any, Type]]:
    """What a program is given for a leaf, and its type; None for what is no leaf. UnsupportedDType for complex ones,
    OverflowError for a Python int that its dtype does not hold."""
    if isinstance(leaf, (Held, Buffer, Shards, Value)):
        kind = dtype_of(leaf.dtype).numpy
        return leaf, Type(jax.dtypes.canonicalize_dtype(kind), tuple(leaf.shape), False)
    if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(leaf)), Type(leaf.dtype, leaf.shape, False)
    weak = type(leaf) in (bool, int, float) or bool(getattr(leaf, "weak_type", False))
    if not weak and not isinstance(leaf, (np.ndarray, np.generic, jax.Array)):
        return None
    if type(leaf) is int:
        kind = jax.dtypes.canonicalize_dtype(np.int64)
        return np.asarray(leaf, kind), Type(kind, (), True)
    array = np.asarray(leaf)
    kind = jax.dtypes.canonicalize_dtype(array.dtype)
    dtype_of(kind)
    return array.astype(kind, copy=False), Type(kind, array.shape, weak)


def local(leaf: Any) -> Any:
    """A leaf for jax, which knows no array of ours."""
    return jax.numpy.asarray(leaf.numpy()) if isinstance(leaf, (Held, Shards)) else leaf


def entered(value: Any, kind: Type) -> Any:
    """A parameter as what the jaxpr takes."""
    if jax.dtypes.issubdtype(kind.dtype, jax.dtypes.extended):
        return Keys(tuple(value[..., word] for word in range(value.shape[-1])), kind.dtype)
    return ops.astype(value, kind.dtype)


def left(run: Any, values: Sequence[Any]) -> List[Any]:
    """Results as a trace has them: of keys their words."""
    return [run.lift(words_of(run, value) if isinstance(value, Keys) else value) for value in values]
