"""What Python and numpy do with an object unasked: copy it, pickle it, look into it.

A handle names what is elsewhere, on a device or in a process of its own. A second handle of
the same memory would free it twice, a pickled one means nothing to who reads it, and a value
that is not here is neither true nor false. So each of these is what it can be, or a TypeError.
"""

from __future__ import annotations

from typing import Any, Callable, ClassVar, Dict, Optional

from kiln.interchange import pickled


class OfItsProcess:
    """Is not pickled, unless it says how; neither is what holds it."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        found = self._pickled()
        if found is None:
            name = type(self).__name__
            article = "an" if name[0] in "AEIO" else "a"
            raise TypeError("%s %s belongs to the process that made it: %s" % (article, name, self._instead()))
        return found

    def _pickled(self) -> Any:
        """What __reduce__ gives, of what is pickled; None where it is not."""
        return None

    def _instead(self) -> str:
        return "connect there, too"


class Single(OfItsProcess):
    """Of which there is one: a copy is itself."""

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Dict[int, Any]) -> Any:
        return self


class OnDevice(OfItsProcess):
    """Whose elements are on a device: copied there, and not looked at unasked."""

    def _instead(self) -> str:
        return "pickle its numpy(), or by value, in `with kiln.by_value():`"

    # What loads a pickle of its content; of some there is none.
    _load: ClassVar[Optional[Callable[[Any], Any]]] = None

    def _pickled(self) -> Any:
        load = type(self)._load
        return (load, (self.numpy(),)) if load is not None and pickled.asked() else None  # type: ignore[attr-defined]

    def __copy__(self) -> Any:
        return self.copy()  # type: ignore[attr-defined]

    def __deepcopy__(self, memo: Dict[int, Any]) -> Any:
        return self.copy()  # type: ignore[attr-defined]

    def __bool__(self) -> bool:
        raise TypeError("whether a %s is true is on the device: ask its numpy(), or `is None`" % type(self).__name__)

    def __contains__(self, value: Any) -> bool:
        raise TypeError("what is in a %s is on the device: look in its numpy()" % type(self).__name__)


class Awaited(OnDevice):
    """The same, where numpy() and copy() are awaited."""

    def __copy__(self) -> Any:
        raise TypeError("copying a %s takes a call: `await x.copy()`" % type(self).__name__)

    def __deepcopy__(self, memo: Dict[int, Any]) -> Any:
        return self.__copy__()

    def __array__(self, *args: Any, **named: Any) -> Any:
        raise TypeError("reading a %s takes a call: `await x.numpy()`" % type(self).__name__)

    def __iter__(self) -> Any:
        raise TypeError("reading a %s takes a call: `await x.numpy()`" % type(self).__name__)
