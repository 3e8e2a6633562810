"""Arrays that are made on a device, and in a traced function as part of its graph: kiln.array, zeros, arange, …

As numpy's, with numpy's dtypes. `client` is the current one if none is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from kiln import arrays
from kiln.buffers import Buffer
from kiln.dtypes import chosen, dtype as dtype_of
from kiln.functional.array import Array
from kiln.functional.current import current
from kiln.functional.eager import dispatched
from kiln.functional.held import Held, made
from kiln.functional.names import offer
from kiln.functional.tracing import active
from kiln.interchange.progress import Progress
from kiln.movement import stack
from kiln.tensor import Tensor

if TYPE_CHECKING:
    from kiln.client import Client
    from kiln.typing import DTypeLike, ShapeLike


def array(value: Any, dtype: DTypeLike = None, *, client: Optional[Client] = None, device: Optional[str] = None,
          progress: Optional[Progress] = None) -> Array:  # fmt: skip
    """An array on a device with numpy's dtype for `value`, or in another; a traced value or an array that is there is itself, a buffer is copied; `progress` follows
    what is sent (kiln/interchange/progress.py).

    Raises UnsupportedDType, FailedPrecondition without a client, ResourceExhausted where the device is full.
    """
    if isinstance(value, Tensor) or isinstance(value, Array) and device in (None, value.device) and client in (None, value.client):
        return value if dtype is None else value.astype(dtype)
    if isinstance(value, (list, tuple)) and any(isinstance(one, (Tensor, Array)) for one in value):
        return dispatched(stack)([array(one, dtype, client=client, device=device) for one in value])
    trace = active()
    if trace is not None:
        return trace.constant(value, dtype)
    client = current() if client is None else client
    if isinstance(value, Buffer) and value._connection is client._connection and device in (None, value.device):
        copied = made(client, value.copy())  # there, without coming here
        return copied if dtype is None else copied.astype(dtype)
    return made(client, client.buffer(value, dtype, device=device, progress=progress))


def full(shape: ShapeLike, value: Any, dtype: DTypeLike = None, *, client: Optional[Client] = None, device: Optional[str] = None) -> Array:
    """An array of one number; as numpy, of the number's dtype if none is given."""
    kind = chosen("full", dtype) if dtype is not None else dtype_of(np.asarray(value).dtype)
    trace = active()
    if trace is not None:
        return trace.full(shape, value, kind)
    client = current() if client is None else client
    buffer = client.empty(shape, kind, device=device)
    return made(client, buffer.fill(value) if buffer.size and any(arrays.element(value, kind)) else buffer)


def zeros(shape: ShapeLike, dtype: DTypeLike = "float64", *, client: Optional[Client] = None) -> Array:
    return full(shape, 0, dtype, client=client)


def ones(shape: ShapeLike, dtype: DTypeLike = "float64", *, client: Optional[Client] = None) -> Array:
    return full(shape, 1, dtype, client=client)


def zeros_like(x: Any, dtype: DTypeLike = None) -> Array:
    """Zeros of the shape of an array or a traced value, and of its dtype if none is given; where the array is."""
    return _full_like(x, 0, dtype)


def ones_like(x: Any, dtype: DTypeLike = None) -> Array:
    return _full_like(x, 1, dtype)


def _full_like(x: Any, value: Any, dtype: DTypeLike) -> Array:
    client, device = (x.client, x.device) if isinstance(x, Held) else (None, None)
    return full(x.shape, value, x.dtype if dtype is None else dtype, client=client, device=device)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: DTypeLike = None, *, client: Optional[Client] = None) -> Array:
    """numpy.arange, made on the device."""
    trace = active()
    if trace is not None:
        return trace.constant(np.arange(*((0, start) if stop is None else (start, stop)), step), dtype)
    client = current() if client is None else client
    return made(client, client.arange(start, stop, step, dtype))


offer({"zeros_like": zeros_like, "ones_like": ones_like})
