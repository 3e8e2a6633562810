"""What a traced function takes: arrays here and on devices, Python's numbers, and states.

A leaf's spec is what a trace depends on: dtype and shape, of a number only its type. A number
is weak: in the graph it takes the dtype of what it meets.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from kiln.buffers import Buffer
from kiln.dtypes import BY_NUMBER, DType, bool_, dtype as dtype_of, float64, int64
from kiln.errors import InvalidArgument, UnsupportedDType
from kiln.functional.current import current
from kiln.functional.held import Held
from kiln.value import Value

NUMBERS = {float: float64, int: int64, bool: bool_}


def spec_of(leaf: Any) -> Any:
    """What a trace depends on; None for what is none of these kinds."""
    kind = type(leaf)
    if kind in NUMBERS:
        return kind
    if isinstance(leaf, Held):
        return leaf.spec
    if isinstance(leaf, (np.ndarray, np.generic)):
        return (dtype_of(leaf.dtype).number, leaf.shape)
    if isinstance(leaf, Buffer):
        return (leaf.dtype.number, leaf.shape)
    return getattr(leaf, "_state_spec", None)


def type_of(spec: Any) -> Tuple[DType, Tuple[int, ...], bool]:
    """(dtype, shape, whether it is weak)."""
    return (NUMBERS[spec], (), True) if spec in NUMBERS else (BY_NUMBER[spec[0]], spec[1], False)


def shown(spec: Any) -> str:
    """As a log has it: float32[2,3], or float for a number."""
    if isinstance(spec, type):
        return spec.__name__
    if spec[0] == "state":
        return "State(%s)" % ", ".join(map(shown, spec[2]))
    return "%s[%s]" % (BY_NUMBER[spec[0]].name, ",".join(map(str, spec[1])))


STATIC = "name it in static_argnums if the function is to be traced for it"
OUTSIDE = "let the function find it outside: lambda x: f(x, it)"  # of grad and vmap, which have no static arguments


def refuse(leaf: Any, where: str, remedy: str = STATIC) -> Exception:
    """What is raised for a leaf without a spec."""
    if isinstance(leaf, Value):
        return InvalidArgument("%s is a traced value, outside of the function that it was traced in" % where,
                               code="BAD_ARGUMENT", remedy="return it from the function")  # fmt: skip
    return UnsupportedDType("%s is a %s, and no array, number or tree of them" % (where, type(leaf).__name__),
                            code="BAD_ARGUMENT", remedy=remedy)  # fmt: skip


def place_of(leaves: Sequence[Any], client: Optional[Any]) -> Tuple[Any, str]:
    """Whose program it is, and its device: the first array's; without one the client's, or the current one's.

    InvalidArgument for arrays of two clients.
    """
    device = None
    for leaf in leaves:
        if isinstance(leaf, Held) or hasattr(leaf, "_state_spec"):
            if client is not None and leaf.client is not client:
                raise InvalidArgument("an array is of the client at %s, not of that at %s" %
                                      (leaf.client.target, client.target), code="BAD_ARGUMENT",
                                      remedy="read it with numpy() and send it there")  # fmt: skip
            client, device = leaf.client, device or leaf.device
    client = current() if client is None else client
    return client, device or client.device or client._connection.devices[0]


def exact(value: Any) -> Any:
    """A key of what is the same to a function and only that: 1, 1.0 and True are equal, and so are 0.0 and -0.0."""
    if isinstance(value, (tuple, frozenset)):
        return (type(value), (tuple if isinstance(value, tuple) else frozenset)(map(exact, value)))
    if isinstance(value, slice):
        return (slice, *map(exact, (value.start, value.stop, value.step)))
    return (type(value), repr(value) if isinstance(value, (float, complex, np.inexact)) else value)


def argument(leaf: Any, spec: Any) -> Any:
    """What a program takes for a leaf."""
    if isinstance(leaf, Held):
        return leaf.buffer
    return np.asarray(leaf, NUMBERS[spec].numpy) if spec in NUMBERS else leaf


def specs_of(leaves: List[Any], where: Any) -> List[Any]:
    """Of each leaf; where(place) says which one it is if it has none."""
    specs = [spec_of(leaf) for leaf in leaves]
    if None in specs:
        at = specs.index(None)
        raise refuse(leaves[at], where(at))
    return specs
