"""Functions within functions, loops and branches.

What jax calls is put where it is called. A loop is unrolled: a scan as often as it is long, a while as long as
what its condition depends on is known here. Of a branch all sides are computed, and one is chosen.
"""

from __future__ import annotations

from typing import Any, List

import numpy as np
from jax.extend import core

from kiln import elementwise as ops, movement
from kiln.jax.reductions import closed_of
from kiln.jax.table import Keys, rule
from kiln.value import Value, emit

# Steps to which loops are unrolled.
MOST = 1024


@rule("jit", "pjit", "closed_call", "core_call", "remat", "remat2", "checkpoint", "custom_jvp_call", "custom_vjp_call",
      "custom_vjp_call_jaxpr", "custom_lin", "xla_call", "composite", raw=True)  # fmt: skip
def call(e: Any, *operands: Any) -> Any:
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        if name in e.params:
            jaxpr = e.params[name]
            return e.run.closed(jaxpr if hasattr(jaxpr, "consts") else core.ClosedJaxpr(jaxpr, ()), list(operands))
    raise e.refuse("it has no function")


@rule("custom_linear_solve", raw=True)
def linear_solve(e: Any, *operands: Any) -> Any:
    """By what solves it; the other functions are of its derivatives."""
    lengths, jaxprs = e.params["const_lengths"], e.params["jaxprs"]
    first = lengths.matvec + lengths.vecmat
    fixed, wanted = operands[first : first + lengths.solve], operands[sum(lengths) :]
    return e.run.closed(jaxprs.solve, [*fixed, *wanted])


def each(value: Any, change: Any) -> Any:
    """A value changed; of keys each word."""
    return Keys(tuple(map(change, value.words)), value.kind) if isinstance(value, Keys) else change(value)


def _row(value: Any, at: int) -> Any:
    return each(value, lambda one: one[at] if isinstance(one, Value) else np.asarray(one[at]))


def settled(value: Any) -> Any:
    """A carried tensor in memory of its own, so that no step computes those before it again."""
    return emit("CONTIGUOUS", (value,), value.dtype, value.shape) if isinstance(value, Value) else value


@rule("scan", raw=True)
def scan(e: Any, *operands: Any) -> Any:
    p = e.params
    length, fixed, carried = p["length"], p["num_consts"], p["num_carry"]
    if length > MOST:
        raise e.refuse("it has %d steps, and at most %d are unrolled" % (length, MOST), "scan over fewer, larger steps")
    consts, carry, rows = operands[:fixed], list(operands[fixed : fixed + carried]), operands[fixed + carried :]
    results: List[List[Any]] = []
    order = range(length - 1, -1, -1) if p["reverse"] else range(length)
    for at in order:
        found = e.run.closed(closed_of(p), [*consts, *carry, *(_row(one, at) for one in rows)])
        carry = [each(one, settled) for one in found[:carried]]
        results.append(found[carried:])
    if p["reverse"]:
        results.reverse()
    return [*carry, *(_stacked(e, [row[at] for row in results], aval) for at, aval in enumerate(e.outs[carried:]))]


def _stacked(e: Any, rows: List[Any], aval: Any) -> Any:
    if not rows:
        return e.graph.zeros(aval.shape, aval.dtype)
    if isinstance(rows[0], Keys):
        return Keys(
            tuple(movement.stack([e.run.lift(row.words[word]) for row in rows]) for word in range(len(rows[0].words))),
            rows[0].kind,
        )
    if all(isinstance(row, np.ndarray) for row in rows):
        return np.stack(rows)
    return movement.stack([e.run.lift(row) for row in rows])


@rule("while", raw=True)
def loop(e: Any, *operands: Any) -> Any:
    p = e.params
    first, second = p["cond_nconsts"], p["body_nconsts"]
    for_condition, for_body, carry = (
        operands[:first],
        operands[first : first + second],
        list(operands[first + second :]),
    )
    for _ in range(MOST + 1):
        (goes_on,) = e.run.closed(p["cond_jaxpr"], [*for_condition, *carry])
        if isinstance(goes_on, Value):
            raise e.refuse("how often it runs depends on values that the device computes",
                           "loop a fixed number of times, and choose with jnp.where")  # fmt: skip
        if not bool(goes_on):
            return carry
        carry = [each(one, settled) for one in e.run.closed(p["body_jaxpr"], [*for_body, *carry])]
    raise e.refuse("it has more than %d steps" % MOST, "loop over fewer, larger steps")


@rule("platform_index", raw=True)
def platform_index(e: Any) -> Any:
    """Which of several ways jax would go on a CPU."""
    fits = [platforms is None or "cpu" in platforms for platforms in e.params["platforms"]]
    return np.asarray(fits.index(True), np.int32)


@rule("cond", raw=True)
def branch(e: Any, which: Any, *operands: Any) -> Any:
    branches = e.params["branches"]
    last = len(branches) - 1
    if not isinstance(which, Value):
        return e.run.closed(branches[min(max(int(which), 0), last)], operands)
    sides = [e.run.closed(one, operands) for one in branches]
    results = []
    for column in zip(*sides):
        result = column[last]
        for at in range(last - 1, -1, -1):
            result = _chosen(e, ops.less_equal(which, at), column[at], result)
        results.append(result)
    return results


def _chosen(e: Any, test: Any, yes: Any, no: Any) -> Any:
    if isinstance(yes, Keys):
        return Keys(tuple(_chosen(e, test, a, b) for a, b in zip(yes.words, no.words)), yes.kind)
    return ops.where(test, e.run.lift(yes), e.run.lift(no))
