"""kiln.jax.jit: a function written with jax.numpy, as a program on a Kiln server.

    @kiln.jax.jit
    def step(w, x, y):
        return w - 0.1 * jax.grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)

JAX traces it, and so takes gradients and maps; its jaxpr becomes nodes by the table of rules, and runs
where the arrays are. Results are kiln.Arrays, which go into the next call without leaving the device.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Set, Tuple, Union, overload

import jax
import numpy as np
from jax._src.core import trace_state_clean

from kiln.errors import InvalidArgument
from kiln.functional import leaves as leaf_kinds
from kiln.functional.jit import name_of, several
from kiln.functional.kept import Kept
from kiln.functional.traced import trace
from kiln.functional.tracing import active
from kiln.jax.evaluate import Evaluator
from kiln.jax.leaves import Type, entered, left, local, refuse, taken
from kiln.jax.spread import spread_over
from kiln.tensor import Tensor

# Traces that one function keeps; the oldest go.
MOST = 1024

Numbers = Union[int, Sequence[int]]


class Jitted:
    """What jit() gives: called as the function itself. Threads: any."""

    def __init__(self, function: Callable[..., Any], client: Optional[Any], static_argnums: Numbers,
                 static_argnames: Union[str, Sequence[str]], donate_argnums: Numbers, devices: Sequence[str],
                 split_argnums: Numbers, options: Dict[str, Any]):  # fmt: skip
        if not callable(function):
            raise InvalidArgument("jit takes a function, not %r" % (function,), code="BAD_ARGUMENT")
        functools.update_wrapper(self, function, updated=())
        self._function, self._client, self._name = function, client, name_of(function)
        self._static_at, self._static_names = both_ways(function, several(static_argnums), several(static_argnames))
        self._donated, self._split = set(several(donate_argnums)), set(several(split_argnums))
        self._devices, self._options = tuple(devices), options
        if self._devices and self._donated:
            raise InvalidArgument("no argument on several devices is donated", code="BAD_ARGUMENT")
        self._cache = Kept(MOST)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The function's value; nothing is waited for.

        Raises UnsupportedDType for an argument that is no array, number or tree; Unimplemented, which names
        the primitive and the line, for what has no rule; and what the function, compiling and calling do.
        """
        static_at = self._places(self._static_at, len(args))
        dynamic = [None if at in static_at else value for at, value in enumerate(args)]
        rest = {name: value for name, value in named.items() if name not in self._static_names}
        values, form = jax.tree_util.tree_flatten((dynamic, rest))
        statics = tuple((at, args[at]) for at in sorted(static_at)) + tuple(
            (name, named[name]) for name in sorted(self._static_names & set(named)))  # fmt: skip
        if not trace_state_clean() or any(isinstance(leaf, jax.core.Tracer) for leaf in values):
            return self._plain(form, map(local, values), statics)
        given: List[Any] = []
        kinds: List[Type] = []
        for at, leaf in enumerate(values):
            found = taken(leaf)
            if found is None:
                raise refuse(leaf, "argument%s of %s" % (jax.tree_util.keystr(paths_of(form)[at]), self._name))
            value, kind = found
            given.append(value)
            kinds.append(kind)
        if active() is not None or any(isinstance(leaf, Tensor) for leaf in values):
            return self._along(form, given, kinds, statics)
        specs = tuple(map(leaf_kinds.spec_of, given)) if not self._devices else ()
        client, device = leaf_kinds.place_of(given, self._client)
        wide = jax.dtypes.canonicalize_dtype(np.float64).itemsize  # which jax's settings decide
        key = (form, tuple(kinds), specs, client, device, leaf_kinds.exact(statics), len(args), wide)
        found = self._cache.get(key)
        if found is None:
            found = self._trace(key, given, statics)
        traced, out = found
        return jax.tree_util.tree_unflatten(out, traced.run(given, specs))

    @staticmethod
    def _places(numbers: Set[int], count: int) -> Set[int]:
        """Those of `count` arguments that are meant; negative numbers count from the last."""
        return {at % count for at in numbers if -count <= at < count}

    def _plain(self, form: Any, leaves: Iterable[Any], statics: Tuple[Any, ...]) -> Any:
        """The function itself, of these leaves."""
        args, named = jax.tree_util.tree_unflatten(form, leaves)
        for at, value in statics:
            if isinstance(at, int):
                args[at] = value
            else:
                named[at] = value
        return self._function(*args, **named)

    def _jaxpr(self, form: Any, kinds: Sequence[Type], statics: Tuple[Any, ...]) -> Tuple[Any, Any]:
        """The function as a jaxpr of its leaves, and the form of its value."""

        def flat(*leaves: Any) -> Any:
            return self._plain(form, leaves, statics)

        jaxpr, shapes = jax.make_jaxpr(flat, return_shape=True)(*(kind.aval for kind in kinds))
        return jaxpr, jax.tree_util.tree_structure(shapes)

    def _trace(self, key: Any, given: List[Any], statics: Tuple[Any, ...]) -> Any:
        form, kinds, specs, client, device, _, count, _ = key
        jaxpr, out = self._jaxpr(form, kinds, statics)

        def evaluate(graph: Any, values: Sequence[Any]) -> List[Any]:
            run = Evaluator(graph, len(self._devices) > 1)
            return left(run, run.closed(jaxpr, [entered(value, kind) for value, kind in zip(values, kinds)]))

        placed = [path[1].idx if path[0].idx == 0 else None for path in paths_of(form)]
        if self._devices:
            split = [at for at, place in enumerate(placed) if place in self._places(self._split, count)]
            traced = spread_over(self._name, client, self._devices, kinds, evaluate, split, self._options)
        else:
            donated = [at for at, place in enumerate(placed) if place in self._places(self._donated, count)]
            traced = trace(self._name, client, device, specs, lambda values: evaluate(active(), values), given, donated)
        self._cache.drop(lambda key: key[3].closed)
        return self._cache.put(key, (traced, out))

    def _along(self, form: Any, given: Sequence[Any], kinds: Sequence[Type], statics: Tuple[Any, ...]) -> Any:
        """Within another traced function of Kiln's: nodes of its graph."""
        graph: Any = active()
        if graph is None:
            raise InvalidArgument(
                "%s is given a tensor, outside of a traced function" % self._name, code="BAD_ARGUMENT"
            )
        jaxpr, out = self._jaxpr(form, kinds, statics)
        run = Evaluator(graph)
        values = [entered(graph.lift(value), kind) for value, kind in zip(given, kinds)]
        return jax.tree_util.tree_unflatten(out, left(run, run.closed(jaxpr, values)))

    def __repr__(self) -> str:
        return "<kiln.jax.jit of %s, traced %d times>" % (self._name, len(self._cache))


