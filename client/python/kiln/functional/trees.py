"""Trees: dicts, lists, tuples, namedtuples and dataclasses, within each other; all else is a leaf.

    leaves, tree = flatten({"w": w, "b": [b, None]})     # [b, w]: a dict's by its sorted keys
    unflatten(tree, leaves)

None is a tree without leaves. A tree compares and hashes by its form, so that it can be
a key of what was traced for arguments of that form.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Callable, Dict, Iterator, List, Set, Tuple

import numpy as np

from kiln.errors import InvalidArgument


class Tree:
    """The form of a value without its leaves: `kind` and `names` (keys, fields) of a node, and its `children`."""

    __slots__ = ("kind", "names", "children", "count", "_hash")

    def __init__(self, kind: Any, names: Tuple[Any, ...], children: "Tuple[Tree, ...]", count: int):
        self.kind, self.names, self.children, self.count = kind, names, children, count
        self._hash = hash((kind, names, children))

    def __eq__(self, other: Any) -> bool:
        if self is other:
            return True
        return (isinstance(other, Tree) and self._hash == other._hash and self.kind == other.kind
                and self.names == other.names and self.children == other.children)  # fmt: skip

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return "<Tree %s>" % describe(self)


LEAF = Tree("leaf", (), (), 1)
NOTHING = Tree("none", (), (), 0)
# Types whose values are leaves; others are looked into.
PLAIN: Set[Any] = {np.ndarray, float, int, bool}


def describe(tree: Tree) -> str:
    """As Python would write it, with * for leaves."""
    if tree is LEAF:
        return "*"
    if tree is NOTHING:
        return "None"
    inner = [describe(child) for child in tree.children]
    if tree.kind is dict:
        return "{%s}" % ", ".join("%r: %s" % pair for pair in zip(tree.names, inner))
    if tree.kind is list:
        return "[%s]" % ", ".join(inner)
    if tree.kind is tuple:
        return "(%s%s)" % (", ".join(inner), "," if len(inner) == 1 else "")
    return "%s(%s)" % (tree.kind.__name__, ", ".join("%s=%s" % pair for pair in zip(tree.names, inner)))


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _parts(value: Any) -> Any:
    """(kind, names, children) of a node; None of a leaf."""
    kind = type(value)
    if kind is tuple or kind is list:
        return kind, (), value
    if kind is dict:
        try:
            names = tuple(sorted(value))
        except TypeError:
            raise InvalidArgument("a dict whose keys cannot be sorted is no tree: %s" % ", ".join(map(repr, value)),
                                  code="BAD_ARGUMENT", remedy="use keys of one type, such as str") from None  # fmt: skip
        return kind, names, [value[name] for name in names]
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return kind, kind._fields, value
    if _is_dataclass(value):
        names = tuple(field.name for field in dataclasses.fields(value))
        return kind, names, [getattr(value, name) for name in names]
    return None


def flatten(value: Any) -> Tuple[List[Any], Tree]:
    """The leaves, in order, and the form. InvalidArgument for a dict whose keys have no order."""
    leaves: List[Any] = []
    return leaves, _flatten(value, leaves)


def flatten_call(args: Tuple[Any, ...], named: Dict[str, Any]) -> Tuple[List[Any], Tree]:
    """As flatten((args, named)): most calls are of leaves alone, by place."""
    if not named:
        for one in args:
            if type(one) not in PLAIN:
                break
        else:
            return list(args), _by_place(len(args))
    return flatten((args, named))


@functools.lru_cache(maxsize=64)
def _by_place(count: int) -> Tree:
    """The form of a call with so many leaves."""
    return flatten(((0,) * count, {}))[1]


def _flatten(value: Any, leaves: List[Any]) -> Tree:
    if value is None:
        return NOTHING
    parts = None if type(value) in PLAIN else _parts(value)
    if parts is None:
        leaves.append(value)
        return LEAF
    before = len(leaves)
    children = tuple([_flatten(child, leaves) for child in parts[2]])
    return Tree(parts[0], parts[1], children, len(leaves) - before)


def unflatten(tree: Tree, leaves: Any) -> Any:
    """The value of this form with these leaves. InvalidArgument unless there are as many as it has."""
    given = list(leaves)
    if len(given) != tree.count:
        raise InvalidArgument("%d leaves for a tree of %d" % (len(given), tree.count), code="BAD_ARGUMENT")
    return _unflatten(tree, iter(given))


def _unflatten(tree: Tree, leaves: Iterator[Any]) -> Any:
    if tree is LEAF:
        return next(leaves)
    if tree is NOTHING:
        return None
    children = [_unflatten(child, leaves) for child in tree.children]
    if tree.kind is list:
        return children
    if tree.kind is tuple:
        return tuple(children)
    if tree.kind is dict:
        return dict(zip(tree.names, children))
    if issubclass(tree.kind, tuple):
        return tree.kind(*children)
    made = object.__new__(tree.kind)  # a dataclass; what its __init__ checks are arrays, and these may be traced
    for name, child in zip(tree.names, children):
        object.__setattr__(made, name, child)
    return made


def paths(tree: Tree, at: str = "") -> List[str]:
    """Where each leaf is, as Python would reach it: "['w'][0].b"."""
    if tree is LEAF:
        return [at]
    found: List[str] = []
    for place, child in enumerate(tree.children):
        named = tree.names and tree.kind is not dict
        step = ".%s" % tree.names[place] if named else "[%r]" % (tree.names[place] if tree.names else place)
        found += paths(child, at + step)
    return found


def prefix(tree: Tree, value: Any, what: str) -> List[Any]:
    """One of `value`'s leaves for each of the tree's: a leaf of it stands for all below. None is a leaf here.

    InvalidArgument if the forms do not go together.
    """
    if tree is LEAF or value is None or _parts(value) is None:
        return [value] * tree.count
    parts = _parts(value)
    if parts[0] is not tree.kind or parts[1] != tree.names or len(parts[2]) != len(tree.children):
        raise InvalidArgument("%s: %r is no beginning of the tree %s" % (what, value, describe(tree)), code="BAD_ARGUMENT")
    return [one for child, part in zip(tree.children, parts[2]) for one in prefix(child, part, what)]


def map_tree(function: Callable[..., Any], value: Any, *others: Any) -> Any:
    """A tree of the same form, of function(leaf, …) of leaves at equal places.

        params = kiln.tree_map(lambda p, g: p - 0.1 * g, params, gradients)

    InvalidArgument if the trees differ in form.
    """
    leaves, tree = flatten(value)
    columns = [leaves]
    for other in others:
        further, form = flatten(other)
        if form != tree:
            raise InvalidArgument("trees of two forms: %s and %s" % (describe(tree), describe(form)), code="BAD_ARGUMENT")
        columns.append(further)
    return unflatten(tree, [function(*row) for row in zip(*columns)])
