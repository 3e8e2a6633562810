"""Sizes that are known when a program runs: polynomials of variables.

    n = graph.variable("n", 1, 1024)
    x = graph.param("x", (n, 64), "float32")
    x.reshape(-1).shape                      # (64*n,)

One program then serves every value of n. Two expressions of one value are equal here
(n + n == 2 * n), so shapes are compared as those of numbers are.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Tuple, Union


class Variable(NamedTuple):
    """An integer that comes with each call, from `least` to `greatest`."""

    slot: int
    name: str
    least: int
    greatest: int


Monomial = Tuple[Variable, ...]  # in order; () is the constant term


class Dim:
    """A sum of products of variables; with ints and other Dims it adds, subtracts and multiplies."""

    __slots__ = ("terms",)
    # numpy then leaves number * size to us.
    __array_ufunc__ = None

    def __array__(self, *args: Any, **named: Any) -> Any:
        raise TypeError("a size has no value before its program runs: graph.dim makes a tensor of it")

    def __init__(self, terms: Dict[Monomial, int]):
        self.terms = tuple(sorted((monomial, factor) for monomial, factor in terms.items() if factor))

    def __add__(self, other: Any) -> "Size":
        return _combine(self, other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> "Size":
        return _combine(self, other, -1)

    def __rsub__(self, other: Any) -> "Size":
        return (self * -1) + other

    def __neg__(self) -> "Size":
        return self * -1

    def __mul__(self, other: Any) -> "Size":
        right = _terms(other)
        if right is None:
            return NotImplemented
        product: Dict[Monomial, int] = {}
        for a, x in self.terms:
            for b, y in right.items():
                key = tuple(sorted(a + b))
                product[key] = product.get(key, 0) + x * y
        return _size(product)

    __rmul__ = __mul__

    def divide(self, other: "Size") -> Optional["Size"]:
        """The quotient by a number or a single product, or None where it does not divide."""
        divisor = list((_terms(other) or {}).items())
        if len(divisor) != 1:
            return 1 if self == other else None
        (variables, factor), quotient = divisor[0], {}
        for monomial, coefficient in self.terms:
            rest = list(monomial)
            for variable in variables:
                if variable not in rest:
                    return None
                rest.remove(variable)
            if coefficient % factor:
                return None
            quotient[tuple(rest)] = coefficient // factor
        return _size(quotient)

    @property
    def greatest(self) -> int:
        """An upper bound, for every value of the variables."""
        return self._bound(True)

    @property
    def least(self) -> int:
        """A lower bound, for every value of the variables."""
        return self._bound(False)

    def _bound(self, upper: bool) -> int:
        total = 0
        for monomial, factor in self.terms:
            low = high = 1
            for variable in monomial:
                ends = [low * variable.least, low * variable.greatest, high * variable.least, high * variable.greatest]
                low, high = min(ends), max(ends)
            total += max(factor * low, factor * high) if upper else min(factor * low, factor * high)
        return total

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Dim) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.terms)

    def __repr__(self) -> str:
        texts = []
        for monomial, factor in reversed(self.terms):
            names = [variable.name for variable in monomial]
            texts.append("*".join(([str(factor)] if factor != 1 or not names else []) + names))
        return " + ".join(texts)


# One axis of a shape. A Dim always has a variable in it: constants are ints.
Size = Union[int, Dim]


def _terms(value: Any) -> Optional[Dict[Monomial, int]]:
    if isinstance(value, Dim):
        return dict(value.terms)
    if hasattr(value, "__index__"):
        return {(): value.__index__()}
    return None


def _size(terms: Dict[Monomial, int]) -> Size:
    terms = {monomial: factor for monomial, factor in terms.items() if factor}
    return Dim(terms) if any(terms) else terms.get((), 0)


def _combine(a: Dim, b: Any, sign: int) -> Any:
    right = _terms(b)
    if right is None:
        return NotImplemented
    total = dict(a.terms)
    for monomial, factor in right.items():
        total[monomial] = total.get(monomial, 0) + sign * factor
    return _size(total)


def divide(a: Size, b: Size) -> Optional[Size]:
    """a / b where it is a size, else None."""
    if isinstance(a, Dim):
        return a.divide(b)
    if isinstance(b, Dim) or b == 0 or a % b:
        return None
    return a // b


def greatest(size: Size) -> int:
    return size.greatest if isinstance(size, Dim) else size
