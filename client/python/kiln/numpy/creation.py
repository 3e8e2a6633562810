"""Arrays from numbers: zeros, full, arange, linspace, eye, asarray, …; in a jitted function part of its graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Optional

import numpy as np

from kiln.dtypes import dtype as dtype_of, int64
from kiln.elementwise import add, astype as _cast, equal, less
from kiln.errors import InvalidArgument
from kiln.functional import making
from kiln.functional.array import Array
from kiln.functional.eager import at_once, dispatched
from kiln.functional.held import Held
from kiln.functional.making import array
from kiln.functional.tracing import active
from kiln.interchange.dlpack import on_host
from kiln.movement import broadcast_to, reshape
from kiln.tensor import Tensor

if TYPE_CHECKING:
    from kiln.typing import DTypeLike, ShapeLike

_broadcast_to = dispatched(broadcast_to)


def _checked(device: Optional[str]) -> Optional[str]:
    """A traced function is on one device, which makes its arrays."""
    trace = active()
    if trace is not None and device not in (None, trace.device):
        raise InvalidArgument("a function on %s makes no arrays on %s" % (trace.device, device), code="BAD_ARGUMENT",
                              remedy="make it outside of the jitted function")  # fmt: skip
    return device


def _placed(x: Any, device: Optional[str]) -> Any:
    return x if _checked(device) is None or not isinstance(x, Array) else x.to_device(device)


def _in_graph(raw: Callable[..., Any]) -> Callable[..., Any]:
    """What makes a tensor of the trace that is active: at once, or as part of a jitted function."""

    def make(*args: Any, device: Optional[str] = None, **named: Any) -> Any:
        if active() is not None:
            _checked(device)
            return raw(*args, **named)
        return _placed(at_once(raw, args, named), device)

    make.__name__ = make.__qualname__ = raw.__name__
    return make


def asarray(obj: Any, /, *, dtype: DTypeLike = None, device: Optional[str] = None, copy: Optional[bool] = None) -> Array:
    """An array of numbers, of nested lists of them, or of an array here or there; with copy=True always another one."""
    if isinstance(obj, Tensor):
        _checked(device)
        return obj if dtype is None else obj.astype(dtype)
    if isinstance(obj, Held):
        same = (dtype is None or dtype_of(dtype) is obj.dtype) and device in (None, obj.device)
        if copy is False and not same:
            raise ValueError("asarray: another dtype or device is a copy")
        moved = _placed(obj if dtype is None else obj.astype(dtype), device)  # type: ignore[attr-defined]
        return moved.copy() if copy and moved is obj else moved
    if copy is False:
        raise ValueError("asarray: an array on a device is a copy of what is here")
    _checked(device)
    if isinstance(obj, (bytes, bytearray, memoryview)):
        obj = np.asarray(memoryview(obj))
    place = {} if active() is not None else {"device": device}
    if isinstance(obj, (np.ndarray, np.generic)) and dtype is not None:
        return array(obj, **place).astype(dtype)
    return array(obj, dtype, **place)


def astype(x: Any, dtype: DTypeLike, /, *, copy: bool = True, device: Optional[str] = None) -> Array:
    """x in another dtype; as arrays do not change, of its own dtype it is x itself."""
    return asarray(x, dtype=dtype, device=device)


def from_dlpack(x: Any, /, *, device: Optional[str] = None, copy: Optional[bool] = None) -> Array:
    """An array of what another package has; it comes through this machine's memory, so it is a copy."""
    if isinstance(x, Held):
        return asarray(x, device=device, copy=copy)
    if copy is False:
        raise ValueError("from_dlpack: an array on a device is a copy of what is here")
    return array(on_host(x), device=device)


def full(shape: ShapeLike, fill_value: Any, *, dtype: DTypeLike = None, device: Optional[str] = None) -> Array:
    if isinstance(fill_value, (Held, Tensor)):
        return _broadcast_to(asarray(fill_value, dtype=dtype, device=device), shape)
    return making.full(shape, fill_value, dtype, device=_checked(device))


