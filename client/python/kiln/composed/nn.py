"""Compositions that models are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from kiln.elementwise import add, maximum, multiply, subtract
from kiln.functions import exp, exp2, log, reciprocal, rsqrt
from kiln.reduce import max, mean, reduce, var
from kiln.composed.special import tanh
from kiln.value import axes_of

if TYPE_CHECKING:
    from kiln.tensor import Tensor


def softmax(x: "Tensor", axis: Any = -1) -> "Tensor":
    """exp(x) / sum(exp(x)) along axes, safe for large x."""
    powers = exp(subtract(x, max(x, axis, keepdims=True)))
    # One division a row.
    return multiply(powers, reciprocal(reduce("ADD", powers, axes_of("softmax", axis, x.ndim), True)))


def log_softmax(x: "Tensor", axis: Any = -1) -> "Tensor":
    shifted = subtract(x, max(x, axis, keepdims=True))
    return subtract(shifted, log(reduce("ADD", exp(shifted), axes_of("log_softmax", axis, x.ndim), True)))


def logsumexp(x: "Tensor", axis: Any = None, *, keepdims: bool = False) -> "Tensor":
    axes = axes_of("logsumexp", axis, x.ndim)
    greatest = max(x, axes, keepdims=True)
    total = log(reduce("ADD", exp(subtract(x, greatest)), axes, True)) + greatest
    return total if keepdims else total.reshape(tuple(size for at, size in enumerate(x.shape) if at not in axes))


def sigmoid(x: "Tensor") -> "Tensor":
    return reciprocal(add(1, exp2(multiply(x, -1.4426950408889634))))


def relu(x: "Tensor") -> "Tensor":
    return maximum(x, 0)


def gelu(x: "Tensor") -> "Tensor":
    """By tanh, as most models have it."""
    return multiply(multiply(0.5, x), add(1, tanh(multiply(0.7978845608028654, x + 0.044715 * x * x * x))))


def silu(x: "Tensor") -> "Tensor":
    return multiply(x, sigmoid(x))


def layer_norm(x: "Tensor", weight: Optional[Any] = None, bias: Optional[Any] = None, *, axis: Any = -1,
               epsilon: float = 1e-5) -> "Tensor":
    """(x - mean) / sqrt(var + epsilon) along axes, then times weight and plus bias."""
    result = multiply(subtract(x, mean(x, axis, keepdims=True)), rsqrt(var(x, axis, keepdims=True) + epsilon))
    result = result if weight is None else multiply(result, weight)
    return result if bias is None else add(result, bias)
