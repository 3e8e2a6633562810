"""kiln.Array: an array on a device that computes, prints, and is read like numpy's.

    x = kiln.array([[1.0, 2.0], [3.0, 4.0]])
    print((x @ x.T).sum(axis=0), x[0], float(x[1, 1]))

An array never changes: operations make new ones, at once and without waiting (eager.py). Reading
- print, float(), if, numpy() - waits. Operators and methods are those of Tensor: the same function
works on arrays and where it is traced.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Iterator, Optional, Tuple

import numpy as np

from kiln import arrays, indexing
from kiln.dtypes import position
from kiln.errors import InvalidArgument, PlaceError
from kiln.functional import names
from kiln.functional.eager import dispatched
from kiln.functional.held import Held
from kiln.functional.standard import Standard
from kiln.functional.tracing import active
from kiln.functional.trees import PLAIN
from kiln.interchange.pickled import load_array
from kiln.interchange.progress import Progress
from kiln.interchange.shown import shown
from kiln.tensor import Tensor
from kiln.value import Value

if TYPE_CHECKING:

    from kiln.functional.computing import Computing

    class _Computing(Held, Computing):
        """Its operators and methods are Tensor's, and are put there below."""

else:
    _Computing = Held

_CHANGES = "an array does not change: make another with kiln.where, or keep a kiln.State"
# What Kiln's functions raise of arguments that numpy's of their names may take.
_REFUSED = (InvalidArgument, TypeError, ValueError, AttributeError, NotImplementedError)