def both_ways(function: Callable[..., Any], at: Sequence[int], names: Sequence[str]) -> Tuple[Set[int], Set[str]]:
    """Arguments by number and by name: those that are given one way only, the other way too."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of a function that Python does not know
        return set(at), set(names)
    placed = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    named = {one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD}
    more = {placed[one] for one in at if -len(placed) <= one < len(placed)} & named
    return {*at, *(placed.index(name) for name in names if name in placed)}, {*names, *more}


def paths_of(form: Any) -> List[Any]:
    """Of each leaf of ([argument, …], {name: argument}), as jax says where one is."""
    return [
        path
        for path, _ in jax.tree_util.tree_leaves_with_path(jax.tree_util.tree_unflatten(form, range(form.num_leaves)))
    ]


@overload
def jit(function: Callable[..., Any], *, client: Optional[Any] = ..., static_argnums: Numbers = ...,
        static_argnames: Union[str, Sequence[str]] = ..., donate_argnums: Numbers = ..., devices: Sequence[str] = ...,
        split_argnums: Numbers = ..., **options: Any) -> Jitted: ...  # fmt: skip


@overload
def jit(*, client: Optional[Any] = ..., static_argnums: Numbers = ..., static_argnames: Union[str, Sequence[str]] = ...,
        donate_argnums: Numbers = ..., devices: Sequence[str] = ..., split_argnums: Numbers = ...,
        **options: Any) -> Callable[[Callable[..., Any]], Jitted]: ...  # fmt: skip


def jit(function: Optional[Callable[..., Any]] = None, *, client: Optional[Any] = None, static_argnums: Numbers = (),
        static_argnames: Union[str, Sequence[str]] = (), donate_argnums: Numbers = (), devices: Sequence[str] = (),
        split_argnums: Numbers = (), **options: Any) -> Any:  # fmt: skip
    """A function of jax's as a program, traced once for each form, shape and dtype of its arguments.

    client           whose program it is where no argument is an array of a client's; default: the current one
    static_argnums,  arguments that stay Python's: the function is traced for each of their values;
    static_argnames  they have a hash
    donate_argnums   arguments whose arrays are given up: their memory is used for results
    devices,         several of the server's devices: each has an equal share of the first axis of the arguments
    split_argnums    named here, and all others whole; what is summed over that axis is summed over the devices.
                     Results are kiln.Shards
    options          of Client.compile, with devices (deterministic=True)

    Works as a decorator, with and without arguments. Within a function that jax traces it is the function itself,
    within one of kiln.jit it is traced along.
    """
    settings = (client, static_argnums, static_argnames, donate_argnums, devices, split_argnums, options)
    if function is None:
        return lambda given: Jitted(given, *settings)
    return Jitted(function, *settings)
