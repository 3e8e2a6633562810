"""Pickles: programs as graphs, always; arrays by value, where that is asked for.

    blob = pickle.dumps(program)        # its graph and options, compiled again where it is loaded
    with kiln.by_value():
        blob = pickle.dumps(weights)    # arrays, buffers and states, with their content

What is loaded is the current client's (kiln.current): connect before. An array is not pickled unasked because that
reads it, and a pickle of a model may be gigabytes.
"""

from __future__ import annotations

import contextlib
import contextvars
import sys
from typing import Any, Iterator, Optional

from kiln.functional.current import current
from kiln.v1 import kernel_service_pb2

_asked: "contextvars.ContextVar[bool]" = contextvars.ContextVar("kiln.by_value", default=False)


@contextlib.contextmanager
def by_value() -> Iterator[None]:
    """Within it arrays, buffers and states are pickled, each with a copy of its content; of this thread alone.

    They are loaded to the current client's device. Raises, where one is pickled, what reading it does.
    """
    before = _asked.set(True)
    try:
        yield
    finally:
        _asked.reset(before)


def asked() -> bool:
    """Whether arrays are to be pickled."""
    return _asked.get()


def by_name(one: Any) -> Optional[str]:
    """The name of what its module has under its own name, as __reduce__ gives it; None for what is not found so."""
    found: Any = sys.modules.get(one.__module__)
    name: str = getattr(one, "__qualname__", "")  # which a partial function has not
    for part in name.split("."):
        found = getattr(found, part, None)
    return name if found is one else None


# -- what a pickle calls when it is loaded: these names stay


def load_array(value: Any) -> Any:
    from kiln.functional.making import array

    return array(value)


def load_buffer(value: Any) -> Any:
    return current().buffer(value)


def load_state(value: Any) -> Any:
    from kiln.functional.state import State

    return State(value)


def load_program(graph: bytes, options: bytes, device: str) -> Any:
    """Compiled with the options that it had. Raises what compile() does, FailedPrecondition without a client."""
    client = current()
    request = kernel_service_pb2.CompileRequest(device=device or client.device)
    request.graph.ParseFromString(graph)
    request.options.ParseFromString(options)
    return client._compiled(request)
