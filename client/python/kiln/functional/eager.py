"""The package's functions on arrays: each call a program, which is traced and compiled once for its kind.

dispatched(kiln.elementwise.add) adds tensors within a graph, and arrays at once. A chain of
them is commands of one stream, and waits for nothing until something is read.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

import numpy as np

from kiln.dtypes import dtype as dtype_of
from kiln.functional import leaves as leaf_kinds
from kiln.functional.held import Held
from kiln.functional.kept import of_client
from kiln.functional.traced import trace
from kiln.functional.trees import flatten_call, unflatten
from kiln.value import Value

# Functions whose numbers come with the call: one program for all of them.
_NUMERIC = {"add", "subtract", "multiply", "divide", "maximum", "minimum", "less", "greater", "less_equal",
            "greater_equal", "equal", "not_equal", "where", "clip"}  # fmt: skip
_NUMERIC |= {"floor_divide", "remainder", "fmod", "copysign", "nextafter", "hypot", "atan2", "logaddexp", "logaddexp2", "heaviside",
             "isclose", "allclose"}  # fmt: skip
_NUMERIC |= {"__%s%s__" % (r, name) for name in ("add", "sub", "mul", "truediv", "floordiv", "mod") for r in ("", "r")}
_NUMERIC |= {"__%s__" % name for name in ("lt", "gt", "le", "ge", "eq", "ne")}
# Functions of numbers, of which those of floats come with the call; integers among them are sizes.
_FLOATS = {"uniform", "bernoulli", "searchsorted", "select", "truncated_normal", "gamma", "beta", "poisson"}
# Functions of operands alone: a list is an array to them, and numpy's numbers have their dtype.
_OPERANDS = _NUMERIC | {"power", "pow", "divmod", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "logical_and",
                        "logical_or", "logical_xor", "matmul", "dot", "einsum", "__matmul__", "__rmatmul__"}  # fmt: skip
_OPERANDS |= {"append", "digitize", "isin", "interp", "convolve", "correlate", "vdot", "cov", "corrcoef"}
_OPERANDS |= {"__%s%s__" % (r, name) for name in ("pow", "and", "or", "xor", "lshift", "rshift") for r in ("", "r")}
# Functions of several arrays, in a list or a tuple.
_SEVERAL = {"stack", "concatenate", "concat", "vstack", "hstack", "dstack", "column_stack"}
# Functions of a key and parameters, which are operands as far as this says: lists are arrays there.
_PARAMETERS = {"categorical": {1: "logits"}, "truncated_normal": {1: "lower", 2: "upper"}, "gamma": {1: "a"},
               "beta": {1: "a", 2: "b"}, "dirichlet": {1: "alpha"}, "poisson": {1: "lam"},
               "multivariate_normal": {1: "mean", 2: "cov"}}  # fmt: skip
_NUMBERS = (int, float, np.generic)

# Kinds of operations that one client keeps.
MOST = 4096


def dispatched(raw: Callable[..., Any], here: Optional[Callable[..., Any]] = None) -> Callable[..., Any]:
    """A function of tensors as one of arrays, too; tensors and arrays may meet where a function is traced.

    `here`, of the function's name, its arguments and those by name, is what computes some calls of arrays without a
    program; None of the others.
    """

    @functools.wraps(raw)
    def function(*args: Any, **named: Any) -> Any:
        if raw.__name__ in _OPERANDS:
            args = tuple(np.asarray(one) if type(one) in (list, tuple) and _look(one, None, False)[0] is None else one for one in args)
        parameters = _PARAMETERS.get(raw.__name__)
        if parameters is not None:
            args = tuple(_whole(one) if at in parameters else one for at, one in enumerate(args))
            named = {name: _whole(one) if name in parameters.values() else one for name, one in named.items()}
        graph, held = _look(args, None, False)
        if named:
            graph, held = _look(named.values(), graph, held)
        if graph is None:
            if not held and args and type(args[0]) in (list, tuple) and args[0] and (raw.__name__ in _SEVERAL or type(args[0]) is list):
                first = [np.asarray(one) for one in args[0]] if raw.__name__ in _SEVERAL else np.asarray(args[0])
                args, held = (first, *args[1:]), True
            elif args and isinstance(args[0], _NUMBERS) and all(isinstance(one, _NUMBERS) for one in (*args, *named.values())):
                at = next((at for at, one in enumerate(args) if raw.__name__ in _OPERANDS and isinstance(one, np.generic)), 0)
                args, held = (*args[:at], np.asarray(args[at]), *args[at + 1 :]), True
            found = here(raw.__name__, args, named) if held and here is not None else None
            if found is not None:
                return found
            return at_once(raw, args, named) if held else raw(*args, **named)
        if held:
            args, named = _lifted(graph, args), dict(zip(named, _lifted(graph, named.values())))
        return raw(*args, **named)

    return function


def _whole(value: Any) -> Any:
    """A list of numbers as an array."""
    return np.asarray(value) if type(value) in (list, tuple) and _look(value, None, False) == (None, False) else value


def _look(values: Iterable[Any], graph: Optional[Any], held: bool) -> Tuple[Optional[Any], bool]:
    """The graph of a tensor among values, or in a list of them; and whether there is an array, here or on a device."""
    for value in values:
        if isinstance(value, Value):
            graph = value.graph
        elif isinstance(value, (Held, np.ndarray, np.generic)):
            held = True
        elif type(value) is list or type(value) is tuple:
            graph, held = _look(value, graph, held)
    return graph, held


def _lifted(graph: Any, values: Iterable[Any]) -> Tuple[Any, ...]:
    return tuple(value._in_graph(graph) if isinstance(value, Held)
                 else type(value)(_lifted(graph, value)) if type(value) in (list, tuple) else value for value in values)  # fmt: skip


def at_once(raw: Callable[..., Any], args: Tuple[Any, ...], named: Dict[str, Any]) -> Any:
    """Runs raw(*args, **named) on arrays. Raises what it raises, and what a call of a program does."""
    leaves, tree = flatten_call(args, named)
    numeric = raw.__name__ in _NUMERIC
    arrays = [leaf for leaf in leaves if isinstance(leaf, (Held, np.ndarray, np.generic))]
    # Whether an integer's value matters to what the function makes of it: a uint8 holds no 300.
    wide = numeric and all(dtype_of(array.dtype).name in ("int64", "float32", "float64") for array in arrays)
    specs: List[Any] = []
    moving: List[int] = []
    for at, leaf in enumerate(leaves):
        kind = type(leaf)
        if isinstance(leaf, (Held, np.ndarray)) or kind is float and raw.__name__ in _FLOATS or numeric and (
                isinstance(leaf, np.generic) or kind is float or kind is int and wide and abs(leaf) < 1 << 63):  # fmt: skip
            moving.append(at)
            specs.append(leaf_kinds.spec_of(leaf))
        else:
            if isinstance(leaf, np.generic) and raw.__name__ not in _OPERANDS:
                leaf = leaves[at] = leaf.item()
            specs.append(leaf_kinds.exact(leaf))
    given = [leaves[at] for at in moving]
    client, device = leaf_kinds.place_of(given, None)
    kinds = [specs[at] for at in moving]
    cache, key = of_client(client, "operations", MOST), (raw, tree, tuple(specs), device)
    traced = cache.get(key)
    if traced is None:

        def call(values: List[Any]) -> Any:
            every = list(leaves)
            for at, value in zip(moving, values):
                every[at] = value
            args, named = unflatten(tree, every)
            return raw(*args, **named)

        traced = cache.put(key, trace(raw.__name__, client, device, kinds, call, given))
    return traced.run(given, kinds)


# What of the package works on arrays.
_MODULES = ("composed.division", "composed.nn", "composed.signs", "composed.special", "composed.statistics", "elementwise", "functions",
            "indexing", "movement", "reduce")  # fmt: skip


def dispatching(names: Dict[str, Any]) -> Dict[str, Any]:
    """Of a namespace's functions, those of the builder's, for arrays too."""
    modules = {"kiln." + name for name in _MODULES}
    return {name: dispatched(one) for name, one in names.items()
            if isinstance(one, type(dispatched)) and one.__module__ in modules}  # fmt: skip
