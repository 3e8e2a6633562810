"""What takes axes away, and what accumulates along one."""

from __future__ import annotations

import functools
from typing import Any, Callable, List, Tuple

import jax
from jax.extend import core

from kiln import elementwise as ops, functions, movement, reduce as reductions
from kiln.dtypes import bool_, float32, int32
from kiln.jax.table import rule
from kiln.promotion import limits
from kiln.value import count


def wide(x: Any) -> Any:
    """Narrow floats in float32, so that they are rounded once."""
    return ops.astype(x, float32) if x.dtype.is_float and x.dtype.itemsize < 4 else x


def axes_of(e: Any) -> Tuple[int, ...]:
    return tuple(int(axis) for axis in e.params["axes"])


@rule("reduce_sum")
def reduce_sum(e: Any, x: Any) -> Any:
    return reductions.reduce("ADD", x, axes_of(e), False)


@rule("reduce_prod")
def reduce_prod(e: Any, x: Any) -> Any:
    return reductions.reduce("MUL", x, axes_of(e), False)


@rule("reduce_max")
def reduce_max(e: Any, x: Any) -> Any:
    return reductions.max(x, axes_of(e))


@rule("reduce_min")
def reduce_min(e: Any, x: Any) -> Any:
    return reductions.min(x, axes_of(e))


@rule("argmax")
def argmax(e: Any, x: Any) -> Any:
    return ops.astype(reductions.argmax(x, axes_of(e)[0]), e.params["index_dtype"])


@rule("argmin")
def argmin(e: Any, x: Any) -> Any:
    return ops.astype(reductions.argmin(x, axes_of(e)[0]), e.params["index_dtype"])


Fold = Callable[[Any, Any], Any]


def folded(x: Any, axes: Tuple[int, ...], first: Any, fold: Fold) -> Any:
    """Over axes by a function of two tensors, halves against halves; `first` is that of no elements."""
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    x = movement.transpose(x, [*axes, *rest]) if x.ndim else x
    x = (
        movement.reshape(x, (-1, *x.shape[len(axes) :]))
        if x.size
        else x.graph.full((1, *x.shape[len(axes) :]), first, x.dtype)
    )
    odd: List[Any] = []
    while x.shape[0] > 1:
        half = x.shape[0] // 2
        if x.shape[0] % 2:
            odd.append(x[2 * half])
        x = fold(x[:half], x[half : 2 * half])
    return functools.reduce(fold, odd, x[0])


@rule("reduce_and")
def reduce_and(e: Any, x: Any) -> Any:
    if x.dtype is bool_:
        return reductions.all(x, axes_of(e))
    return folded(x, axes_of(e), -1 if x.dtype.kind == "i" else limits(x.dtype)[1], ops.bitwise_and)


@rule("reduce_or")
def reduce_or(e: Any, x: Any) -> Any:
    return reductions.any(x, axes_of(e)) if x.dtype is bool_ else folded(x, axes_of(e), 0, ops.bitwise_or)


@rule("reduce_xor")
def reduce_xor(e: Any, x: Any) -> Any:
    return folded(x, axes_of(e), False if x.dtype is bool_ else 0, ops.bitwise_xor)


@rule("reduce", raw=True)
def general(e: Any, x: Any, *more: Any) -> Any:
    """Of one operand, by a function of two numbers that it gives for whole tensors as well."""
    if len(more) != 1:
        raise e.refuse("it reduces several operands at once")
    x, first = e.run.lift(x), movement.broadcast_to(e.run.lift(more[0]), e.shape)
    if not x.size:
        return first
    fold = _of_arrays(e, closed_of(e.params))
    return fold(first, folded(x, tuple(e.params["dimensions"]), 0, fold))


def _of_arrays(e: Any, computation: Any) -> Fold:
    """A computation of two numbers, for two tensors of one shape."""

    def fold(a: Any, b: Any) -> Any:
        flat = jax.ShapeDtypeStruct((count(a.shape),), a.dtype.numpy)
        jaxpr = jax.make_jaxpr(jax.vmap(core.jaxpr_as_fun(computation)))(flat, flat)
        (value,) = e.run.closed(jaxpr, [movement.flatten(a), movement.flatten(b)])
        return movement.reshape(e.run.lift(value), a.shape)

    return fold


def closed_of(params: Any) -> Any:
    """The closed jaxpr of a computation: two names for it, by the primitive."""
    jaxpr = params["jaxpr"]
    return jaxpr if hasattr(jaxpr, "consts") else core.ClosedJaxpr(jaxpr, params.get("consts", ()))


# -- along an axis


def least_of(kind: Any) -> Any:
    """What max does not see."""
    return False if kind is bool_ else -float("inf") if kind.is_float else limits(kind)[0]


def greatest_of(kind: Any) -> Any:
    return True if kind is bool_ else float("inf") if kind.is_float else limits(kind)[1]


def before(e: Any, x: Any, axis: int, reverse: bool) -> Tuple[Any, Any]:
    """x with one more axis, last: all elements of `axis`; and which of them count for each place of it."""
    size = x.shape[axis]
    last = movement.broadcast_to(movement.expand_dims(movement.moveaxis(x, axis, x.ndim - 1), x.ndim - 1),
                                 (*x.shape[:axis], *x.shape[axis + 1 :], size, size))  # fmt: skip
    to, of = movement.reshape(e.arange(size, int32), (size, 1)), movement.reshape(e.arange(size, int32), (1, size))
    return last, ops.less_equal(to, of) if reverse else ops.less_equal(of, to)


def accumulated(op: str, first: Callable[[Any], Any]) -> Any:
    """Each place's reduction over those up to it, by a mask; the compiler makes one pass of it."""

    def apply(e: Any, x: Any) -> Any:
        axis = e.params["axis"]
        if not x.size:
            return x
        every, counts = before(e, wide(x), axis, e.params["reverse"])
        kept = ops.where(counts, every, every.graph.scalar(first(every.dtype), every.dtype))
        total = reductions.reduce(op, kept, (kept.ndim - 1,), False)
        return ops.astype(movement.moveaxis(total, total.ndim - 1, axis), x.dtype)

    return apply


rule("cumsum")(accumulated("ADD", lambda kind: 0))
rule("cumprod")(accumulated("MUL", lambda kind: 1))
rule("cummax")(accumulated("MAX", least_of))


@rule("cummin")
def cummin(e: Any, x: Any) -> Any:
    mirrored = reductions._mirror(x)
    return reductions._mirror(accumulated("MAX", least_of)(e, mirrored))


@rule("cumlogsumexp")
def cumlogsumexp(e: Any, x: Any) -> Any:
    axis = e.params["axis"]
    every, counts = before(e, x, axis, e.params["reverse"])
    kept = ops.where(counts, every, -float("inf"))
    greatest = reductions.max(kept, kept.ndim - 1, keepdims=True)
    shift = ops.where(functions.absolute(greatest) < float("inf"), greatest, 0)
    total = functions.log(reductions.sum(functions.exp(kept - shift), kept.ndim - 1)) + movement.squeeze(
        shift, kept.ndim - 1
    )
    return movement.moveaxis(total, total.ndim - 1, axis)
