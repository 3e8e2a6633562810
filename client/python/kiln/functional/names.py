"""numpy's functions by name: which of the package's stands for one of them."""

from __future__ import annotations

import inspect
from typing import Any, Dict, Optional

_OURS: Dict[str, Any] = {}
# Of numpy.linalg, for traced values: of arrays numpy computes these itself, and raises where a matrix has no answer.
_LINALG: Dict[str, Any] = {}
_FFT: Dict[str, Any] = {}
# numpy's function of this name is not ours, but of other axes, or of other results.
_APART = {"trace", "diagonal", "divmod", "select", "astype", "stack"}
# Of numpy's functions that write, where they do; of those in Python their signatures tell, too.
_WRITTEN = {"copyto": (0, "dst"), "fill_diagonal": (0, "a"), "place": (0, "arr"), "put": (0, "a"), "put_along_axis": (0, "arr"),
            "putmask": (0, "a"), "dot": (2, "out"), "concatenate": (2, "out")}  # fmt: skip
# What a ufunc's method is; numpy has it along the first axis, unless another is named.
_METHODS = {("add", "reduce"): "sum", ("multiply", "reduce"): "prod", ("maximum", "reduce"): "max", ("minimum", "reduce"): "min",
            ("logical_and", "reduce"): "all", ("logical_or", "reduce"): "any", ("add", "accumulate"): "cumsum",
            ("multiply", "accumulate"): "cumprod"}  # fmt: skip
# What a ufunc is called here, if not by its own name.
_UFUNCS = {"true_divide": "divide"}


def offer(functions: Dict[str, Any]) -> None:
    """Functions which numpy's of the same names then are, for arrays and traced values."""
    _OURS.update((name, one) for name, one in functions.items() if name not in _APART or name not in _OURS)


def offer_linalg(functions: Dict[str, Any]) -> None:
    """The same of numpy.linalg's, for traced values."""
    _LINALG.update(functions)


def offer_fft(functions: Dict[str, Any]) -> None:
    """The same of numpy.fft's, for arrays and traced values."""
    _FFT.update(functions)


def for_ufunc(ufunc: Any, method: str, named: Any) -> Optional[Any]:
    """Ours for a call of a ufunc or of a method of it, without numpy's options; None if there is none."""
    name = _UFUNCS.get(ufunc.__name__, ufunc.__name__)
    if method == "__call__":
        return None if named else _OURS.get(name)
    if method == "outer":
        ours = None if named else _OURS.get(name)
        return None if ours is None else lambda a, b: ours(a.reshape(a.shape + (1,) * b.ndim), b)
    ours = _OURS.get(_METHODS.get((name, method), ""))
    if ours is None or not set(named) <= {"axis", "keepdims"}:
        return None
    return lambda x: ours(x, **{"axis": 0, **named})


def written(function: Any, args: Any, kwargs: Any) -> Any:
    """What a call of a function of numpy's writes to, or None."""
    place, name = _WRITTEN.get(function.__name__, (len(args), "out"))
    if place < len(args) or name in kwargs:
        return args[place] if place < len(args) else kwargs[name]
    try:
        return inspect.signature(function).bind(*args, **kwargs).arguments.get("out")
    except (TypeError, ValueError):
        return None


def for_function(function: Any, args: Any, kwargs: Any, traced: bool = False) -> Optional[Any]:
    """Ours of the same name, if it takes these arguments: numpy's may have more parameters."""
    name = function.__name__
    if name in ("shape", "ndim", "size") and len(args) == 1 and not kwargs:
        return lambda x: getattr(x, name)
    known = {"numpy": _OURS, "numpy.linalg": _LINALG if traced else {}, "numpy.fft": _FFT}.get(function.__module__, {})
    ours = known.get(name)
    if ours is not None:
        try:
            inspect.signature(ours).bind(*args, **kwargs)
        except TypeError:
            return None
    return ours
