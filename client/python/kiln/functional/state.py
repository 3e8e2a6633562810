"""State that a function updates in place.

    weights = kiln.State({"w": np.zeros((64, 10), np.float32), "b": np.zeros(10, np.float32)})

    @kiln.jit
    def step(weights, x, y):
        slopes = kiln.grad(loss)(weights.value, x, y)
        weights.value = kiln.tree_map(lambda w, d: w - 0.1 * d, weights.value, slopes)

`value` is a tree of arrays. Outside of a function it is read and set like any attribute; in a
traced one what was set is written to the same memory when the program has run. An array that
was read keeps what it had: the first write after it goes to a copy.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from kiln.buffers import Buffer
from kiln.dtypes import BY_NUMBER
from kiln.elementwise import astype
from kiln.errors import DTypeError, GraphError, ShapeError
from kiln.functional import leaves as leaf_kinds
from kiln.functional.held import Held, made
from kiln.functional.tracing import active
from kiln.functional.trees import describe, flatten, paths, unflatten
from kiln.handles import OfItsProcess
from kiln.interchange import pickled


class State(OfItsProcess):
    """A tree of arrays (numbers become arrays) whose form, shapes and dtypes stay. One thread at a time. A copy is another state.

    Raises UnsupportedDType for a leaf that is no array or number.
    """

    def __init__(self, value: Any, *, client: Optional[Any] = None):
        leaves, self.tree = flatten(value)
        self.names = paths(self.tree, "value")
        specs = leaf_kinds.specs_of(leaves, lambda at: self.names[at])
        self.client, self.device = leaf_kinds.place_of(leaves, client)
        self._arrays = [self._array(leaf, spec) for leaf, spec in zip(leaves, specs)]
        self.specs: List[Any] = [array.spec for array in self._arrays]
        self._state_spec = ("state", self.tree, tuple(self.specs))

    def _array(self, leaf: Any, spec: Any) -> Held:
        if isinstance(leaf, Held):
            leaf.shared = True
            return Held._made(leaf.client, leaf.buffer, True)
        return made(self.client, self.client.buffer(leaf_kinds.argument(leaf, spec), device=self.device))

    @property
    def value(self) -> Any:
        """The tree: of arrays, or of traced values in a traced function."""
        trace = active()
        if trace is not None:
            return unflatten(self.tree, trace.follow(self).now)
        for array in self._arrays:
            array.shared = True
        return unflatten(self.tree, [Held._made(self.client, array.buffer, True) for array in self._arrays])

    @value.setter
    def value(self, value: Any) -> None:
        """Raises ShapeError or DTypeError for a tree of another form, shape or dtype."""
        leaves, tree = flatten(value)
        if tree != self.tree:
            raise ShapeError("the state is %s, what is set %s" % (describe(self.tree), describe(tree)), code="BAD_ARGUMENT")
        trace = active()
        if trace is None:
            specs = leaf_kinds.specs_of(leaves, lambda at: self.names[at])
            arrays = [self._array(*self._typed(at, leaf, specs[at])) for at, leaf in enumerate(leaves)]
            for at, array in enumerate(arrays):
                self._check(at, array.spec)
            self._arrays = arrays
            return
        now = [trace.lift(leaf, self.names[at]) for at, leaf in enumerate(leaves)]
        now = [astype(tensor, BY_NUMBER[spec[0]]) if tensor.weak else tensor for tensor, spec in zip(now, self.specs)]
        for at, tensor in enumerate(now):
            self._check(at, (tensor.dtype.number, tensor.shape))
        trace.follow(self).now = now

    def _typed(self, at: int, leaf: Any, spec: Any) -> Tuple[Any, Any]:
        """A number in the state's dtype."""
        return (leaf, spec) if spec not in leaf_kinds.NUMBERS else (BY_NUMBER[self.specs[at][0]].numpy.type(leaf), self.specs[at])

    def _check(self, at: int, spec: Tuple[int, Any]) -> None:
        was = self.specs[at]
        if spec[1] != was[1] or spec[0] != was[0]:
            kind = ShapeError if spec[1] != was[1] else DTypeError
            raise kind("%s of the state is %s, what is set %s" %
                       (self.names[at], leaf_kinds.shown(was), leaf_kinds.shown(spec)),
                       remedy="" if kind is ShapeError else "convert it with astype")  # fmt: skip

    def buffer(self, at: int, written: bool) -> Buffer:
        """The memory of a leaf, for a program that only reads it, or may write it."""
        array = self._arrays[at]
        if written and array.shared:
            array = self._arrays[at] = made(self.client, array.own_buffer())
        return array.buffer

    def twin(self) -> "State":
        """Another of the same arrays, until either is written: what stands for it where a function is traced."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __copy__(self) -> "State":
        if active() is not None:
            raise GraphError("a traced function copies a State, of which it has no values", code="BAD_ARGUMENT",
                             remedy="copy it outside")  # fmt: skip
        other = self.twin()
        other._arrays = [self._array(array, array.spec) for array in self._arrays]
        return other

    def __deepcopy__(self, memo: Dict[int, Any]) -> "State":
        return self.__copy__()

    def _instead(self) -> str:
        return "pickle the arrays of its value as numpy's, or by value, in `with kiln.by_value():`"

    def _pickled(self) -> Any:
        if not pickled.asked():
            return None
        return pickled.load_state, (unflatten(self.tree, [array.numpy() for array in self._arrays]),)

    def __repr__(self) -> str:
        rows = ["%s %s" % (name, leaf_kinds.shown(spec)) for name, spec in zip(self.names, self.specs)]
        return "<State of %s>" % ", ".join(rows)
