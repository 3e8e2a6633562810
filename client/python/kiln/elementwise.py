"""Functions of element by element, by numpy's names and with its dtypes.

An operand is a tensor, a Python number, a numpy array or a symbolic size; at least one is a tensor. A weak
tensor is a Python number that comes with each call (kiln.functional): it takes the dtype that it meets.
Shapes broadcast. Where Kiln's arithmetic is not numpy's: x // 0 is 0 and x % 0 is x
(proto's ir: nothing traps), shifts by the width or more give 0 or -1.
"""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Union

import numpy as np

from kiln import promotion
from kiln.dims import Dim
from kiln.dtypes import DType, bool_, dtype as dtype_of, float64, int64, uint64
from kiln.errors import DTypeError, GraphError, ShapeError
from kiln.value import Value, broadcast, emit

if TYPE_CHECKING:
    from kiln.tensor import Tensor

Operand = Union["Tensor", bool, int, float, Dim, np.ndarray, np.generic]


def lift(function: str, *operands: Any) -> "List[Any]":
    """The operands with arrays made tensors of the same graph; numbers stay numbers."""
    graph = next((operand.graph for operand in operands if isinstance(operand, Value)), None)
    if graph is None:
        raise GraphError("%s: none of the operands is a tensor" % function, code="BAD_ARGUMENT",
                         remedy="begin with graph.param or graph.constant")  # fmt: skip
    result = []
    for operand in operands:
        if isinstance(operand, Value):
            if operand.graph is not graph:
                raise graph.stranger(function, operand)
        elif hasattr(operand, "_in_graph"):  # an array on a device
            operand = operand._in_graph(graph)
        elif isinstance(operand, (np.ndarray, np.generic, list, tuple)):
            operand = graph.constant(operand)
        elif isinstance(operand, Dim):
            operand = graph.dim(operand)
        result.append(operand)
    return result


# A number like those that a weak tensor of this kind stands for.
_LIKE = {"b": True, "i": 1, "f": 1.0}


def weak_of(made: "Tensor", *operands: Any) -> "Tensor":
    """What was computed of Python's numbers alone is weak, too."""
    weak = all(isinstance(operand, (bool, int, float)) or getattr(operand, "weak", False) for operand in operands)
    return made.graph.tensor(made.node, made.dtype, made.shape, weak=True) if weak else made


def common(values: Sequence[Any]) -> DType:
    """The dtype, by numpy's rules, in which tensors and numbers meet."""
    tensors = [value for value in values if isinstance(value, Value)]
    strong = [value.dtype for value in tensors if not value.weak] or [value.dtype for value in tensors]
    kind = functools.reduce(promotion.promote, strong)
    for value in values:
        if not isinstance(value, Value):
            kind = promotion.with_scalar(kind, value)
        elif value.weak:
            kind = promotion.with_scalar(kind, _LIKE[value.dtype.kind])
    return kind


def meet(function: str, *operands: Any, kind: Optional[DType] = None) -> "List[Tensor]":
    """The operands as tensors of one dtype, by numpy's rules if none is named."""
    values: List[Any] = lift(function, *operands)
    kind = kind or common(values)
    graph = next(value.graph for value in values if isinstance(value, Value))
    return [graph.scalar(value, kind) if isinstance(value, (bool, int, float)) else astype(value, kind)
            for value in values]  # fmt: skip


def _binary(op: str, name: str, kinds: str, a: Any, b: Any) -> "Tensor":
    x, y = meet(name, a, b)
    check(name, x, kinds)
    return weak_of(emit(op, (x, y), x.dtype, broadcast(name, x.shape, y.shape)), a, b)


# What a comparison says of two numbers.
_SAYS = {"CMPLT": operator.lt, "CMPGT": operator.gt, "CMPLE": operator.le, "CMPGE": operator.ge, "CMPEQ": operator.eq, "CMPNE": operator.ne}