def zeros(shape: ShapeLike, *, dtype: DTypeLike = None, device: Optional[str] = None) -> Array:
    return full(shape, 0, dtype=float if dtype is None else dtype, device=device)


def ones(shape: ShapeLike, *, dtype: DTypeLike = None, device: Optional[str] = None) -> Array:
    return full(shape, 1, dtype=float if dtype is None else dtype, device=device)


def empty(shape: ShapeLike, *, dtype: DTypeLike = None, device: Optional[str] = None) -> Array:
    """Zeros: no memory is seen that was another's."""
    return zeros(shape, dtype=dtype, device=device)


def full_like(x: Any, /, fill_value: Any, *, dtype: DTypeLike = None, device: Optional[str] = None) -> Array:
    client = x.client if isinstance(x, Held) and active() is None else None
    place = device or (x.device if client is not None else None)
    return making.full(x.shape, fill_value, x.dtype if dtype is None else dtype, client=client, device=_checked(place))


def zeros_like(x: Any, /, *, dtype: DTypeLike = None, device: Optional[str] = None) -> Array:
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Any, /, *, dtype: DTypeLike = None, device: Optional[str] = None) -> Array:
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x: Any, /, *, dtype: DTypeLike = None, device: Optional[str] = None) -> Array:
    return full_like(x, 0, dtype=dtype, device=device)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: DTypeLike = None, device: Optional[str] = None) -> Array:
    """start, start + step, … up to stop, which is not among them."""
    return _placed(making.arange(start, stop, step, dtype), device)


def linspace(start: Any, stop: Any, /, num: int = 50, *, dtype: DTypeLike = None, device: Optional[str] = None,
             endpoint: bool = True) -> Array:  # fmt: skip
    """`num` numbers at equal distances from start to stop, which is the last unless `endpoint` is False."""
    kind = np.dtype(np.float64) if dtype is None else dtype_of(dtype).numpy
    _checked(device)
    return array(
        np.linspace(start, stop, num, endpoint=endpoint, dtype=kind), **({"device": device} if active() is None else {})
    )


def _eye(rows: int, columns: int, k: int, dtype: Any) -> Any:
    graph = active()
    assert graph is not None
    down, across = reshape(graph.arange(rows, int64), (rows, 1)), reshape(graph.arange(columns, int64), (1, columns))
    return _cast(equal(add(down, k), across), dtype)


def _tri(rows: int, columns: int, k: int, dtype: Any) -> Any:
    graph = active()
    assert graph is not None
    down, across = reshape(graph.arange(rows, int64), (rows, 1)), reshape(graph.arange(columns, int64), (1, columns))
    return _cast(less(across, add(down, k + 1)), dtype)


def _diagonal(rows: int, columns: int, k: int) -> int:
    """The number of a diagonal, or of the nearest outside of the matrix."""
    return max(-rows - 1, min(k, columns + 1))


def eye(
    n_rows: int, n_cols: Optional[int] = None, /, *, k: int = 0, dtype: DTypeLike = None, device: Optional[str] = None
) -> Array:
    """Ones on the k-th diagonal, zeros elsewhere."""
    columns = n_rows if n_cols is None else n_cols
    return _in_graph(_eye)(n_rows, columns, _diagonal(n_rows, columns, k), dtype_of(float if dtype is None else dtype), device=device)


def identity(n: int, dtype: DTypeLike = None) -> Array:
    return eye(n, dtype=dtype)


def tri(
    n_rows: int, n_cols: Optional[int] = None, /, k: int = 0, *, dtype: DTypeLike = None, device: Optional[str] = None
) -> Array:
    """Ones on the k-th diagonal and below."""
    columns = n_rows if n_cols is None else n_cols
    return _in_graph(_tri)(n_rows, columns, _diagonal(n_rows, columns, k), dtype_of(float if dtype is None else dtype), device=device)
