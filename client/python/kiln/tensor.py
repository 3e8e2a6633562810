"""A value of a graph, with numpy's operators and methods.

Every method is a function of the package too (kiln.sum(x) is x.sum()); the modules
imported here say what each does. A Tensor is a handle: copied freely, it computes
nothing. `==` compares elements, as in numpy; tensors are told apart by `is`.
"""

from __future__ import annotations

import builtins
from typing import Any, Iterator

from kiln import elementwise, functions, indexing, movement, reduce
from kiln.composed import division, ordering, signs, statistics
from kiln.value import Value

_STATIC = "give a jitted function what Python is to decide by as a static argument"


class Tensor(Value):
    """`dtype`, `shape`, `ndim`, `size`; `graph` and `node`, its index there."""

    __slots__ = ()
    # numpy then leaves array + tensor to us.
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "<Tensor %s %s>" % (self.dtype.name, self.shape)

    @property
    def slot(self) -> int:
        """The slot of a parameter; GraphError for a computed tensor."""
        return self.graph.slot_of(self)

    def tag(self, text: str) -> "Tensor":
        """Names the node in the server's error messages."""
        self.graph.set_tag(self.node, text)
        return self

    def __bool__(self) -> bool:
        raise TypeError("a tensor has no value before its program has run; use kiln.where, or %s" % _STATIC)

    def _no_number(self) -> Any:
        raise TypeError("a tensor is no number before its program has run; astype converts it, or %s" % _STATIC)

    __int__ = __float__ = __index__ = _no_number

    def __contains__(self, value: Any) -> bool:
        raise TypeError("a tensor has no value before its program has run; use kiln.any(x == value)")

    def __array__(self, *args: Any, **named: Any) -> Any:
        raise TypeError("a tensor has no value before its program has run: make it an output, and read that")

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name = function.__name__
        if name in ("shape", "ndim"):
            return getattr(args[0], name)
        ours = builtins.any(hasattr(module, name) for module in (elementwise, functions, movement, reduce, indexing))
        raise TypeError("numpy.%s is of arrays, and a tensor is none: %s" %
                        (name, "there is kiln.%s" % name if ours else "kiln has none of that name"))  # fmt: skip

    def __len__(self) -> int:
        if not self.shape or not isinstance(self.shape[0], int):
            raise TypeError("a tensor of shape %s has no length" % (self.shape,))
        return self.shape[0]

    def __iter__(self) -> "Iterator[Tensor]":
        return (self[row] for row in range(len(self)))

    def __getitem__(self, key: Any) -> "Tensor":
        return indexing.getitem(self, key)

    # -- operators

    def __add__(self, other: Any) -> "Tensor":
        return elementwise.add(self, other)

    def __radd__(self, other: Any) -> "Tensor":
        return elementwise.add(other, self)

    def __sub__(self, other: Any) -> "Tensor":
        return elementwise.subtract(self, other)

    def __rsub__(self, other: Any) -> "Tensor":
        return elementwise.subtract(other, self)

    def __mul__(self, other: Any) -> "Tensor":
        return elementwise.multiply(self, other)

    def __rmul__(self, other: Any) -> "Tensor":
        return elementwise.multiply(other, self)

    def __truediv__(self, other: Any) -> "Tensor":
        return elementwise.divide(self, other)

    def __rtruediv__(self, other: Any) -> "Tensor":
        return elementwise.divide(other, self)

    def __floordiv__(self, other: Any) -> "Tensor":
        return division.floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> "Tensor":
        return division.floor_divide(other, self)

    def __mod__(self, other: Any) -> "Tensor":
        return division.remainder(self, other)

    def __rmod__(self, other: Any) -> "Tensor":
        return division.remainder(other, self)

    def __pow__(self, other: Any) -> "Tensor":
        return division.pow(self, other)

    def __rpow__(self, other: Any) -> "Tensor":
        return division.pow(other, self)

    def __and__(self, other: Any) -> "Tensor":
        return elementwise.bitwise_and(self, other)

    def __rand__(self, other: Any) -> "Tensor":
        return elementwise.bitwise_and(other, self)

    def __or__(self, other: Any) -> "Tensor":
        return elementwise.bitwise_or(self, other)

    def __ror__(self, other: Any) -> "Tensor":
        return elementwise.bitwise_or(other, self)

    def __xor__(self, other: Any) -> "Tensor":
        return elementwise.bitwise_xor(self, other)

    def __rxor__(self, other: Any) -> "Tensor":
        return elementwise.bitwise_xor(other, self)

    def __lshift__(self, other: Any) -> "Tensor":
        return elementwise.left_shift(self, other)

    def __rlshift__(self, other: Any) -> "Tensor":
        return elementwise.left_shift(other, self)

    def __rshift__(self, other: Any) -> "Tensor":
        return elementwise.right_shift(self, other)

    def __rrshift__(self, other: Any) -> "Tensor":
        return elementwise.right_shift(other, self)

    def __lt__(self, other: Any) -> "Tensor":
        return elementwise.less(self, other)

    def __gt__(self, other: Any) -> "Tensor":
        return elementwise.greater(self, other)

    def __le__(self, other: Any) -> "Tensor":
        return elementwise.less_equal(self, other)

    def __ge__(self, other: Any) -> "Tensor":
        return elementwise.greater_equal(self, other)

    def __eq__(self, other: Any) -> "Tensor":  # type: ignore[override]
        return elementwise.equal(self, other)

    def __ne__(self, other: Any) -> "Tensor":  # type: ignore[override]
        return elementwise.not_equal(self, other)

    def __matmul__(self, other: Any) -> "Tensor":
        return reduce.matmul(self, other)

    def __rmatmul__(self, other: Any) -> "Tensor":
        return reduce.matmul(other, self)

    def __neg__(self) -> "Tensor":
        return elementwise.negative(self)

    def __pos__(self) -> "Tensor":
        return self

    def __abs__(self) -> "Tensor":
        return signs.abs(self)

    def __invert__(self) -> "Tensor":
        return elementwise.invert(self)

    # -- methods

    @property
    def T(self) -> "Tensor":
        """The axes in reverse."""
        return movement.transpose(self)

    @property
    def mT(self) -> "Tensor":
        """The last two axes changed for each other."""
        return movement.swapaxes(self, -1, -2)

    astype = elementwise.astype
    bitcast = elementwise.bitcast
    clip = elementwise.clip

    reshape = movement.reshape
    transpose = movement.transpose
    permute = movement.permute
    swapaxes = movement.swapaxes
    expand = movement.expand
    broadcast_to = movement.broadcast_to
    pad = movement.pad
    shrink = movement.shrink
    flip = movement.flip
    squeeze = movement.squeeze
    flatten = movement.flatten

    sum = reduce.sum
    prod = reduce.prod
    max = reduce.max
    min = reduce.min
    any = reduce.any
    all = reduce.all
    mean = reduce.mean
    var = reduce.var
    std = reduce.std
    argmax = reduce.argmax
    argmin = reduce.argmin
    cumsum = statistics.cumsum
    cumprod = statistics.cumprod
    argsort = ordering.argsort
    round = division.round
    dot = reduce.dot
    matmul = reduce.matmul
    take = indexing.take


class Weak(Tensor):
    """A Python number that comes with each call, or is computed of such."""

    __slots__ = ()
    weak = True