def _compare(op: str, name: str, a: Any, b: Any) -> "Tensor":
    """Also of integers with a number that their dtype does not hold."""
    a, b = lift(name, a, b)
    kind, otherwise = common((a, b)), None
    if kind.is_integer:
        least, greatest = promotion.limits(kind)
        for number, x in ((a, b), (b, a)):
            if isinstance(number, int) and not least <= number <= greatest:
                return x.graph.full(x.shape, _SAYS[op](*(0 if one is x else number for one in (a, b))), bool_)
            if getattr(number, "weak", False) and kind is uint64:
                otherwise = (less(number, 0), _SAYS[op](*(0 if one is x else -1 for one in (a, b))))
            elif getattr(number, "weak", False):
                kind = int64
    x, y = meet(name, a, b, kind=kind)
    compared = emit(op, (x, y), bool_, broadcast(name, x.shape, y.shape))
    return compared if otherwise is None else where(*otherwise, compared)


def _or_equal(op: str, strict: str, name: str, a: Any, b: Any) -> "Tensor":
    """The server's op is that nothing is the other way round, which NaN fulfils."""
    a, b = lift(name, a, b)
    if not common((a, b)).is_float:
        return _compare(op, name, a, b)
    return bitwise_or(_compare(strict, name, a, b), _compare("CMPEQ", name, a, b))


_KINDS = {"b": "bool", "i": "signed integers", "u": "unsigned integers", "f": "floats"}


def check(name: str, x: Value, kinds: str) -> None:
    """DTypeError unless x's dtype is of these kinds (numpy's letters)."""
    if x.dtype.kind not in kinds:
        raise DTypeError("%s takes %s, not %s" % (name, " or ".join(_KINDS[kind] for kind in kinds), x.dtype.name),
                         remedy="convert with astype")  # fmt: skip


# -- arithmetic


def add(a: Operand, b: Operand) -> "Tensor":
    return _binary("ADD", "add", "biuf", a, b)


def subtract(a: Operand, b: Operand) -> "Tensor":
    return _binary("SUB", "subtract", "iuf", a, b)


def multiply(a: Operand, b: Operand) -> "Tensor":
    return _binary("MUL", "multiply", "biuf", a, b)


def divide(a: Operand, b: Operand) -> "Tensor":
    """a / b; of integers in float64."""
    a, b = lift("divide", a, b)
    kind = common((a, b))
    x, y = meet("divide", a, b, kind=kind if kind.is_float else float64)  # at once: a uint8 holds no 300
    return weak_of(_binary("FDIV", "divide", "f", x, y), a, b)


def floor_divide(a: Operand, b: Operand) -> "Tensor":
    """Of integers."""
    return _binary("FLOORDIV", "floor_divide", "iu", a, b)


def remainder(a: Operand, b: Operand) -> "Tensor":
    """Of integers, with the divisor's sign."""
    return _binary("FLOORMOD", "remainder", "iu", a, b)


def power(a: Operand, b: Operand) -> "Tensor":
    """Of floats; and an integer tensor to a constant integer power of 0 or more."""
    if isinstance(b, np.integer) and isinstance(a, Value):
        a, b = astype(a, promotion.promote(a.dtype, dtype_of(b.dtype))), int(b)
    if isinstance(b, int) and isinstance(a, Value) and (b in (1, 2) or a.dtype.is_integer and b >= 0):
        result, square, rest = None, a, int(b)
        while rest:
            if rest & 1:
                result = square if result is None else multiply(result, square)
            rest >>= 1
            square = multiply(square, square) if rest else square
        return a.graph.full(a.shape, 1, a.dtype) if result is None else result
    return _binary("POW", "power", "f", a, b)


def negative(x: "Tensor") -> "Tensor":
    check("negative", x, "iuf")
    return weak_of(emit("NEG", (x,), x.dtype, x.shape), x)


def maximum(a: Operand, b: Operand) -> "Tensor":
    """The greater; NaN if either is."""
    return _binary("MAX", "maximum", "biuf", a, b)


def minimum(a: Operand, b: Operand) -> "Tensor":
    """The lesser; NaN if either is."""
    x, y = meet("minimum", a, b)
    if x.dtype.is_float:
        return negative(maximum(negative(x), negative(y)))
    return where(less(x, y), x, y)


def clip(x: "Tensor", low: Any = None, high: Any = None) -> "Tensor":
    """Each element, but no less than `low` and no more than `high`."""
    x = x if low is None else maximum(x, low)
    return x if high is None else minimum(x, high)


# -- comparisons


def less(a: Operand, b: Operand) -> "Tensor":
    return _compare("CMPLT", "less", a, b)


def greater(a: Operand, b: Operand) -> "Tensor":
    return _compare("CMPGT", "greater", a, b)


