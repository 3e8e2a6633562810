"""kiln.jit: a function of arrays as a program.

    @kiln.jit
    def step(w, x, y):
        return w - 0.1 * x.T @ (x @ w - y)

It is traced at its first call for arguments of these shapes and dtypes, and this form (trees.py);
later calls of the same kind run the program. What Python does in it - prints, branches,
loops - happens while it is traced. The log "kiln.jit" says when: at DEBUG every trace,
at INFO each that is not a function's first.
"""

from __future__ import annotations

import functools
import inspect
import logging
import types
from typing import Any, Callable, Dict, Generic, List, Optional, Sequence, Tuple, TypeVar, Union, overload

from kiln.errors import InvalidArgument
from kiln.functional import leaves as leaf_kinds
from kiln.functional.kept import Kept
from kiln.functional.traced import Traced, trace
from kiln.functional.tracing import active
from kiln.functional.trees import Tree, flatten_call, paths, unflatten
from kiln.interchange import pickled

log = logging.getLogger("kiln.jit")

R = TypeVar("R")
Numbers = Union[int, Sequence[int]]
# Traces that one function keeps; the oldest go.
MOST = 1024


def name_of(function: Any) -> str:
    return getattr(function, "__name__", None) or type(function).__name__


def several(given: Any) -> Tuple[Any, ...]:
    return (given,) if isinstance(given, (int, str)) else tuple(given)


class Jitted(Generic[R]):
    """What jit() gives: called as the function itself. Threads: any."""

    def __init__(self, function: Callable[..., R], client: Optional[Any], static_argnums: Numbers,
                 static_argnames: Union[str, Sequence[str]], donate_argnums: Numbers, remedy: str = leaf_kinds.STATIC):
        if not callable(function):
            raise InvalidArgument("jit takes a function, not %r" % (function,), code="BAD_ARGUMENT")
        functools.update_wrapper(self, function, updated=())
        self._function, self._client, self._name = function, client, name_of(function)
        self._static_at, self._static_names = self._statics(self._places(static_argnums), several(static_argnames))
        self._donated = self._places(donate_argnums)
        both = set(self._static_at) & set(self._donated)
        if both:
            raise InvalidArgument("argument %d of %s cannot be static and donated" % (min(both), self._name),
                                  code="BAD_ARGUMENT")  # fmt: skip
        self._cache, self._remedy = Kept(MOST), remedy
        self._given = (client, static_argnums, static_argnames, donate_argnums)

    def _known(self) -> List[str]:
        """The names of its arguments by place, where its signature tells."""
        try:
            rows = inspect.signature(self._function).parameters.values()
        except (TypeError, ValueError):
            return []
        return [row.name for row in rows if row.kind in (row.POSITIONAL_ONLY, row.POSITIONAL_OR_KEYWORD)]

    def _places(self, numbers: Numbers) -> Tuple[int, ...]:
        """Counted from 0; negative ones count from the last argument in the signature."""
        count = len(self._known())
        if min(several(numbers), default=0) < -count:
            raise InvalidArgument("there is no argument %d of %s" % (min(several(numbers)), self._name), code="BAD_ARGUMENT")
        return tuple(at + count if at < 0 else at for at in several(numbers))

    def _statics(self, numbers: Sequence[int], names: Sequence[str]) -> Tuple[Tuple[int, ...], Tuple[str, ...]]:
        """Each by place and by name, where the function's signature tells."""
        known = self._known()
        named = set(names) | {known[at] for at in numbers if at < len(known)}
        placed = set(numbers) | {known.index(name) for name in names if name in known}
        return tuple(sorted(placed)), tuple(sorted(named))

    def __call__(self, *args: Any, **named: Any) -> R:
        """The function's value, of arrays on the device; nothing is waited for.

        Raises UnsupportedDType for an argument that is no array, number or tree, InvalidArgument for
        a static one without a hash, what the function raises while it is traced, and what
        compiling and calling a program do.
        """
        if active() is not None:
            return self._function(*args, **named)
        statics: Tuple[Any, ...] = ()
        if self._static_at or self._static_names:
            args, named, statics = self._split(args, named)
        leaves, tree = flatten_call(args, named)
        specs = [leaf_kinds.spec_of(leaf) for leaf in leaves]
        if None in specs:
            at = specs.index(None)
            raise leaf_kinds.refuse(leaves[at], self._where(tree, at), self._remedy)
        client, device = leaf_kinds.place_of(leaves, self._client)
        key = (tree, tuple(specs), client, device, statics, alike(leaves, specs))
        traced = self._cache.get(key)
        if traced is None:
            traced = self._trace(key, leaves)
        return traced.run(leaves, specs)  # type: ignore[no-any-return]

    def _split(self, args: Sequence[Any], named: Dict[str, Any]) -> Tuple[Any, Any, Any]:
        """The arguments with None for static ones, and these."""
        statics = [(at, args[at]) for at in self._static_at if at < len(args)]
        statics += [(name, named[name]) for name in self._static_names if name in named]  # type: ignore[misc]
        for at, value in statics:
            try:
                hash(value)
            except TypeError:
                raise InvalidArgument("the static argument %s of %s is a %s, which has no hash" %
                                      (at, self._name, type(value).__name__), code="BAD_ARGUMENT",
                                      remedy="give a tuple for a list; arrays are no static arguments") from None  # fmt: skip
        places = {at for at, _ in statics}
        rest = tuple(None if at in places else value for at, value in enumerate(args))
        typed = tuple((at, leaf_kinds.exact(value), value) for at, value in statics)
        return rest, {name: value for name, value in named.items() if name not in places}, typed

    def _trace(self, key: Any, leaves: List[Any]) -> Traced:
        tree, specs, client, device, statics, _ = key

        def call(values: List[Any]) -> Any:
            args, named = unflatten(tree, values)
            args = list(args)
            for at, _, value in statics:
                if isinstance(at, int):
                    args[at] = value
                else:
                    named[at] = value
            return self._function(*args, **named)

        if self._cache:
            log.info("%s is traced again, the %d. time: for (%s)", self._name, len(self._cache) + 1,
                     ", ".join([*map(leaf_kinds.shown, specs), *("%s=%r" % (at, value) for at, _, value in statics)]))  # fmt: skip
        traced = trace(self._name, client, device, specs, call, leaves, self._given_up(tree))
        self._cache.drop(lambda key: key[2].closed)
        return self._cache.put(key, traced)

    def _given_up(self, tree: Tree) -> List[int]:
        """The leaves of what is donated, by place or by name."""
        placed, named = tree.children
        donated = {*self._donated, *(name for at, name in enumerate(self._known()) if at in self._donated)}
        whole = [key in donated for key, child in [*enumerate(placed.children), *zip(named.names, named.children)] for _ in range(child.count)]
        return [at for at, given in enumerate(whole) if given]

    def _where(self, tree: Tree, at: int) -> str:
        which = paths(tree)[at][4:].split("]", 1)  # after [0][, or [1][: by place, or by name
        return "argument %s of %s" % ("".join(which), self._name)

    def __reduce__(self) -> Any:
        """Pickled as functions are, by its name, where that leads to it; else as its function. Traces stay here."""
        return pickled.by_name(self) or (load_jitted, (self._function, self._given))

    def __get__(self, instance: Any, owner: Any = None) -> Callable[..., R]:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return "<kiln.jit of %s, traced %d times>" % (self._name, len(self._cache))


