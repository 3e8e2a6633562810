"""A jaxpr, equation by equation, as nodes of a trace.

A value is known (a numpy array: a literal, or computed of such), a tensor of the trace, or
Keys. What is computed of small known numbers alone is computed here, by jax itself: so loops whose
count depends on constants end, and seeds cost nothing on the device.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import jax
import numpy as np
from jax.extend import core

from kiln.dtypes import dtype as dtype_of
from kiln.errors import Unimplemented, UnsupportedDType
from kiln.jax.rules import RULES
from kiln.jax.table import Equation, Keys, refusal
from kiln.value import Value

# Elements up to which known numbers are computed here.
SMALL = 256


def is_keys(aval: Any) -> bool:
    return jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended)


def known(value: Any) -> Any:
    """A constant of a jaxpr: numpy's array, or Keys of known words."""
    if hasattr(value, "dtype") and is_keys(value):
        words = np.asarray(jax.random.key_data(value))
        return Keys(tuple(np.array(words[..., word]) for word in range(words.shape[-1])), value.dtype)
    return np.asarray(value)


class Evaluator:
    """Of one trace (`graph`); `several`: whether it is for several devices, between which no index may reach."""

    def __init__(self, graph: Any, several: bool = False):
        self.graph, self.several = graph, several
        self._calls: List[Any] = []  # the equations that are under way, each within the one before

    def closed(self, jaxpr: Any, values: Sequence[Any]) -> List[Any]:
        return self.evaluate(jaxpr.jaxpr, [known(one) for one in jaxpr.consts], values)

    def evaluate(self, jaxpr: Any, constants: Sequence[Any], values: Sequence[Any]) -> List[Any]:
        """The results of a jaxpr for these arguments. Unimplemented for a primitive without a rule."""
        found: Dict[Any, Any] = {**dict(zip(jaxpr.constvars, constants)), **dict(zip(jaxpr.invars, values))}

        def read(one: Any) -> Any:
            return np.asarray(one.val, one.aval.dtype) if isinstance(one, core.Literal) else found[one]

        for equation in jaxpr.eqns:
            self._calls.append(equation)
            results = self._equation(equation, [read(one) for one in equation.invars])
            self._calls.pop()
            found.update(zip(equation.outvars, results))
        return [read(one) for one in jaxpr.outvars]

    def _equation(self, equation: Any, operands: List[Any]) -> List[Any]:
        row = RULES.get(equation.primitive.name)
        if row is None:
            raise self.refusal()
        if not row.raw and _is_small(equation, operands):
            return self._here(equation, operands)
        e = Equation(self, equation)
        try:
            if row.raw:
                return listed(row.rule(e, *operands))
            keyed = [one for one in operands if isinstance(one, Keys)]
            if keyed:  # what moves keys moves their words
                return self._words(row.rule, e, operands, keyed[0])
            return listed(row.rule(e, *map(self.lift, operands)))
        except UnsupportedDType as error:
            raise self.refusal(error.message) from None

    def refusal(self, why: str = "", remedy: str = "") -> Unimplemented:
        """What is raised for the equation that is under way."""
        return refusal(self._calls, why, remedy)

    def _here(self, equation: Any, operands: List[Any]) -> List[Any]:
        results = equation.primitive.bind(*operands, **equation.params)
        return [np.asarray(one) for one in (results if equation.primitive.multiple_results else [results])]

    def _words(self, rule: Any, e: Equation, operands: List[Any], like: Keys) -> List[Any]:
        columns = [listed(rule(e, *(self.lift(one.words[word] if isinstance(one, Keys) else one) for one in operands)))
                   for word in range(len(like.words))]  # fmt: skip
        return [Keys(words, like.kind) for words in zip(*columns)]

    def lift(self, value: Any) -> Any:
        """Any but Keys as a tensor."""
        if isinstance(value, Value):
            return value
        kind = dtype_of(value.dtype)
        if value.size and value.ndim and value.strides == (0,) * value.ndim:
            return self.graph.full(value.shape, value.flat[0], kind)
        return self.graph.constant(np.ascontiguousarray(value).reshape(value.shape), kind)


def _is_small(equation: Any, operands: Sequence[Any]) -> bool:
    """Whether known numbers alone come in, and few go out."""
    return (
        bool(operands)
        and all(isinstance(one, np.ndarray) and one.size <= SMALL for one in operands)
        and all(one.aval.size <= SMALL and not is_keys(one.aval) for one in equation.outvars)
    )


def listed(results: Any) -> List[Any]:
    return list(results) if type(results) in (list, tuple) else [results]