def less_equal(a: Operand, b: Operand) -> "Tensor":
    return _or_equal("CMPLE", "CMPLT", "less_equal", a, b)


def greater_equal(a: Operand, b: Operand) -> "Tensor":
    return _or_equal("CMPGE", "CMPGT", "greater_equal", a, b)


def equal(a: Operand, b: Operand) -> "Tensor":
    return _compare("CMPEQ", "equal", a, b)


def not_equal(a: Operand, b: Operand) -> "Tensor":
    return _compare("CMPNE", "not_equal", a, b)


def isnan(x: "Tensor") -> "Tensor":
    return not_equal(x, x)


# -- bits


def bitwise_and(a: Operand, b: Operand) -> "Tensor":
    return _binary("AND", "bitwise_and", "biu", a, b)


def bitwise_or(a: Operand, b: Operand) -> "Tensor":
    return _binary("OR", "bitwise_or", "biu", a, b)


def bitwise_xor(a: Operand, b: Operand) -> "Tensor":
    return _binary("XOR", "bitwise_xor", "biu", a, b)


def invert(x: "Tensor") -> "Tensor":
    check("invert", x, "biu")
    return bitwise_xor(x, True if x.dtype is bool_ else -1 if x.dtype.kind == "i" else promotion.limits(x.dtype)[1])


def left_shift(a: Operand, b: Operand) -> "Tensor":
    return _binary("SHL", "left_shift", "iu", a, b)


def right_shift(a: Operand, b: Operand) -> "Tensor":
    return _binary("SHR", "right_shift", "iu", a, b)


def threefry(counter: Operand, key: Operand) -> "Tensor":
    """Threefry-2x32 of 20 rounds: 64 bits of which half are `counter`'s, under a key of 64 bits; uint64."""
    return _binary("THREEFRY", "threefry", "u", counter, key)


def logical_not(x: "Tensor") -> "Tensor":
    return bitwise_xor(astype(x, bool_), True)


def logical_and(a: Operand, b: Operand) -> "Tensor":
    return bitwise_and(*_truths("logical_and", a, b))


def logical_or(a: Operand, b: Operand) -> "Tensor":
    return bitwise_or(*_truths("logical_or", a, b))


def _truths(function: str, *operands: Operand) -> List[Any]:
    return [astype(value, bool_) if isinstance(value, Value) else bool(value) for value in lift(function, *operands)]


# -- choice and conversion


def where(condition: Operand, a: Operand, b: Operand) -> "Tensor":
    """a where the condition (a bool tensor) holds, else b."""
    test, a, b = lift("where", condition, a, b)
    if not isinstance(a, Value) and not isinstance(b, Value):
        a = test.graph.scalar(a, promotion.with_scalar(promotion.with_scalar(bool_, a), b))
    x, y = meet("where", a, b)
    test = test if isinstance(test, Value) else x.graph.scalar(bool(test), bool_)
    check("where's condition", test, "b")
    return emit("WHERE", (test, x, y), x.dtype, broadcast("where", test.shape, x.shape, y.shape))


def astype(x: "Tensor", dtype: Any) -> "Tensor":
    """x in another dtype: to integers truncating and saturating, floats to nearest, to bool x != 0."""
    kind = _stored("astype", dtype)
    return x if x.dtype is kind else emit("CAST", (x,), kind, x.shape, cast_to=kind.number)


def bitcast(x: "Tensor", dtype: Any) -> "Tensor":
    """x's bytes in another dtype; as numpy's view, a change of item size scales the last axis."""
    kind = _stored("bitcast", dtype)
    if x.dtype is kind:
        return x
    shape = x.shape
    if x.dtype.itemsize != kind.itemsize:
        last = (shape[-1] * x.dtype.itemsize) if shape else None
        if not isinstance(last, int) or last % kind.itemsize:
            raise ShapeError("bitcast: the last axis of %s %s is no whole number of %s" %
                             (x.dtype.name, shape, kind.name))  # fmt: skip
        shape = shape[:-1] + (last // kind.itemsize,)
    return emit("BITCAST", (x,), kind, shape, cast_to=kind.number)


def _stored(function: str, dtype: Any) -> DType:
    kind = dtype_of(dtype)
    if kind.itemsize == 0:
        raise DTypeError("%s: no tensor holds %s" % (function, kind.name), code="BAD_ARGUMENT")
    return kind