def load_jitted(function: Callable[..., R], given: Tuple[Any, ...]) -> Jitted[R]:
    """What a pickle calls."""
    return Jitted(function, *given)


def alike(leaves: Sequence[Any], specs: Sequence[Any]) -> Tuple[int, ...]:
    """Which of several states are one."""
    states = [id(leaf) for leaf, spec in zip(leaves, specs) if type(spec) is tuple and spec[0] == "state"]
    return tuple(states.index(one) for one in states) if len(states) > 1 else ()


@overload
def jit(function: Callable[..., R], *, client: Optional[Any] = ..., static_argnums: Numbers = ...,
        static_argnames: Union[str, Sequence[str]] = ..., donate_argnums: Numbers = ...) -> Jitted[R]: ...  # fmt: skip


@overload
def jit(*, client: Optional[Any] = ..., static_argnums: Numbers = ..., static_argnames: Union[str, Sequence[str]] = ...,
        donate_argnums: Numbers = ...) -> Callable[[Callable[..., R]], Jitted[R]]: ...  # fmt: skip


def jit(function: Optional[Callable[..., Any]] = None, *, client: Optional[Any] = None, static_argnums: Numbers = (),
        static_argnames: Union[str, Sequence[str]] = (), donate_argnums: Numbers = ()) -> Any:
    """A function as a program, traced once for each form, shape and dtype of its arguments.

    client           whose program it is where no argument is an array of a client's; default: the current one
    static_argnums,  arguments that stay Python's: the function is traced for each of their values;
    static_argnames  they have a hash. Negative places count from the last, here and below
    donate_argnums   arguments whose arrays are given up: their memory is used for results, and they
                     raise BufferFreed afterwards

    Works as a decorator, with and without arguments. Within another traced function it is the function itself.
    """
    if function is None:
        return lambda given: jit(given, client=client, static_argnums=static_argnums, static_argnames=static_argnames,
                                 donate_argnums=donate_argnums)  # fmt: skip
    return Jitted(function, client, static_argnums, static_argnames, donate_argnums)