class Array(Standard, _Computing):
    """Made by kiln.array and by functions. Raises BufferFreed once it was donated. Threads: any."""

    __slots__ = ()
    _load = staticmethod(load_array)
    __hash__ = None  # type: ignore[assignment]

    @property
    def ndim(self) -> int:
        """Axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Elements."""
        return arrays.count_of(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._buffer.nbytes

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    # -- to the host

    def numpy(self, *, progress: Optional[Progress] = None) -> np.ndarray:
        """A new numpy array of its content; waits for it. Raises what went wrong on the way to it."""
        return self.buffer.numpy(progress=progress)

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
        return arrays.of_device(self.numpy, dtype, copy)

    def item(self, *place: Any) -> Any:
        """One element as a Python number."""
        return self.numpy().item(*place)

    def tolist(self) -> Any:
        """Nested lists of Python's numbers; of shape (), a number."""
        return self.numpy().tolist()

    def __float__(self) -> float:
        return float(self.numpy())

    def __int__(self) -> int:
        return int(self.numpy())

    def __bool__(self) -> bool:
        return bool(self.numpy())

    def __index__(self) -> int:
        return operator.index(self.numpy())

    def __contains__(self, value: Any) -> bool:
        return bool(np.any(self == value))

    def __str__(self) -> str:
        return str(self.numpy())

    def __repr__(self) -> str:
        if self._gone:
            return "<%s %s, %s>" % (self.dtype.name, self.shape, self._gone)
        shown = np.array2string(self.numpy(), separator=", ", prefix="Array(")
        return "Array(%s, dtype=%s)" % (shown, self.dtype.name)

    def _repr_html_(self) -> str:
        return shown("Array", self.dtype.name, self.shape, self.device, lambda start, count: self.buffer.read(start, count))

    def __format__(self, spec: str) -> str:
        return format(self.item() if self.ndim == 0 else self.numpy(), spec)

    # -- parts

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array of shape () has no length")
        return self.shape[0]

    def __iter__(self) -> "Iterator[Array]":
        if not self.shape:
            raise TypeError("an array of shape () has no rows")
        return (self[row] for row in range(len(self)))

    def __getitem__(self, key: Any) -> "Array":
        """numpy's: numbers, slices, None, ..., arrays of places, and masks, which are read.

        Rows, and rows from:to, are the same memory. Raises PlaceError, an IndexError, for a number outside.
        """
        if type(key) is int or type(key) is slice and key.step in (None, 1) and self.shape:
            return self._rows(key)
        if isinstance(key, Array) and key.dtype == np.bool_ and not key.shape:
            key = bool(key)
        if indexing.is_truth(key):  # a mask without axes: all of it, or nothing
            return self.reshape((1,) + self.shape)[: int(key)]
        if _is_mask(key):
            return self._masked(key)
        if type(key) is tuple and 0 < len(key) <= self.ndim and all(type(one) is int for one in key):
            return self._element(key)
        given = key if isinstance(key, tuple) else (key,)
        keys = tuple(indexing.unmasked(self.shape, tuple(one.numpy() if _is_mask(one) and isinstance(one, Array) else one for one in given)))
        numbers = [at for at, one in enumerate(keys) if isinstance(one, (int, np.integer)) and not isinstance(one, bool)]
        places = [one for one in keys if isinstance(one, (Value, Held, np.ndarray, list))]
        if not places and len(numbers) == 1 and len(keys) <= self.ndim and all(isinstance(one, (int, np.integer, slice)) for one in keys):
            # A number comes with the call, so that there is one program for all.
            at = numbers[0]
            keys = keys[:at] + (np.asarray(self._inside(keys[at], at)),) + keys[at + 1 :]
        return _getitem(self, keys)

    def _inside(self, key: Any, axis: int) -> int:
        at, size = position(key, "an index"), self.shape[axis]
        if not -size <= at < size:
            raise PlaceError("index %d is outside an axis of %d" % (at, size), code="OUT_OF_BOUNDS")
        return at % size

    def _rows(self, key: Any) -> "Array":
        if isinstance(key, int):
            if not self.shape:
                raise PlaceError("1 indices into a tensor of rank 0")
            at = self._inside(key, 0)
            return self._view(self.shape[1:], at * arrays.count_of(self.shape[1:]))
        start, shape = self.buffer._rows(key)
        return self._view(shape, start)

    def _element(self, key: Tuple[int, ...]) -> "Array":
        start = 0
        for axis, one in enumerate(key):
            start = start * self.shape[axis] + self._inside(one, axis)
        rest = self.shape[len(key) :]
        return self._view(rest, start * arrays.count_of(rest))

    def _view(self, shape: Tuple[int, ...], start: int) -> "Array":
        self.shared = True
        return Array(self.client, self.buffer.view(shape, None, start), True)

    def _masked(self, mask: Any) -> "Array":
        where = np.asarray(mask)
        if not indexing.fits(where.shape, self.shape):
            raise PlaceError("a mask of %s for an array of %s" % (where.shape, self.shape))
        return self.reshape((-1,) + self.shape[where.ndim :])[np.flatnonzero(where)]

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError(_CHANGES)

    def copy(self) -> "Array":
        """Another array of the same content, in memory of its own."""
        return Array(self.client, self.buffer.copy())

    # -- numpy's functions

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        """np.exp(x) is kiln.exp(x), array + x is kiln.add(array, x); what Kiln has not numpy computes, here."""
        if method == "at" or any(isinstance(one, Array) for one in named.get("out", ())):
            raise TypeError(_CHANGES)
        ours = names.for_ufunc(ufunc, method, named)
        if ours is not None:
            try:
                return ours(*inputs)
            except _REFUSED:
                if active() is not None:
                    raise
        return getattr(ufunc, method)(*map(_on_host, inputs), **{name: _on_host(value) for name, value in named.items()})

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if isinstance(names.written(function, args, kwargs), Array):
            raise TypeError(_CHANGES)
        ours = names.for_function(function, args, kwargs)
        if ours is not None:
            try:
                return ours(*args, **kwargs)
            except _REFUSED:
                if active() is not None:
                    raise
        return function(*map(_on_host, args), **{name: _on_host(value) for name, value in kwargs.items()})


PLAIN.add(Array)

# -- operators and methods are Tensor's

_getitem = dispatched(indexing.getitem)
_OWN = set(vars(Array)) | {"slot", "tag", "__module__", "__doc__", "__init__", "_no_number"}


def _operator(name: str, raw: Any) -> Any:
    there = dispatched(raw)
    if name not in ("__eq__", "__ne__"):
        return there
    return lambda self, other: NotImplemented if other is None else there(self, other)


for _name, _raw in vars(Tensor).items():
    if _name not in _OWN and callable(_raw):
        setattr(Array, _name, _operator(_name, _raw))
Array.T = property(dispatched(Tensor.T.fget))  # type: ignore
Array.mT = property(dispatched(Tensor.mT.fget))  # type: ignore
Array.ravel = Array.flatten  # type: ignore[attr-defined]


def _on_host(value: Any) -> Any:
    if isinstance(value, Array):
        return value.numpy()
    return type(value)(map(_on_host, value)) if type(value) in (list, tuple) else value


def _is_mask(key: Any) -> bool:
    return isinstance(key, (Held, np.ndarray)) and key.dtype == np.bool_ and bool(key.shape)
