"""The table of rules: what each of jax's primitives is in Kiln's ops.

    @rule("add", "add_any")
    def add(e, x, y): ...

A rule takes the Equation and its operands as tensors, and gives the result, or a list where the equation has
several. Rules that are `raw` get operands as the evaluator has them: numbers that are known while it traces
(numpy's), tensors, and Keys. What has no row is refused, by name and line.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, NamedTuple, Sequence, Tuple

from jax._src import source_info_util

from kiln.dtypes import DType, dtype as dtype_of
from kiln.errors import Unimplemented


# JAX then names the user's line, and none of this package's, where an equation comes from.
source_info_util.register_exclusion(os.path.dirname(__file__))


class Row(NamedTuple):
    rule: Callable[..., Any]
    raw: bool


RULES: Dict[str, Row] = {}


def rule(*names: str, raw: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Puts a function into the table under the names of primitives."""

    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            RULES[name] = Row(function, raw)
        return function

    return put


class Keys(NamedTuple):
    """jax's random keys: their words, each a tensor (or known) of the keys' shape; and jax's dtype of them."""

    words: Tuple[Any, ...]
    kind: Any


class Equation:
    """One equation of a jaxpr, as its rule sees it.

    `name`, `params`; `ins` and `outs`, jax's types of operands and results; `shape` and `dtype` of the first result;
    `run` is the Evaluator, `graph` its trace.
    """

    def __init__(self, run: Any, equation: Any):
        self.run = run
        self.name, self.params = equation.primitive.name, equation.params
        self.ins = [variable.aval for variable in equation.invars]
        self.outs = [variable.aval for variable in equation.outvars]

    @property
    def graph(self) -> Any:
        return self.run.graph

    @property
    def shape(self) -> Tuple[int, ...]:
        return tuple(self.outs[0].shape)

    @property
    def dtype(self) -> DType:
        return dtype_of(self.outs[0].dtype)

    def arange(self, size: int, kind: Any) -> Any:
        return self.graph.arange(size, kind)

    def refuse(self, why: str = "", remedy: str = "") -> Unimplemented:
        return self.run.refusal(why, remedy)


def refusal(calls: Sequence[Any], why: str, remedy: str) -> Unimplemented:
    """What is raised for the last of these equations, each of which is within the one before: the primitive, what it
    was asked, and the user's line."""
    equation, shown = calls[-1], []
    for name, value in sorted(equation.params.items()):
        text = repr(value) if not hasattr(value, "eqns") and not hasattr(value, "jaxpr") else "..."
        shown.append("%s=%s" % (name, text if len(text) <= 80 else text[:77] + "..."))
    operands = ", ".join(str(variable.aval) for variable in equation.invars)
    return Unimplemented("jax's %s(%s)[%s]%s has no rule%s" %
                         (equation.primitive.name, operands, ", ".join(shown), _line_of(calls), why and ": " + why),
                         code="NOT_IMPLEMENTED", remedy=remedy or "write it in other functions")  # fmt: skip


def _line_of(calls: Sequence[Any]) -> str:
    """at file:line (function) of the user's code: of the innermost that is not jax's own."""
    lines = [source_info_util.summarize(equation.source_info) for equation in reversed(calls)]
    return next((" at " + line for line in lines if line), "")
